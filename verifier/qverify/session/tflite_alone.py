"""Opens a .tflite that is given without an ONNX: converts it and compiles it in LiteRT's arithmetic (LITERT.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from qverify.arithmetic.forms import NAMES, SUMS_32, FormsOfOps
from qverify.compare.identify.arithmetic_file import forms_of_ops
from qverify.compiler.compile_model import CompiledModel, CompilerOptions, compile_model
from qverify.compiler.forms_of_nodes import REQUANTIZED, find_without_form
from qverify.compiler.litert_islands import with_litert_islands
from qverify.compiler.stated_quantization import Quantization, Stated
from qverify.errors import BadFileError, BlockedError, NotOnHostError, QVerifyError, UnsupportedError
from qverify.inputs.random_inputs import FIRST_STATES, random_inputs
from qverify.model_bin.graph import LAYERS_OF_BLOCKS, Graph
from qverify.plural import count
from qverify.session.stated_arithmetics import open_arithmetic
from qverify.sides.litert_engine import DEFAULT_KERNELS
from qverify.sides.litert_islands import LiteRtIslands
from qverify.sides.litert_operators import (
    BLOCK_KERNELS,
    BLOCKS,
    LiteRtOperators,
    kernels_of,
    open_operators,
    same_outputs,
    why_not_reference,
)
from qverify.sides.litert_reference import LiteRtReference
from qverify.sides.operator_graph import shape_inputs
from qverify.tflite_model.blocks import operators_of_blocks, with_weights_as_floats
from qverify.tflite_model.composites import inline_composites
from qverify.tflite_model.constants import read_constant
from qverify.tflite_model.control_flow import inline_control_flow
from qverify.tflite_model.convert import ConvertedModel, check_runnable, convert, convert_in_parts
from qverify.tflite_model.layout import as_in_onnx
from qverify.tflite_model.operators_with_weights import CONVOLUTIONS, has_read_blocks, sums_in_32_bits
from qverify.tflite_model.packed_weights import unpack_weights
from qverify.tflite_model.read_tflite import TfliteModel, read_tflite
from qverify.tflite_model.repair import repair
from qverify.tflite_model.signatures import describe_others, select_signature
from qverify.tflite_model.unresolved import CUSTOM, cut_before, find_unresolved
from qverify.tflite_model.variables import Variable, open_variables

REFERENCE_KERNELS = "litert-reference"  # the shipped arithmetic of LiteRT's reference kernels
ONE_STEP = "one step, from the first state; not verified: later steps (--steps N)"
ROUNDING = "gemmlowp"  # of a model.bin from a .tflite alone: that of LiteRT's convolutions
MEASURED = ("conv_transpose", "matmul")  # further ops that round so (LITERT.md, Tables of LiteRT)


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
    bytes of the file itself. notes, caveats: lines on what was changed, and on what is not verified. variables: those that are
    inputs and outputs, for a sequence."""

    model: TfliteModel
    data: bytes
    given: bytes
    notes: tuple[str, ...]
    caveats: tuple[str, ...]
    variables: tuple[Variable, ...] = ()


def prepare_tflite(path: str, data: bytes, signature: str = "", steps: bool = False) -> PreparedTflite:
    """Reads a .tflite. signature: name of the one to verify, "" for the first subgraph. steps: of a sequence, so that its
    variables are inputs and outputs. Raises BadFileError for a damaged file,
    UnsupportedError for one that was compiled for an NPU or has no inputs, UsageError for a signature that it does not have,
    MissingExtraError if LiteRT is not installed."""
    name = os.path.basename(path)
    repaired, notes = repair(data)
    model = read_tflite(repaired, name)
    check_runnable(model)
    if signature and (selected := select_signature(repaired, model, signature)) is not repaired:
        notes.append(f"signature {signature} is run as the first subgraph of the file")
        repaired, model = selected, read_tflite(selected, name)
    others, variables = describe_others(model, signature), list[Variable]()
    if steps:
        changed, variables = open_variables(repaired, model)
        if changed is not repaired:
            how = f"{count(len(variables), 'variable')} of {name} as inputs and outputs, so that every side gets them"
            notes.append(
                how if variables else f"the variables of {name} are set before they are read: no state is left"
            )
            repaired, model = changed, read_tflite(changed, name)
    caveats = (others,) if others else ()
    return _before_unresolved(PreparedTflite(model, repaired, data, tuple(notes), caveats, tuple(variables)))


def _before_unresolved(prepared: PreparedTflite) -> PreparedTflite:
    """Returns the file without operators that LiteRT has no kernel for, and what depends on them, which is a caveat. A file with
    variables stays, and one of which nothing would be left."""
    while any(o.kind.startswith(CUSTOM) for o in prepared.model.operators) and not prepared.variables:
        model = prepared.model
        operator = find_unresolved(model, why_not_reference(model, prepared.data))
        data, more = (prepared.data, 0) if operator is None else cut_before(prepared.data, model, operator)
        if operator is None or data is prepared.data:
            break
        behind = f", and {count(more, 'operator')} behind it" if more else ""
        line = f"not verified: {operator.kind.removeprefix(CUSTOM)}, of which LiteRT has no kernel{behind}"
        changed = read_tflite(data, model.file)
        prepared = replace(prepared, model=changed, data=data, caveats=(*prepared.caveats, line))
    return prepared


def prepare_one_step(path: str, data: bytes, signature: str = "") -> PreparedTflite:
    """Returns prepare_tflite() of a file that is run once, from its first state: its variables are inputs and outputs if they can
    be, as they are then for every side."""
    try:
        prepared = prepare_tflite(path, data, signature, steps=True)
    except UnsupportedError:
        return prepare_tflite(path, data, signature)
    return replace(prepared, caveats=(*prepared.caveats, ONE_STEP)) if prepared.variables else prepared


def open_tflite(
    path: str, data: bytes, arithmetic: FormsOfOps | None = None, host: bool = False
) -> tuple[CompiledModel, TfliteAlone]:
    """Returns convert_tflite() of the file's first subgraph, with the same errors. Composites, IF and WHILE are written as operators."""
    return convert_tflite(with_subgraphs_inlined(prepare_one_step(path, data)), arithmetic, host)


def with_subgraphs_inlined(prepared: PreparedTflite) -> PreparedTflite:
    """Returns the file with the operators of composites, IF and WHILE in their places, as far as its outputs are the same then on
    random inputs, and with packed weights as LiteRT's kernels read them, which is a caveat."""
    for change in (unpack_weights, _blocks_as_floats):
        data, lines = change(prepared.data, prepared.model)
        if lines:
            model, caveats = read_tflite(data, prepared.model.file), (*prepared.caveats, *lines)
            prepared = replace(prepared, model=model, data=data, caveats=caveats)
    for inline in (inline_control_flow, inline_composites, inline_control_flow):  # each may hold the other
        prepared = _inlined(prepared, inline)
    return prepared


def _blocks_as_floats(data: bytes, model: TfliteModel) -> tuple[bytes, list[str]]:
    """Returns the file with weights in blocks as floats, and a line on it, if no kernel of LiteRT reads the scales of some; else
    the file itself and no line."""
    if not any(t.block for t in model.tensors):
        return data, []
    try:
        operators = operators_of_blocks(data, model)
        if all(has_read_blocks(model, o) for o in operators):
            return data, []
        changed = with_weights_as_floats(data, model)
    except (BadFileError, UnsupportedError):
        return data, []
    first = next(o for o in operators if not has_read_blocks(model, o))
    line = f"weights in blocks are run as floats (first {first}): no kernels of LiteRT here read their scales"
    return changed, [line]


def _inlined(
    prepared: PreparedTflite, inline: Callable[[bytes, TfliteModel], tuple[bytes, list[str]]]
) -> PreparedTflite:
    """Returns the file as changed by a function, or the same if its outputs are others then."""
    model = prepared.model
    data, notes = inline(prepared.data, model)
    if not notes:
        return prepared
    try:
        inlined = read_tflite(data, model.file)
        if not same_outputs(model, prepared.data, inlined, data):
            return prepared
    except (BadFileError, UnsupportedError):
        return prepared
    return replace(prepared, model=inlined, data=data, notes=(*prepared.notes, *notes))


def convert_tflite(
    prepared: PreparedTflite, arithmetic: FormsOfOps | None = None, host: bool = False
) -> tuple[CompiledModel, TfliteAlone]:
    """Returns the compiled model, whose check against the converted ONNX passed, and the converted file, which the
    reference needs. arithmetic: that of a board; None for that of LiteRT's reference kernels. host: whether LiteRT may compute on the
    host what cannot be converted or compiled. Raises BadFileError for a damaged file, UnsupportedError for operators that cannot be
    converted or whose kernel is not computed."""
    try:
        kernels, why = kernels_of(prepared.model), ""
        if _has_sums(prepared.model) and (why := why_not_reference(prepared.model, prepared.data)):
            kernels, why = "optimized", DEFAULT_KERNELS.format(why)
        converted = convert(prepared.model, kernels)
        compiled = _compile(converted, arithmetic)
        compiled.notes += [why] if why else []
    except UnsupportedError as error:
        if not host:
            raise
        converted, compiled, kernels = _convert_in_parts(prepared, arithmetic, error)
    compiled.notes += [*prepared.notes, *([BLOCKS] if kernels == BLOCK_KERNELS else [])]
    if prepared.variables:
        compiled.graph.meta[FIRST_STATES] = _first_states(prepared, converted.tensors, compiled.graph)
    return compiled, TfliteAlone(prepared.data, converted, prepared.given, kernels)


def _first_states(prepared: PreparedTflite, tensors: Mapping[str, Mapping[str, Any]], graph: Graph) -> dict[str, str]:
    """Returns the bytes of each variable in a first step, in the layout of the graph, as hex; "" for zeros that the file does not
    state. tensors: as ConvertedModel.tensors. Raises BadFileError for values that do not fit."""
    found, variables = dict[str, str](), {v.given: v for v in prepared.variables}
    for name in graph.inputs:
        entry = tensors[name]
        if (variable := variables.get(entry["tfl"])) is None:
            continue
        found[name], tensor = "", prepared.model.tensors[variable.given]
        if variable.initial is not None:
            try:
                values = read_constant(np.frombuffer(variable.initial, np.uint8), tensor.dtype, tensor.shape)
            except ValueError as error:
                raise BadFileError(f"{prepared.model.file}: the first value of variable {name}: {error}") from error
            found[name] = as_in_onnx(entry, values).tobytes().hex()
    return found


def _convert_in_parts(
    prepared: PreparedTflite, arithmetic: FormsOfOps | None, refusal: UnsupportedError
) -> tuple[ConvertedModel, CompiledModel, str]:
    """Returns the converted and the compiled part of a file, with the rest as host islands, and LiteRT's kernels that compute both
    them and the reference. refusal: why the whole file is not converted."""
    model = prepared.model
    try:
        found = open_operators(model, prepared.data)
    except (BadFileError, UnsupportedError) as error:
        raise _without_host(refusal, error) from error
    host = dict[int, str]()
    while True:
        try:
            converted = convert_in_parts(model, host, found.undescribed, found.kernels)
            host = dict(converted.host)
            compiled = _compile(converted, arithmetic)
            break
        except UnsupportedError as error:
            refused = {converted.made_from[n]: why for n, why in error.nodes.items() if n in converted.made_from}
            if refused.keys() <= host.keys():
                raise _without_host(refusal, error) from error
            host |= refused
    if why := _find_untrue_island(prepared.data, converted, compiled.graph, found):
        raise _without_host(refusal, UnsupportedError(f"{model.file}: {why}"))
    compiled.notes += found.notes[:1] if found.kernels == "optimized" else []
    return converted, compiled, found.kernels


def _find_untrue_island(data: bytes, converted: ConvertedModel, graph: Graph, found: LiteRtOperators) -> str:
    """Returns why the host's operators cannot be run by themselves, "" if they can: random numbers, a state that others change."""
    if found.unstable:
        return f"{min(found.unstable)}: LiteRT gives other bytes of it in each run"
    islands = LiteRtIslands(data, converted, graph, found.kernels)
    recording = LiteRtReference(data, converted, graph, found.kernels, islands=islands).run(random_inputs(graph))
    return recording.why if recording.state != "complete" else ""


def _has_sums(model: TfliteModel) -> bool:
    """Returns whether an operator sums integers, in which LiteRT's kernels differ."""
    return any(o.kind == "SUM" and model.tensors[o.inputs[0]].dtype != "float32" for o in model.operators)


def _compile(converted: ConvertedModel, arithmetic: FormsOfOps | None) -> CompiledModel:
    """Returns the compiled model of what was converted, with the rest of the file as host islands."""
    name = converted.model.file
    stated = arithmetic or _reference_forms(converted)
    options = CompilerOptions(arithmetic=stated, quantization=_quantization(converted), floats=True)
    try:
        compiled = compile_model(converted.onnx, name, options)
    except (BadFileError, UnsupportedError) as error:
        if name in str(error):
            raise
        if isinstance(error, BadFileError):
            raise BadFileError(f"{name}: {error}") from error
        raise UnsupportedError(f"{name}: {error}", error.nodes) from error
    _check_shapes(converted, compiled.graph)
    if arithmetic is None:
        compiled.graph = _as_reference(compiled.graph, name)
    compiled.graph = with_litert_islands(compiled.graph, converted)
    if shapes := {converted.names[i]: shape for i, shape in shape_inputs(converted.model)}:
        compiled.graph.meta["shape_inputs"] = shapes
    return compiled


def _without_host(refusal: UnsupportedError, error: QVerifyError) -> UnsupportedError:
    """Returns the refusal of a file of which a part cannot be verified, either. error: why it cannot."""
    if isinstance(error, NotOnHostError):  # which the refusal says
        return refusal
    if isinstance(refusal, BlockedError):
        return BlockedError(refusal.header, [*refusal.lines, f"in parts: {error}"])
    return UnsupportedError(f"{refusal}; in parts: {error}")


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
    if prepared.variables:
        graph.meta[FIRST_STATES] = _first_states(prepared, found.opened.tensors, graph)
    names = {entry["tfl"]: name for name, entry in found.opened.tensors.items()}
    blocks = operators_of_blocks(prepared.data, model)
    layers = [names[o.outputs[0]] for o in blocks if o.outputs[0] in names]
    graph = replace(graph, meta={**graph.meta, "source_name": model.file, LAYERS_OF_BLOCKS: layers})
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
            text = f"{file}: {node.name} ({node.op}): {why}. Change the operator (a resize: to another size, in two steps, or with align_corners)"
            raise UnsupportedError(text, {n: why for n in node.covers})
    options = {k: v for k, v in graph.meta["options"].items() if k != "arithmetic"}
    meta = {k: v for k, v in graph.meta.items() if k != "without_form"} | {"options": {**options, "rounding": ROUNDING}}
    return replace(graph, rounding=ROUNDING, meta=meta)


def compile_plainly(alone: TfliteAlone) -> Graph:
    """Returns the graph of a converted file whose nodes all compute as ref-exact does, so that this form means the same
    for every model."""
    options = CompilerOptions(check=False, quantization=_quantization(alone.converted), floats=True)
    graph = compile_model(alone.converted.onnx, alone.converted.model.file, options).graph
    return with_litert_islands(graph, alone.converted)


def _reference_forms(converted: ConvertedModel) -> FormsOfOps:
    """Returns the forms of LiteRT's reference kernels: the shipped ones, those of ops that are not learned there, and those of a
    file whose convolutions of int16 sum in 32 bits. Raises UnsupportedError that names these if others sum in 64 bits."""
    shipped = forms_of_ops(open_arithmetic(REFERENCE_KERNELS))
    forms = {**shipped.forms, **dict.fromkeys(MEASURED, NAMES[ROUNDING])}
    tensors = converted.model.tensors
    wide = [
        o
        for o in converted.operators
        if o.kind in CONVOLUTIONS and tensors[o.inputs[0]].dtype == "int16" and o.position not in converted.host
    ]
    short = [o for o in wide if sums_in_32_bits(o)]
    if short and len(short) < len(wide):
        why = "sums of 32 bits beside convolutions that sum in 64 bits"
        names = {name: why for o in short for name, at in converted.made_from.items() if at == o.position}
        raise UnsupportedError(f"{converted.model.file}: {short[0]}: {why}", names)
    if short:
        forms["conv, of int16"] = replace(NAMES[ROUNDING], method=SUMS_32)
    return replace(shipped, forms=forms)


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
    for node in graph.nodes:  # a copy of a tensor's numbers that another scale is stated for
        name, source = node.outputs[0], node.inputs[0] or ""
        if node.op == "cast" and name not in converted.tensors and source in converted.tensors:
            if graph.spec(name).dtype == graph.spec(source).dtype:
                converted.tensors[name] = converted.tensors[source]
    for name in (*graph.inputs, *graph.observable()):
        entry: dict[str, Any] | None = converted.tensors.get(name)
        if entry is None:
            raise UnsupportedError(
                f"{file}: {name} is no tensor of the file", {name: "it makes a tensor that the file does not have"}
            )
        if tuple(entry["dims"]) != graph.spec(name).shape:
            operator = converted.model.made_by.get(entry["tfl"])
            raise BadFileError(
                f"{file}: tensor {entry['tfl']} ({name}) has the dims {entry['shape']}, and {operator} makes another shape"
            )
