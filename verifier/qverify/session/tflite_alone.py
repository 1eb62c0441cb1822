"""Opens a .tflite that is given without an ONNX: converts it and compiles it in LiteRT's arithmetic (NUMERICS.md
section 1)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from qverify.arithmetic.forms import NAMES, FormsOfOps
from qverify.compare.identify.arithmetic_file import forms_of_ops
from qverify.compare.rounded_inputs import LAYERS
from qverify.compiler.compile_model import CompiledModel, CompilerOptions, compile_model
from qverify.compiler.forms_of_nodes import REQUANTIZED, find_without_form
from qverify.compiler.stated_quantization import Quantization, Stated
from qverify.errors import BadFileError, BlockedError, UnsupportedError
from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.session.stated_arithmetics import open_arithmetic
from qverify.sides.litert_operators import open_operators
from qverify.tflite_model.blocks import operators_of_blocks
from qverify.tflite_model.convert import ConvertedModel, check_runnable, convert
from qverify.tflite_model.read_tflite import TfliteModel, read_tflite
from qverify.tflite_model.repair import repair
from qverify.tflite_model.signatures import describe_others, select_signature

REFERENCE_KERNELS = "litert-reference"  # the shipped arithmetic of LiteRT's reference kernels
ROUNDING = "gemmlowp"  # of a model.bin from a .tflite alone: that of LiteRT's convolutions
MEASURED = ("conv_transpose", "matmul")  # further ops that round so (NUMERICS.md section 1, tables of LiteRT)


@dataclass(frozen=True, slots=True)
class TfliteAlone:
    """A .tflite without an ONNX.

    Attributes:
        data: its bytes as LiteRT opens them.
        converted: its conversion, without an ONNX if it cannot be converted.
        given: the bytes of the file itself.
        kernels: LiteRT's kernels that are the reference.
        shared: why nodes cannot be recomputed alone, by name.
        unstable: tensors of which LiteRT gives other bytes in each run.
        no_simulator: why the simulator is no side, "" if it is one.
    """

    data: bytes
    converted: ConvertedModel
    given: bytes = b""
    kernels: str = "reference"
    shared: Mapping[str, str] = field(default_factory=dict)
    unstable: frozenset[str] = frozenset()
    no_simulator: str = ""


@dataclass(frozen=True, slots=True)
class PreparedTflite:
    """A .tflite as LiteRT opens it. model: its contents. data: its bytes, repaired, with the chosen signature first. given: the
    bytes of the file itself. notes, caveats: lines on what was changed, and on what is not verified."""

    model: TfliteModel
    data: bytes
    given: bytes
    notes: tuple[str, ...]
    caveats: tuple[str, ...]


def prepare_tflite(path: str, data: bytes, signature: str = "") -> PreparedTflite:
    """Reads a .tflite. signature: name of the one to verify, "" for the first subgraph. Raises BadFileError for a damaged file,
    UnsupportedError for one that was compiled for an NPU or has no inputs, UsageError for a signature that it does not have,
    MissingExtraError if LiteRT is not installed."""
    name = os.path.basename(path)
    repaired, notes = repair(data)
    model = read_tflite(repaired, name)
    check_runnable(model)
    if signature and (selected := select_signature(repaired, model, signature)) is not repaired:
        notes.append(f"signature {signature} is run as the first subgraph of the file")
        repaired, model = selected, read_tflite(selected, name)
    others = describe_others(model, signature)
    return PreparedTflite(model, repaired, data, tuple(notes), (others,) if others else ())


def open_tflite(path: str, data: bytes, arithmetic: FormsOfOps | None = None) -> tuple[CompiledModel, TfliteAlone]:
    """Returns convert_tflite() of the file's first subgraph, with the same errors."""
    return convert_tflite(prepare_tflite(path, data), arithmetic)


def convert_tflite(prepared: PreparedTflite, arithmetic: FormsOfOps | None = None) -> tuple[CompiledModel, TfliteAlone]:
    """Returns the compiled model, whose check against the converted ONNX passed, and the converted file, which the
    reference needs. arithmetic: that of a board; None for that of LiteRT's reference kernels. Raises BadFileError for a
    damaged file, UnsupportedError for operators that cannot be converted or whose kernel is not computed."""
    name = prepared.model.file
    converted = convert(prepared.model)
    stated = arithmetic or _reference_forms()
    options = CompilerOptions(arithmetic=stated, quantization=_quantization(converted), floats=True)
    try:
        compiled = compile_model(converted.onnx, name, options)
    except (BadFileError, UnsupportedError) as error:
        if name in str(error):
            raise
        kind = BadFileError if isinstance(error, BadFileError) else UnsupportedError
        raise kind(f"{name}: {error}") from error
    _check_shapes(converted, compiled.graph)
    if arithmetic is None:
        compiled.graph = _as_reference(compiled.graph, name)
    compiled.notes += prepared.notes
    return compiled, TfliteAlone(prepared.data, converted, prepared.given)


def open_operators_alone(
    prepared: PreparedTflite, no_converter: UnsupportedError
) -> tuple[Graph, list[str], TfliteAlone]:
    """Returns the graph of a file's own operators, which LiteRT alone runs, notes on it, and the file. no_converter: why the
    file cannot be converted. Raises BadFileError for a file that LiteRT refuses, UnsupportedError for one that gives nothing to
    compare."""
    model, reasons = prepared.model, [str(no_converter).removeprefix(f"{prepared.model.file}: ")]
    if isinstance(no_converter, BlockedError):
        reasons = [*no_converter.lines]
    found = open_operators(model, prepared.data)
    graph = found.opened.graph
    names = {entry["tfl"]: name for name, entry in found.opened.tensors.items()}
    layers = [names[o.outputs[0]] for o in operators_of_blocks(prepared.data, model) if o.outputs[0] in names]
    graph = replace(graph, meta={**graph.meta, "source_name": model.file, LAYERS: layers})
    converted = ConvertedModel(model, b"", found.opened.tensors)
    more = f", and {count(len(reasons) - 1, 'more kind')} of operators" if len(reasons) > 1 else ""
    why = f"no side here, the file does not convert: {reasons[0]}{more}"
    kinds = [f"not converted: {reason}" for reason in reasons[1:]]
    shared, unstable = found.opened.shared, found.unstable
    alone = TfliteAlone(prepared.data, converted, prepared.given, found.kernels, shared, unstable, why)
    return graph, [*prepared.notes, *found.notes, *kinds], alone


def _as_reference(graph: Graph, file: str) -> Graph:
    """Returns the graph as one that rounds as its own reference does, and not as a board is stated to. Raises
    UnsupportedError for a node of sums, or a resize, that LiteRT's reference kernels compute in another way."""
    for node in graph.nodes:
        why = find_without_form(graph).get(node.name)
        if why is not None and node.op in (*REQUANTIZED, "resize_linear"):
            raise UnsupportedError(
                f"{file}: {node.name} ({node.op}): {why}. Change the operator (a resize: to another size, in two steps, or with align_corners)"
            )
    options = {k: v for k, v in graph.meta["options"].items() if k != "arithmetic"}
    meta = {k: v for k, v in graph.meta.items() if k != "without_form"} | {"options": {**options, "rounding": ROUNDING}}
    return replace(graph, rounding=ROUNDING, meta=meta)


def compile_plainly(alone: TfliteAlone) -> Graph:
    """Returns the graph of a converted file whose nodes all compute as ref-exact does, so that this form means the same
    for every model."""
    options = CompilerOptions(check=False, quantization=_quantization(alone.converted), floats=True)
    return compile_model(alone.converted.onnx, alone.converted.model.file, options).graph


def _reference_forms() -> FormsOfOps:
    """Returns the forms of LiteRT's reference kernels: the shipped ones, and those of ops that are not learned there."""
    shipped = forms_of_ops(open_arithmetic(REFERENCE_KERNELS))
    return replace(shipped, forms={**shipped.forms, **dict.fromkeys(MEASURED, NAMES[ROUNDING])})


def _quantization(converted: ConvertedModel) -> Stated:
    """Returns scale and zero point of each tensor that has one scale in the file."""
    tensors = converted.model.tensors
    found = {name: tensors[entry["tfl"]] for name, entry in converted.tensors.items() if "dtypes" not in entry}
    return {
        name: Quantization((float(t.scale[0]),), (int(t.zero[0]),)) for name, t in found.items() if t.scale.size == 1
    }


def _check_shapes(converted: ConvertedModel, graph: Graph) -> None:
    """Raises BadFileError if the file states other dims for a tensor than its operators compute, UnsupportedError for a
    tensor of the graph that the file does not have."""
    file = converted.model.file
    for name in (*graph.inputs, *graph.observable()):
        entry: dict[str, Any] | None = converted.tensors.get(name)
        if entry is None:
            raise UnsupportedError(f"{file}: {name} is no tensor of the file")
        if tuple(entry["dims"]) != graph.spec(name).shape:
            operator = converted.model.made_by.get(entry["tfl"])
            raise BadFileError(
                f"{file}: tensor {entry['tfl']} ({name}) has the dims {entry['shape']}, and {operator} makes another shape"
            )
