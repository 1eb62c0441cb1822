"""Compiles quant.onnx to integer ONNX and to a Graph, and checks every unit against the original ONNX."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import onnx

from qverify.arithmetic.forms import FormsOfOps
from qverify.arithmetic.stated_multipliers import MULTIPLIERS, read_multipliers
from qverify.arithmetic.workers import submit
from qverify.closest_names import did_you_mean
from qverify.compiler.attributes import check_attributes
from qverify.compiler.blockers import Blockers
from qverify.compiler.builder import Builder
from qverify.compiler.check_units import check_against_original
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.forms_of_nodes import with_forms
from qverify.compiler.host_islands import HostNodes, check_host_runs, check_something_is_left
from qverify.compiler.integer_blocks import split_integer_blocks
from qverify.compiler.integer_model import IntegerModel, Piece, address
from qverify.compiler.lowerings import lowerings
from qverify.compiler.match import MatchedModel, Watch, lower_node, match
from qverify.compiler.preprocessing import add_preprocessing
from qverify.compiler.reinterpret import reinterpret
from qverify.compiler.same_bits import check_same_bits
from qverify.compiler.stated_quantization import Stated
from qverify.compiler.step_over_movements import step_over_movements
from qverify.compiler.strip_quantization import Ends, strip_quantization
from qverify.compiler.unfuse_activations import unfuse_activations
from qverify.compiler.unit import LoweredUnit
from qverify.compiler.unpack_weights import (
    compute_in_float32,
    notes_on_levels,
    stores_weights_in_blocks,
    unpack_weights,
)
from qverify.errors import BadFileError, RefusedModelError, UnsupportedError
from qverify.model_bin.check import check_graph
from qverify.model_bin.graph import ROUNDINGS, Graph
from qverify.model_bin.islands import sort_nodes
from qverify.model_bin.units import INNER, PARTS, is_part
from qverify.onnx_model.decompose import DecomposedModel, check_same_values, decompose
from qverify.onnx_model.engine import describe_refusal
from qverify.onnx_model.graph_view import GraphView
from qverify.onnx_model.held_data import embed_held
from qverify.onnx_model.light_model import LightModel, light_model
from qverify.onnx_model.load import is_quantized, load, parse
from qverify.onnx_model.mapped_model import MappedModel
from qverify.onnx_model.opsets import notes_on_newest
from qverify.onnx_model.saturated_constants import find_saturated
from qverify.onnx_model.widen_float16 import has_float16
from qverify.tensors.spec import TensorSpec

STORED_OPTIONS = ("rounding", "align", "fuse", "strip_io_quant", "inputs", "host")


@dataclass(frozen=True, slots=True)
class CompilerOptions:
    """Options of compile_model.

    Attributes:
        rounding: a name in ROUNDINGS.
        align: the innermost dim of every tensor is stored in multiples of this many elements.
        check: whether to check every unit against the original ONNX.
        fuse: whether an activation is part of the node before it.
        strip_io_quant: whether inputs and outputs are integers.
        shapes: dims of dynamic inputs.
        folder: the folder with external data.
        inputs: network input to the description (INPUTS.md) of the bytes that the board receives for it.
        host: whether nodes that no kernel serves are computed on the host.
        arithmetic: the forms of a board by op, or None. It needs rounding ref-exact, in which the other ops compute.
        quantization: that of tensors of 8 bits, by their names, if another file states it, whose ONNX may only move them.
        floats: whether the model may be one without a quantized tensor, whose float tensors NAME@PART are parts of the
            computation of NAME that no comparison expects (a .tflite).
    """

    rounding: str = "ref-exact"
    align: int = 1
    check: bool = True
    fuse: bool = True
    strip_io_quant: bool = False
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    folder: str = ""
    inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    host: bool = False
    arithmetic: FormsOfOps | None = None
    quantization: Stated = field(default_factory=dict)
    floats: bool = False

    def stored(self) -> dict[str, Any]:
        """Returns the options that affect the bytes of model.bin, for its meta section."""
        options = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in ("check", "folder", "quantization", "floats")
        }
        options["arithmetic"] = None if self.arithmetic is None else self.arithmetic.stored()
        return {k: v for k, v in options.items() if v or k not in ("inputs", "host", "arithmetic")}

    @staticmethod
    def restored(stored: dict[str, Any], folder: str, shapes: dict[str, tuple[int, ...]]) -> CompilerOptions:
        """Returns the options that a model.bin stores, with `shapes` added and without the check. Raises BadFileError
        if they cannot be read."""
        try:
            options = {k: stored[k] for k in STORED_OPTIONS if k in stored}
            dims = {k: tuple(int(d) for d in v) for k, v in stored.get("shapes", {}).items()}
            arithmetic = FormsOfOps.restored(stored["arithmetic"]) if "arithmetic" in stored else None
            shapes = {**dims, **shapes}
            return CompilerOptions(**options, check=False, shapes=shapes, folder=folder, arithmetic=arithmetic)
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise BadFileError(f"model.bin: its stored options cannot be read: {error}") from error


@dataclass(slots=True)
class CompiledModel:
    """The result of compile_model.

    Attributes:
        graph: the graph that model.bin contains.
        integer_source: the integer ONNX; serialized if the host computes nodes of it.
        notes: remarks about the arithmetic for reports.
        saturated: constants that the exporter saturated, each with the fact in words.
    """

    graph: Graph
    integer_source: IntegerModel | bytes
    notes: list[str] = field(default_factory=list)
    saturated: list[tuple[str, str]] = field(default_factory=list)

    @property
    def integer(self) -> list[Piece]:
        """Returns the pieces of the integer ONNX's file."""
        return [self.integer_source] if isinstance(self.integer_source, bytes) else self.integer_source.pieces()

    @property
    def integer_onnx(self) -> bytes:
        """Returns the integer ONNX, serialized."""
        return b"".join(self.integer)

    def integer_model(self) -> LightModel:
        """Returns the integer ONNX as a LightModel, whose large constants are the compiler's arrays."""
        return (
            light_model(onnx.ModelProto.FromString(self.integer_source))
            if isinstance(self.integer_source, bytes)
            else self.integer_source.light()
        )

    def adopt(self, graph: Graph) -> None:
        """Replaces the graph by the one read from model.bin, which is run instead. Large constants of the integer ONNX
        are replaced by equal ones of the new graph, so that they are in memory only once."""
        if not isinstance(self.integer_source, bytes):
            old, new = self.graph.constants, graph.constants
            self.integer_source = self.integer_source.sharing(
                {address(old[n]): new[n] for n in old.keys() & new.keys()}
            )
        graph.real_tables, graph.folded_norms = self.graph.real_tables, self.graph.folded_norms
        self.graph = graph


def compile_model(
    source: bytes | MappedModel,
    name: str,
    options: CompilerOptions | None = None,
    watch: Watch | None = None,
    parsed: onnx.ModelProto | None = None,
    sha256: str = "",
) -> CompiledModel:
    """Compiles an ONNX file.

    Args:
        source: the bytes of the file, or the mapped file.
        name: the name of the file in messages.
        options: None for the defaults.
        watch: called with the progress of matching, lowering and checking.
        parsed: the model that parse() returned for `source`, if the caller has it; it is changed.
        sha256: the digest of `source`, if the caller has it.

    Raises BadFileError for a damaged or unquantized file, or one that onnxruntime refuses, UnsupportedError for a node that
    cannot be compiled."""
    options = options or CompilerOptions()
    _check_options(options)
    try:
        return _compile(source, name, options, watch, parsed, sha256)
    except RefusedModelError as error:
        raise RefusedModelError(describe_refusal(name, str(error))) from error


def _compile(
    source: bytes | MappedModel,
    name: str,
    options: CompilerOptions,
    watch: Watch | None,
    parsed: onnx.ModelProto | None,
    sha256: str,
) -> CompiledModel:
    """Returns compile_model() of checked options."""
    parsed = parse(source, name) if parsed is None else parsed
    options = _with_multipliers(options, parsed, name)
    in_blocks, quantized = stores_weights_in_blocks(parsed), is_quantized(parsed)
    notes = [*notes_on_newest(parsed), *(notes_on_levels(parsed) if in_blocks else [])]
    constants = {i.name for i in parsed.graph.initializer}
    inputs = [i.name for i in parsed.graph.input if i.name not in constants]
    model = load(parsed, name, options.folder, options.shapes)
    empty = {i.name: [i.data_type, *i.dims] for i in model.graph.initializer if 0 in i.dims and i.name in inputs}
    if not (options.floats or options.quantization or is_quantized(model)) and not (
        quantized and (in_blocks or has_float16(model))
    ):
        raise BadFileError(
            f"{name}: not quantized (no QuantizeLinear, no QLinear operator). Quantize it first: qverify quantize {name} -i PICTURES -o quant.onnx"
        )
    source_sha256 = submit(partial(_sha256_of, source) if not sha256 else partial(str, sha256), inline=bool(sha256))
    mapped = source if isinstance(source, MappedModel) else None  # has the held constants
    del source, parsed  # frees the file's bytes, unless the caller keeps them
    decomposed = decompose(model, name, options.shapes, lowerings().read)
    if options.check:
        check_same_values(decomposed)
    notes += [f"input {n}: it has no elements and is not read" for n in empty] + _notes_on_order(decomposed)
    loaded = compute_in_float32(split_integer_blocks(decomposed.model))
    model = loaded if options.floats else step_over_movements(loaded)  # a .tflite moves what it stores
    if options.check and loaded is not model:
        check_same_bits(loaded, model)
    model, stated = reinterpret(model, options.quantization)
    stated = {**options.quantization, **stated}
    model, ends = _strip_ends(model, name, options)
    lowered = _lower(unpack_weights(model), name, options, decomposed.refused, stated, watch)
    graph, saturated = lowered.graph, find_saturated(lowered.matched.view)
    original = light_model(model, lowered.matched.view.constants) if options.check else None
    del model, loaded, decomposed  # frees their constants
    notes += [
        f"{n.name}: NonMaxSuppression has the {graph.spec(n.name).shape[0]} rows that it may keep; those it does not keep are -1"
        for n in graph.nodes
        if n.op == "non_max_suppression"
    ]
    check_graph(graph)  # refuse what model.bin cannot contain before anything is run
    compiled = CompiledModel(graph, _integer(lowered), notes, saturated)
    integer_sha256 = submit(partial(_sha256, compiled.integer))
    graph.meta = {
        "source_name": name.replace("\\", "/").rsplit("/", 1)[-1],
        "source_sha256": source_sha256.result(),
        "integer_sha256": "",
        "options": replace(options, host=lowered.host is not None).stored(),
        **graph.meta,  # nodes without the form of the arithmetic
        **({"stripped": ends} if ends else {}),
        **({"empty_inputs": empty, "input_order": inputs} if empty else {}),
    }
    if original is not None:  # the check is always of ref-exact: other rounding modes differ by the user's choice
        exact = replace(options, rounding="ref-exact", arithmetic=None)
        exact_graph = graph if options == exact else lowered.lower_again(exact)
        graph.meta["check"] = check_against_original(exact_graph, original, watch)
    graph.meta["integer_sha256"] = integer_sha256.result()
    lowered.matched.view.constants = {}  # units and view refer to each other, so that the view is freed late
    if not options.fuse:
        compiled.graph = unfuse_activations(graph)
    renamed = {real: whole for whole, real in ends.get("inputs", {}).items()}
    compiled.graph = add_preprocessing(compiled.graph, options.inputs, renamed)
    if mapped is not None:
        mapped.release()
    return compiled


def _with_multipliers(options: CompilerOptions, parsed: onnx.ModelProto, name: str) -> CompilerOptions:
    """Returns the options, with the multipliers that the model states if there is an arithmetic. Raises BadFileError."""
    text = next((p.value for p in parsed.metadata_props if p.key == MULTIPLIERS), "")
    if options.arithmetic is None or not text:
        return options
    try:
        return replace(options, arithmetic=replace(options.arithmetic, multipliers=read_multipliers(text)))
    except (ValueError, TypeError, AttributeError) as error:
        raise BadFileError(f"{name}: its metadata {MULTIPLIERS}: {' '.join(str(error).split())[:160]}") from error


def _notes_on_order(decomposed: DecomposedModel) -> list[str]:
    """Returns a note for each TopK whose order ONNX leaves open."""
    unsorted = dict.fromkeys(r.outputs[0] for each in decomposed.rounds for r in each.replaced if r.any_order)
    return [
        f"{name}: TopK with sorted=0, whose order ONNX leaves open, is computed in order; onnxruntime has an order of its own"
        for name in unsorted
    ]


def _check_options(options: CompilerOptions) -> None:
    """Raises UnsupportedError for an unknown rounding mode or alignment."""
    if options.rounding not in ROUNDINGS:
        raise UnsupportedError(
            f"unknown rounding {options.rounding!r}; known: {', '.join(ROUNDINGS)}{did_you_mean(options.rounding, ROUNDINGS)}"
        )
    if options.arithmetic is not None and options.rounding != "ref-exact":
        raise UnsupportedError(
            f"--rounding {options.rounding} and --arithmetic exclude each other; leave out --rounding"
        )
    if not 1 <= options.align <= 4096:
        raise UnsupportedError(f"--align {options.align}: wanted 1 to 4096 elements")


def _strip_ends(model: onnx.ModelProto, name: str, options: CompilerOptions) -> tuple[onnx.ModelProto, Ends]:
    """Strips the quantization at inputs and outputs as the options require. Returns the model, and the stripped ends."""
    if options.strip_io_quant:
        return strip_quantization(model, name)
    featuremaps = [n for n, table in options.inputs.items() if table.get("format") == "featuremap"]
    return strip_quantization(model, name, featuremaps) if featuremaps else (model, {})


def _sha256_of(source: bytes | MappedModel) -> str:
    """Returns the SHA-256 digest of a model file, in hexadecimal."""
    return source.sha256 if isinstance(source, MappedModel) else _sha256([source])


def _sha256(pieces: list[Piece]) -> str:
    """Returns the SHA-256 digest of the concatenated pieces, in hexadecimal."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Lowered:
    """A lowered model.

    host: the nodes that the host computes, None if there are none. stated: as reinterpret() returns it."""

    matched: MatchedModel
    graph: Graph
    blockers: Blockers
    host: HostNodes | None
    stated: Stated

    def lower_again(self, options: CompilerOptions) -> Graph:
        """Lowers the matched model with other options and returns the graph."""
        return _with_islands(_graph(self.matched, options, self.blockers, self.stated), self.host)


def _lower(
    model: Any,
    name: str,
    options: CompilerOptions,
    refused: list[tuple[Any, UnsupportedError]],
    stated: Stated,
    watch: Watch | None,
) -> _Lowered:
    """Lowers the model. If options.host is set, refused nodes are moved to the host until none is refused.

    refused: nodes that could not be decomposed, each with the reason. stated: as reinterpret() returns it."""
    part, host = model, None
    while True:
        view = GraphView(part, name, () if host is None else host.names())
        blockers = Blockers(view)
        for node, error in refused:
            if node.output[0] in view.producer:
                blockers.add(view.producer[node.output[0]], error)
        check_attributes(view, blockers)
        matched = match(view, blockers, watch)
        try:
            graph = _with_islands(_graph(matched, options, blockers, stated), host)
            return _Lowered(matched, graph, blockers, host, stated)
        except UnsupportedError:
            if not options.host or not blockers.why or blockers.not_on_host:
                raise
            host = host or HostNodes(model, name)
            host.take(blockers.why)
            part = host.board_part()


def _with_islands(graph: Graph, host: HostNodes | None) -> Graph:
    """Returns the graph with the host islands added, if there are any."""
    if host is None:
        return graph
    islands = host.islands()
    nodes = sort_nodes(graph.nodes, islands, [*host.inputs(), *graph.constants])
    graph = replace(graph, nodes=nodes, inputs=host.inputs(), islands=islands)
    check_something_is_left(graph)
    return graph


def _integer(lowered: _Lowered) -> IntegerModel | bytes:
    """Returns the integer ONNX; nodes of islands are in it unchanged."""
    assert lowered.matched.integer is not None  # no node is refused at this point
    if lowered.host is None:
        return lowered.matched.integer
    model = lowered.host.whole(onnx.ModelProto.FromString(b"".join(lowered.matched.integer.pieces())))
    embed_held(model)
    check_host_runs(model, lowered.graph.islands)
    return bytes(model.SerializeToString(deterministic=True))


def _graph(matched: MatchedModel, options: CompilerOptions, blockers: Blockers, stated: Stated) -> Graph:
    """Writes the matched model as a graph. Raises UnsupportedError for the nodes that are refused."""
    view, builder = matched.view, Builder(options.rounding, matched.view.tensors, stated)
    hidden = _interior(matched) | (find_parts(view, stated) if options.floats else set())
    floats = FloatStream(builder, view, hidden)
    for name in view.inputs:
        builder.tensor(TensorSpec(name, view.dtype(name), view.shape(name), layout=_layout(view.shape(name))))
    for step in matched.steps:
        first = len(builder.nodes)
        if isinstance(step, LoweredUnit):
            node, covers = view.producer[step.output], step.covers
        else:
            node, covers = step, (step.name,)
        if not blockers.follows(node):
            with blockers.at(node):
                step.lower(builder) if isinstance(step, LoweredUnit) else lower_node(floats, step)
        builder.nodes[first:] = [replace(n, covers=covers) for n in builder.nodes[first:]]
    blockers.check()
    builder.carry_scales_back()
    graph = builder.graph(list(view.inputs), list(view.outputs), {})
    if options.arithmetic is not None:
        graph = with_forms(graph, builder.reals, options.arithmetic)
    if options.align > 1:
        graph.tensors = {n: s if n in graph.constants else _aligned(s, options.align) for n, s in graph.tensors.items()}
    return graph


def _layout(shape: tuple[int, ...]) -> str:
    """Returns the layout of a graph input of this shape, "" for other ranks."""
    return {4: "NCHW", 3: "NCW", 2: "NC"}.get(len(shape), "")


def _aligned(spec: TensorSpec, align: int) -> TensorSpec:
    """Returns the spec with its innermost dim stored in a multiple of `align` elements."""
    if not spec.shape:
        return spec
    return replace(spec, aligned_shape=(*spec.shape[:-1], -(-spec.shape[-1] // align) * align))


def find_parts(view: GraphView, stated: Stated) -> set[str]:
    """Returns the tensors NAME@PART that only nodes of NAME, or of other parts of it, read: floats, and integers without a scale
    whose PART begins with INNER. stated: tensors with a scale."""
    found = set[str]()
    for node in view.nodes:
        for name in node.output:
            made, dtype = [o for user in view.consumers[name] for o in user.output], view.dtype(name)
            inner = name.rpartition("@")[2].startswith(INNER) and dtype in PARTS and name not in stated
            if (dtype == "float32" or inner) and made and all(is_part(name, o) for o in made):
                found.add(name)
    return found - set(view.outputs)


def _interior(matched: MatchedModel) -> set[str]:
    """Returns the tensors that no comparison expects: outputs of DequantizeLinear, and floats that only QuantizeLinear
    reads, except graph outputs. Nodes that are left out of model.bin do not count as readers."""
    view, names = matched.view, set()
    computed = {o for step in matched.steps for o in ([step.output] if isinstance(step, LoweredUnit) else step.output)}
    for node in view.nodes:
        for name in node.output:
            users = [u for u in view.consumers[name] if computed.intersection(u.output)]
            only_quantized = (
                bool(users) and all(u.op_type == "QuantizeLinear" for u in users) and node.op_type != "QuantizeLinear"
            )
            if node.op_type == "DequantizeLinear" or only_quantized:
                names.add(name)
    return names - set(view.outputs)
