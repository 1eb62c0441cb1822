"""Rewrites nodes of float16 and bfloat16 in float32, with each result rounded to float16 or bfloat16.

The values are those of onnxruntime on a CPU, which casts to float32, computes the operator, and casts to float16. Inputs
and outputs of the graph become float32, too; float16_ends.py makes them float16 again. bfloat16 is inside a graph only,
and its operators on a CPU copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qverify.onnx_model.held_data import value_of
from qverify.onnx_model.node_order import graphs_of, inner_nodes, outer_reads
from qverify.onnx_model.rewriter import Rewriter

FLOAT, FLOAT16 = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
NARROW = (FLOAT16, onnx.TensorProto.BFLOAT16)
# operators that need no rounding: their results are float16 values if their inputs are
EXACT = {
    "Abs", "Ceil", "Clip", "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten", "Floor", "Gather",
    "GatherElements", "GatherND", "GlobalMaxPool", "Identity", "Max", "MaxPool", "Min", "Neg", "Pad", "ReduceMax",
    "ReduceMin", "Relu", "Reshape", "Round", "ScatterElements", "ScatterND", "Sign", "Slice", "SpaceToDepth", "Split",
    "Squeeze", "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze", "Where",
}  # fmt: skip


def has_float16(model: onnx.ModelProto) -> bool:
    """Returns whether a tensor of the graph is float16 or bfloat16."""
    graph = model.graph
    infos = [*graph.value_info, *graph.input, *graph.output]
    return any(i.data_type in NARROW for i in graph.initializer) or any(
        v.type.tensor_type.elem_type in NARROW for v in infos
    )


def widen_constants_of_float16(model: onnx.ModelProto) -> None:
    """Converts float16 and bfloat16 initializers to float32, in place."""
    for tensor in model.graph.initializer:
        if tensor.data_type in NARROW:
            tensor.CopyFrom(_wide(tensor))


def _name(kind: int) -> str:
    """Returns the name of an ONNX element type, as in messages."""
    return onnx.TensorProto.DataType.Name(kind).lower()


def _wide(tensor: onnx.TensorProto) -> onnx.TensorProto:
    return numpy_helper.from_array(value_of(tensor).astype(np.float32), tensor.name)


def widen(r: Rewriter, node: onnx.NodeProto) -> bool:
    """Writes the node in float32 with rounded results; returns False if it has no such tensor.

    r: the Rewriter of the model before widening. A node with subgraphs stays as it is, between casts. Raises
    UnsupportedError for a node with a tensor of unknown type."""
    kinds = {n: _kind(r, node, n) for n in (*sorted(outer_reads(node)), *node.output) if n}
    if not {*NARROW} & {*kinds.values()}:
        return False
    if graphs_of(node):
        _keep(r, node, kinds)
        return True
    if unknown := next((n for n, kind in kinds.items() if not kind), ""):
        raise r.refusal(f"the type of {unknown!r} beside float16 or bfloat16 is only known when the model runs")
    narrow = [o for o in node.output if o and r.kind(o) in NARROW]
    if node.op_type in ("Cast", "CastLike"):
        _cast(r, node, bool(narrow))
        return True
    outputs = list(node.output)
    if node.op_type not in EXACT:
        outputs = [r.fresh_of(o, "unrounded") if o in narrow else o for o in outputs]
    widened = onnx.NodeProto.FromString(node.SerializeToString())
    widened.output[:] = outputs
    del widened.attribute[:]
    widened.attribute.extend(_wide_attributes(r, node))
    r.nodes.append(widened)
    for before, after in zip(outputs, node.output, strict=True):
        if before != after:
            _round(r, before, after)
    return True


def _kind(r: Rewriter, node: onnx.NodeProto, name: str) -> int:
    """Returns ONNX's number of the element type of a tensor that the node reads or computes, 0 if it is unknown. The
    type of a result may be known from a subgraph alone."""
    kind, graphs = r.kind(name), graphs_of(node)
    if kind or not graphs or name not in node.output:
        return kind
    results = graphs[0].output[1:] if node.op_type == "Loop" else graphs[0].output  # a Loop's first is its condition
    at = list(node.output).index(name)
    return int(results[at].type.tensor_type.elem_type) if at < len(results) else 0


def _keep(r: Rewriter, node: onnx.NodeProto, kinds: dict[str, int]) -> None:
    """Writes the node itself between casts of the tensors outside of it that are float16."""
    kept = onnx.NodeProto.FromString(node.SerializeToString())
    halves = {n: r.fresh_of(n, _name(kind)) for n, kind in kinds.items() if kind in NARROW}
    computed = [o for o in node.output if o in halves]
    kept.output[:] = [halves.get(o, o) for o in kept.output]
    for inner in inner_nodes(kept):
        inner.input[:] = [halves.get(n, n) for n in inner.input]
    casts = {n: helper.make_node("Cast", [n], [half], f"{half}/Cast", to=kinds[n]) for n, half in halves.items()}
    for n in computed:
        casts[n] = helper.make_node("Cast", [halves[n]], [n], f"{halves[n]}/Cast", to=FLOAT)
    r.nodes += [*(cast for n, cast in casts.items() if n not in computed), kept, *(casts[n] for n in computed)]


def _cast(r: Rewriter, node: onnx.NodeProto, narrow: bool) -> None:
    """Writes a Cast. narrow: whether its result is float16 or bfloat16."""
    source, to = node.input[0], node.output[0]
    if not narrow:
        r.nodes.append(helper.make_node("Cast", [source], [to], node.name, to=r.kind(to)))
    elif r.kind(source) == r.kind(to):
        r.node("Identity", [source], to)
    elif r.kind(source) in (FLOAT, *NARROW):
        _round(r, source, to)
    else:
        wide = r.fresh("unrounded")
        r.nodes.append(helper.make_node("Cast", [source], [wide], node.name, to=FLOAT))
        _round(r, wide, to)


def _round(r: Rewriter, source: str, to: str) -> None:
    """Writes nodes that round float32 `source` to values of the type of `to` in the model, as float32 `to`."""
    half = r.fresh_of(to, _name(r.kind(to)))
    r.nodes.append(helper.make_node("Cast", [source], [half], f"{half}/Cast", to=r.kind(to)))
    r.nodes.append(helper.make_node("Cast", [half], [to], f"{to}/Cast", to=FLOAT))


def _wide_attributes(r: Rewriter, node: onnx.NodeProto) -> list[Any]:
    """Returns the node's attributes with tensors of these types widened. Raises UnsupportedError if one selects such a
    type."""
    kept = []
    for attribute in node.attribute:
        if attribute.name == "output_dtype" and attribute.i in NARROW and node.op_type == "DequantizeLinear":
            continue
        if attribute.name in ("dtype", "to", "output_dtype") and attribute.i in NARROW:
            raise r.refusal(f"{attribute.name}={_name(attribute.i)} is not supported")
        if attribute.HasField("t") and attribute.t.data_type in NARROW:
            attribute = helper.make_attribute(attribute.name, _wide(attribute.t))
        kept.append(attribute)
    return kept
