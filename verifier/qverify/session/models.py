"""Opens the files of -m and checks that they belong together. Files are recognised by content, never by extension."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from qverify_agents.pieces import Pieces

from qverify.arithmetic.workers import submit
from qverify.compare.stated_arithmetic import read_stated
from qverify.compiler.compile_model import CompiledModel
from qverify.errors import BadFileError, BlockedError, FloatModelError, UnsupportedError, UsageError
from qverify.inputs.random_inputs import FIRST_STATES
from qverify.model_bin.graph import MAX_DIM, Graph
from qverify.model_bin.islands import describe_islands
from qverify.model_bin.records import decode, encode, encode_pieces
from qverify.model_bin.units import units
from qverify.onnx_model.load import read_file, read_model
from qverify.onnx_model.mapped_model import MappedModel
from qverify.onnx_model.stated_names import names_in
from qverify.plural import count
from qverify.session.compile_again import check_compiled, compile_again, forms_of
from qverify.session.model_file import ModelData, ModelFile, check_first
from qverify.session.stated_arithmetics import open_arithmetic
from qverify.session.vendor_quantized import compare_with_tests, espdl_files, quantize_as_vendor
from qverify.sides.host_islands import HostIslands
from qverify.sides.plain_onnxruntime import start_early

if TYPE_CHECKING:
    from qverify.onnx_model.dequantized_names import OnnxNames
    from qverify.report.learned import Arithmetic
    from qverify.sequences.state import State
    from qverify.session.tflite_alone import PreparedTflite, TfliteAlone
    from qverify.sides.engine_reference import EngineReference


Content = bytes | memoryview | Pieces
CANNOT_RUN = "LiteRT cannot run it"  # in the reason of a file on which LiteRT ends its process


@dataclass
class Models:
    """The opened models of -m.

    Attributes:
        graph: the compiled network that is judged.
        content: the bytes of model.bin, compiled in memory if no file was given; empty with `engine`. `binary` joins them.
        compiled: the compiled quantized ONNX or .tflite; None if -m has neither.
        source: the bytes of the quantized ONNX, or the mapped file; None without one. `original` joins them.
        rows: name, hash and kind of each file, for the report.
        notes: lines for the report.
        caveats: reservations that every verdict states.
        tflite: the .tflite that a board runs by LiteRT, and its map of tensors (sides/litert_board.py).
        alone: the .tflite if it is the whole model, so that LiteRT on this host is the reference.
        engine: the engine of --reference-engine; there is then no integer graph.
        float_onnx: the float ONNX that a vendor's toolkit quantized (--quantization); None without one.
        variables: states of a sequence that the file states: the variables of a .tflite.
        vendor_names: names of the toolkit's tensors, each with that of the tensor of `original` whose values it has.
    """

    graph: Graph
    content: Content
    compiled: CompiledModel | None = None
    source: ModelData | None = None
    rows: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)
    tflite: tuple[bytes, dict[str, dict[str, Any]]] | None = None
    alone: TfliteAlone | None = None
    engine: EngineReference | None = None
    float_onnx: bytes | None = None
    vendor_names: dict[str, str] = field(default_factory=dict)
    variables: tuple[State, ...] = ()

    @property
    def binary(self) -> bytes:
        """The bytes of model.bin."""
        return self.content if isinstance(self.content, bytes) else bytes(self.content)

    @property
    def original(self) -> bytes | None:
        """The bytes of the quantized ONNX; None without one."""
        return self.source if self.source is None or isinstance(self.source, bytes) else bytes(self.source)

    @property
    def integer_onnx(self) -> bytes | None:
        """The serialized integer ONNX; None without a quantized ONNX."""
        return None if self.compiled is None else self.compiled.integer_onnx

    def release(self) -> None:
        """Lets the system take back the memory of mapped weights; they are read again where they are used again."""
        if isinstance(self.source, MappedModel):
            self.source.release()

    @property
    def no_simulator(self) -> str:
        """The reason why the simulator cannot be a side; "" if it can."""
        return "" if self.alone is None else self.alone.no_simulator

    @cached_property
    def binary_sha256(self) -> str:
        """The SHA-256 of model.bin, in hex."""
        known = next((row["sha256"] for row in self.rows if row["kind"] == "model.bin"), "")
        return known or Pieces([self.content] if not isinstance(self.content, Pieces) else self.content.pieces).sha256()

    @cached_property
    def onnx_names(self) -> OnnxNames:
        """The names of the ONNX that the graph does not have itself; none without a quantized ONNX."""
        from qverify.onnx_model.dequantized_names import OnnxNames, computed_names, dequantized_names, quantized_names

        known = {*self.graph.inputs, *self.graph.observable()}
        if self.source is None:
            return OnnxNames()
        names = dequantized_names(self.source).items()
        dequantized = {real: stored for real, stored in names if stored in known and real not in known}
        computed = computed_names(self.source)
        made = frozenset(self.graph.observable()) - computed - {*self.graph.inputs}
        inner = frozenset(computed - {*known, *dequantized})
        return OnnxNames(dequantized, inner, made, quantized_names(self.source))

    @cached_property
    def islands(self) -> HostIslands | None:
        """The object that computes the graph's host islands; None if the graph has none."""
        if not self.graph.islands or self.compiled is None:
            return None
        if self.alone is None:
            return HostIslands(self.compiled.integer_onnx, self.graph)
        from qverify.sides.litert_islands import LiteRtIslands

        return LiteRtIslands(self.alone.data, self.alone.converted, self.graph, self.alone.kernels)


def parse_shapes(values: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Parses NAME=1,3,224,224 (or 1x3x224x224) options; a dim may be 0. Returns the shapes by input name. Raises
    UsageError for any other form, and for two shapes of one input."""
    shapes: dict[str, tuple[int, ...]] = {}
    for value in values:
        name, _, dims = value.rpartition("=")
        if "{" in dims:
            raise UsageError(f"--shape {value}: only qverify verify takes several shapes; give one")
        try:
            shape = tuple(int(d) for d in dims.replace("x", ",").split(","))
        except ValueError:
            name, shape = "", ()
        if not name or any(not 0 <= d <= MAX_DIM for d in shape):
            raise UsageError(f"--shape {value}: wanted NAME=1,3,224,224 with dims of 0 to {MAX_DIM}")
        if shapes.setdefault(name, shape) != shape:
            raise UsageError(
                f"--shape {value}: another --shape gives {name!r} the dims {_join_dims(shapes[name])}; give one"
            )
    return shapes


def _join_dims(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape))


def open_models(
    paths: list[str],
    shapes: dict[str, tuple[int, ...]] | None = None,
    allow_other: bool = False,
    host: bool = True,
    arithmetic: Arithmetic | None = None,
    quantization: tuple[str, ...] = (),
    operators: bool = False,
    signature: str = "",
    steps: bool = False,
) -> Models:
    """Opens the files of -m. allow_other: accept a model.bin compiled from another ONNX, with a caveat. host: nodes
    that no kernel serves may be computed on the host. arithmetic: the one that the board is stated to have. quantization: files
    in which a vendor's toolkit states how it quantized the float ONNX of -m. operators: a .tflite that cannot be converted is
    opened by its own operators, without a simulator. signature: the one of a .tflite that is verified, "" for the first. steps: of a
    sequence, for which the variables of a .tflite become inputs and outputs. Raises UsageError or BadFileError for files that are not models,
    two files of one kind, and a model.bin compiled from another ONNX (unless allow_other)."""
    binary: ModelFile | None = None
    quantized: ModelFile | None = None
    tflite: ModelFile | None = None
    source: ModelFile | None = None
    files = []
    for path in paths:
        files.append(file := ModelFile.read(path))
        if file.kind == "model.bin":
            binary = check_first(binary, file)
        elif file.kind == "quant.onnx":
            quantized = check_first(quantized, file)
        elif file.kind == "tflite":
            tflite = check_first(tflite, file)
        elif quantization or file.kind == "espdl":
            source = check_first(source, file)
        else:
            raise FloatModelError(
                f"{path}: got a float ONNX (it has no quantized operator), wanted the quantized ONNX, model.bin or both; "
                "`qverify triage` takes a float ONNX, --quantization FILE states how a vendor's toolkit quantized it"
            )
    if quantization or source is not None:
        return _open_as_quantized(source, binary, quantization, (shapes, host, arithmetic), paths)
    if signature and (tflite is None or quantized is not None):
        raise UsageError(f"--signature {signature}: a .tflite alone has signatures; -m {','.join(paths)}")
    if tflite is not None and quantized is None:
        how = operators, signature, steps, host
        return _state(_open_alone(tflite, binary, files, shapes, arithmetic, how), arithmetic)
    models = _state(_open(binary, quantized, files, shapes, allow_other, host, arithmetic), arithmetic)
    if quantized is not None:
        models.vendor_names = names_in(quantized.data, quantized.path)
    if tflite is not None and quantized is not None:
        models.tflite = tflite.data, read_tensor_map(tflite.path, quantized.path)
    return models


def _open_as_quantized(
    source: ModelFile | None,
    binary: ModelFile | None,
    files: tuple[str, ...],
    how: tuple[dict[str, tuple[int, ...]] | None, bool, Arithmetic | None],
    paths: list[str],
) -> Models:
    """Returns the models of a float ONNX that a vendor's toolkit quantized, or of an .espdl, which states that itself. Raises
    UsageError for other files of -m."""
    if source is not None and source.kind == "espdl":
        if files:
            raise UsageError(f"--quantization {files[0]}: {source.path} states its own; leave it out")
        files = espdl_files(source.path)
    elif source is None or len(paths) != 1:
        raise UsageError(
            f"--quantization {files[0]}: -m {','.join(paths)}; wanted the float ONNX that was quantized, alone"
        )
    if source.kind == "espdl" and len(paths) > (1 if binary is None else 2):
        raise UsageError(f"-m {','.join(paths)}: {source.path} holds the network; give it alone, or with its model.bin")
    data = source.data if isinstance(source.data, bytes) else read_model(source.path)  # a large one was mapped
    made = quantize_as_vendor(source.path, data, files)
    digest = submit(lambda: hashlib.sha256(made.onnx).hexdigest())
    quantized = ModelFile(f"{source.path} (quantized)", made.onnx, "quant.onnx", digest, None)
    shapes, host, arithmetic = how
    if arithmetic is None and made.arithmetic:
        arithmetic = open_arithmetic(made.arithmetic)
    rows = [f for f in (source, binary, quantized) if f is not None]
    models = _state(_open(binary, quantized, rows, shapes, False, host, arithmetic), arithmetic)
    models.notes += [
        f"{os.path.basename(source.path)} was quantized as {os.path.basename(files[0])} states",
        *made.changes,
    ]
    models.float_onnx, models.vendor_names = data, made.names
    if made.tests is not None:
        notes, caveats = compare_with_tests(models.graph, *made.tests)
        models.notes, models.caveats = [*models.notes, *notes], [*models.caveats, *caveats]
    return models


def _state(models: Models, arithmetic: Arithmetic | None) -> Models:
    """Returns the models with a caveat that names the arithmetic under which they were compiled. Raises UsageError if it
    is another one than that of --arithmetic, or none."""
    stated = read_stated(models.graph)
    if arithmetic is not None and (stated is None or dict(stated.forms) != forms_of(arithmetic).stored()["ops"]):
        compiled = "without an arithmetic" if stated is None else f"under the arithmetic {stated.name}"
        raise UsageError(
            f"--arithmetic {arithmetic.name}: the model.bin of -m was compiled {compiled}; compile it with --arithmetic, or leave it out"
        )
    if stated is not None:
        models.caveats.append(stated.describe(units(models.graph), models.graph))
        ops = {node.op for node in models.graph.nodes}
        if not any(form and op.partition(", ")[0] in ops for op, form in stated.forms.items()):
            models.caveats.append(f"arithmetic {stated.name} holds for none of the network's ops")
    return models


def _open_alone(
    tflite: ModelFile,
    binary: ModelFile | None,
    files: list[ModelFile],
    shapes: dict[str, tuple[int, ...]] | None,
    arithmetic: Arithmetic | None,
    how: tuple[bool, str, bool, bool],
) -> Models:
    """Returns the models of a .tflite without an ONNX. how: operators, signature, steps and host as for open_models(). Raises BadFileError for a model.bin
    that the .tflite does not compile to."""
    if shapes:
        raise UsageError(f"--shape is for a dynamic ONNX; the shapes of {tflite.path} are fixed")
    from qverify.session.tflite_alone import convert_tflite, prepare_one_step, prepare_tflite, with_subgraphs_inlined

    forms = None if arithmetic is None else forms_of(arithmetic)
    operators, signature, steps, host = how
    compiles = not operators or binary is not None
    if compiles and not steps:
        prepared = prepare_one_step(tflite.path, tflite.data, signature)
    else:
        prepared = prepare_tflite(tflite.path, tflite.data, signature, steps)
    if compiles:
        prepared = with_subgraphs_inlined(prepared)
    try:
        compiled, alone = convert_tflite(prepared, forms, host and compiles)
    except UnsupportedError as error:
        if compiles:
            raise with_next_step(error, tflite.path) from error
        if arithmetic is not None:
            why = f"--arithmetic {arithmetic.name}: the simulator computes it, and does not run this file"
            raise UsageError(f"{why}: {error}") from error
        try:
            return _open_operators(prepared, files, error)
        except (BadFileError, UnsupportedError):  # a variable without a first value, for one
            again = prepare_one_step(tflite.path, tflite.data, signature)
            if not again.variables:
                raise
            return _open_operators(again, files, error)
    under = "in LiteRT's arithmetic" if arithmetic is None else f"under the arithmetic {arithmetic.name}"
    notes = [*compiled.notes, f"the .tflite was converted and compiled {under}"]
    data = encode(compiled.graph)
    if binary is not None:
        data, given_graph = binary.data, _decode_file(binary)
        if encode(replace(given_graph, meta={})) != encode(replace(compiled.graph, meta={})):
            raise BadFileError(
                f"{binary.path}: not what {os.path.basename(tflite.path)} compiles to; leave it out, or give the quantized ONNX"
            )
        given_graph.meta.pop(FIRST_STATES, None)
        given_graph.meta |= {k: v for k, v in compiled.graph.meta.items() if k == FIRST_STATES}
        compiled.graph = given_graph
    tflite_and_map, rows = (alone.data, alone.converted.tensors), [f.row() for f in files]
    islands = [describe_islands(compiled.graph.islands)] if compiled.graph.islands else []
    caveats = [*islands, *prepared.caveats]
    states = _variables(prepared, compiled.graph) if prepared.variables else ()
    models = Models(compiled.graph, data, compiled, None, rows, notes, caveats, tflite=tflite_and_map, alone=alone)
    models.variables = states
    return models


def _variables(prepared: PreparedTflite, graph: Graph) -> tuple[State, ...]:
    """Returns the variables of a .tflite as states: the last inputs and outputs of the network, in their order; an output may
    be a variable's, too. Raises UnsupportedError if the network has others."""
    from qverify.sequences.state import State

    number, model = len(prepared.variables), prepared.model
    try:
        made = dict(zip(dict.fromkeys(model.outputs), graph.network_outputs(), strict=True))
        given = dict(zip(model.inputs, graph.inputs, strict=True))
    except ValueError:
        why = f"{count(number, 'variable')} beside inputs or outputs that are left out"
        raise UnsupportedError(f"{model.file}: {why}") from None
    first = {name: bytes.fromhex(text) or None for name, text in graph.meta[FIRST_STATES].items()}
    pairs = zip(model.outputs[-number:], model.inputs[-number:], strict=True)
    return tuple(State(made[o], given[i], raw=first[given[i]], found=True) for o, i in pairs)


def _open_operators(prepared: PreparedTflite, files: list[ModelFile], no_converter: UnsupportedError) -> Models:
    """Returns the models of a .tflite that LiteRT alone runs."""
    from qverify.session.tflite_alone import open_operators_alone

    graph, notes, alone = open_operators_alone(prepared, no_converter)
    tflite_and_map, rows = (alone.data, alone.converted.tensors), [f.row() for f in files]
    caveats = [*prepared.caveats]
    models = Models(graph, b"", None, None, rows, notes, caveats, tflite=tflite_and_map, alone=alone)
    models.variables = _variables(prepared, graph) if prepared.variables else ()
    return models


def with_next_step(error: UnsupportedError, path: str, command: str = "") -> UnsupportedError:
    """Returns the refusal of a .tflite with what runs it all the same. command: that of these options, where it is not the one
    that was given."""
    if CANNOT_RUN in str(error):  # not by itself, either
        return error
    step = f"Next: {command}-m {os.path.basename(path)} --runtime litert -b BOARD, which needs no converter"
    if "READ_VARIABLE" in str(error) or "ASSIGN_VARIABLE" in str(error):
        step = f"Next: {command}{f'-m {os.path.basename(path)} ' if command else ''}--steps N, which makes the file's variables states of a sequence"
    if isinstance(error, BlockedError):
        return BlockedError(error.header, [*error.lines, step])
    return UnsupportedError(f"{error}. {step}")


def _decode_file(binary: ModelFile) -> Graph:
    """Returns the graph of a model.bin. Raises BadFileError, which names the file."""
    try:
        return decode(binary.data)
    except BadFileError as error:
        raise BadFileError(f"{binary.path}: {error}") from error


def read_tensor_map(tflite: str, quantized: str) -> dict[str, dict[str, Any]]:
    """Returns the map of tensors that lies beside the quantized ONNX or beside the .tflite. Raises UsageError if there
    is none."""
    from qverify.sides.litert_board import read_map

    for model_path in (quantized, tflite):
        if os.path.isfile(map_path := f"{model_path}.map.json"):
            return read_map(read_file(map_path), map_path)
    raise UsageError(
        f"{tflite}: no map of its tensors; wanted {quantized}.map.json (ONNX tensor to its index in the .tflite)"
    )


def _open(
    binary: ModelFile | None,
    quantized: ModelFile | None,
    files: list[ModelFile],
    shapes: dict[str, tuple[int, ...]] | None,
    allow_other: bool,
    host: bool,
    arithmetic: Arithmetic | None,
) -> Models:
    """Returns the models of a quantized ONNX, a model.bin, or both."""
    if binary is None and quantized is None:
        raise UsageError("-m names no quantized ONNX and no model.bin: nothing to verify; give one or both")
    graph = None if binary is None else _decode_file(binary)
    if quantized is None:
        assert graph is not None and binary is not None
        if shapes:
            raise UsageError("--shape is for a dynamic ONNX; -m names only a model.bin, whose shapes are fixed")
        if graph.islands:
            raise UsageError(
                f"{binary.path}: {describe_islands(graph.islands)}, by onnxruntime; give the quantized ONNX that it was compiled from, too"
            )
        caveats = check_compiled(graph, binary.path)
        return Models(graph, binary.data, rows=[f.row() for f in files], caveats=caveats)
    start_early()
    compiled, caveats = compile_again(quantized, graph, shapes, allow_other, host, arithmetic)
    judged = compiled.graph if graph is None else graph
    if judged.islands:
        if not host:
            raise UsageError(f"{describe_islands(judged.islands)}, which --no-host refuses")
        caveats = [describe_islands(judged.islands), *caveats]
    rows = [f.row() for f in files]
    if graph is None or binary is None:
        return Models(
            compiled.graph,
            Pieces(encode_pieces(compiled.graph)),
            compiled,
            quantized.data,
            rows,
            [*compiled.notes, "no model.bin given: compiled in memory"],
            caveats,
        )
    return Models(graph, binary.data, compiled, quantized.data, rows, compiled.notes, caveats)
