"""The graph of a .tflite as it is: one node for each operator, and the tensors that a run of it gives. It names and orders what is
compared, and nothing of it is computed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec
from qverify.tflite_model.read_tflite import TfliteModel, TfliteOperator, TfliteTensor

COMPARED = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
)  # fmt: skip
SHAPE_OPERANDS = {
    "TRANSPOSE_CONV": 0, "RESHAPE": 1, "BROADCAST_TO": 1, "FILL": 0, "RESIZE_BILINEAR": 1, "RESIZE_NEAREST_NEIGHBOR": 1,
}  # the operand of an operator that states the shape of its output, or its height and width  # fmt: skip
Found = Mapping[int, tuple[str, tuple[int, ...]]]  # type and shape of each tensor that a run gives, by index


@dataclass(frozen=True, slots=True)
class OperatorGraph:
    """The graph, and how it lies in the file.

    Attributes:
        graph: its nodes are operators of LiteRT (Graph.is_of_operators).
        tensors: name of a tensor to where it lies (ConvertedModel.tensors).
        shared: why an operator cannot be recomputed alone, by the name of its node.
        left_out: the operators that give no tensor that can be compared.
    """

    graph: Graph
    tensors: dict[str, dict[str, Any]]
    shared: dict[str, str] = field(default_factory=dict)
    left_out: tuple[TfliteOperator, ...] = ()


def tensor_names(model: TfliteModel) -> dict[int, str]:
    """Returns the name of each tensor that is an input or is computed: that of the file, with `@index` appended to all that
    have the same name, since a dump that is called so may be of any of them."""
    shown = (*model.inputs, *model.made_by)
    times = Counter(model.tensors[i].name for i in shown)
    return {i: f"{t.name}@{i}" if times[t.name] > 1 else t.name for i in shown for t in [model.tensors[i]]}


def operator_graph(model: TfliteModel, found: Found) -> OperatorGraph:
    """Returns the graph of the tensors that a run gave. Outputs of the file that are inputs or constants are left out."""
    names = tensor_names(model)
    shown = {i for i, (dtype, shape) in found.items() if dtype in COMPARED and 0 not in shape}
    specs, tensors = dict[str, TensorSpec](), dict[str, dict[str, Any]]()
    for i in (*model.inputs, *(i for i in model.made_by if i in shown)):
        tensor = model.tensors[i]
        dtype, shape = found.get(i, (tensor.dtype, tensor.shape))
        specs[names[i]] = _spec(names[i], tensor, dtype, shape)
        dims = [*shape]
        tensors[names[i]] = {"tfl": i, "shape": dims, "axes": [*range(len(dims))], "dims": dims}
        if shape != tensor.shape:
            tensors[names[i]]["dynamic"] = True
    nodes, shared, left_out = list[Node](), dict[str, str](), list[TfliteOperator]()
    for operator, sources, why in _with_sources(model, {*model.inputs, *shown}):
        outputs = tuple(names[i] for i in operator.outputs if i in shown)
        if not outputs:
            left_out.append(operator)
            continue
        nodes.append(Node(outputs[0], operator.kind, tuple(names[i] for i in sources), outputs))
        if why:
            shared[outputs[0]] = why
    outputs = tuple(dict.fromkeys(names[i] for i in model.outputs if i in model.made_by and i in shown))
    meta = {"operators": "LiteRT", "shape_inputs": {names[i]: shape for i, shape in shape_inputs(model)}}
    graph = Graph(nodes, specs, {}, tuple(names[i] for i in model.inputs), outputs, meta=meta)
    return OperatorGraph(graph, tensors, shared, tuple(left_out))


def shape_inputs(model: TfliteModel) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yields the inputs that state the shape of an operator's output, each with the shape that the file says."""
    for operator in model.operators:
        at = SHAPE_OPERANDS.get(operator.kind, len(operator.inputs))
        if at < len(operator.inputs) and operator.inputs[at] in model.inputs:
            shape = model.tensors[operator.outputs[0]].shape
            yield operator.inputs[at], shape[1:3] if operator.kind.startswith("RESIZE") else shape


def _spec(name: str, tensor: TfliteTensor, dtype: str, shape: tuple[int, ...]) -> TensorSpec:
    quantized = tensor.scale.size and dtype[0] in "iu" and bool((tensor.scale > 0).all())
    axis = tensor.axis if tensor.scale.size > 1 else -1
    if not quantized or (axis >= 0 and (axis >= len(shape) or shape[axis] != tensor.scale.size)):
        return TensorSpec(name, dtype, shape)
    scale, zero = tuple(map(float, tensor.scale)), tuple(map(int, tensor.zero))
    return TensorSpec(name, dtype, shape, scale=scale, zero_point=zero, channel_axis=axis)


def _with_sources(model: TfliteModel, known: set[int]) -> Iterator[tuple[TfliteOperator, tuple[int, ...], str]]:
    """Yields each operator with the tensors of `known` from which it computes, directly or through tensors that are not
    known, and why it cannot be recomputed alone ("" if it can): what earlier operators wrote to a variable is not in its
    inputs."""
    behind, written, read_before = dict[int, tuple[int, ...]](), dict[int, None](), dict[int, tuple[int, ...]]()
    for operator in model.operators:
        sources, why = dict[int, None](), ""
        for i in (i for i in operator.inputs if i >= 0 and model.tensors[i].data is None):
            sources |= dict.fromkeys((i,) if i in known else behind.get(i, ()))
            if i in read_before:
                why = f"tensor {i}, a variable, is changed by an operator before it"
                sources |= dict.fromkeys(read_before[i])
        if operator.kind == "ASSIGN_VARIABLE":
            written |= sources
        if operator.kind == "READ_VARIABLE" and written:
            sources |= written
            why = "what it reads is a variable, which operators before it may have changed"
        for i in operator.inputs:
            if i >= 0 and model.tensors[i].variable:
                read_before[i] = tuple(dict.fromkeys((*read_before.get(i, ()), *sources)))
        for i in operator.outputs:
            behind[i] = tuple(sources)
        yield operator, tuple(sources), why
