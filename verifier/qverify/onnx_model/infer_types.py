"""Finds types and shapes with ONNX's inference, from a graph's inputs and constants alone, following values of
shapes."""

from __future__ import annotations

from math import prod

import onnx
from onnx import shape_inference

from qverify.onnx_model.held_data import value_of

CEIL_POOLS = ("AveragePool", "LpPool", "MaxPool")
RESIZES = ("Resize", "Upsample")
IGNORES_PADS = (b"VALID", b"SAME_UPPER", b"SAME_LOWER")  # values of auto_pad
# Made-up domain for nodes that inference must not handle, so that a run decides. Of a domain that is not imported,
# inference would give up the whole model.
BY_A_RUN = "inferred.by.a.run"
LARGE = 1024  # bytes; a larger constant cannot be a shape, so only its type is used
Types = dict[str, tuple[int, tuple[int, ...]]]  # tensor name to ONNX's number of the element type, and dims


def infer_types(model: onnx.ModelProto, more: Types) -> Types:
    """Returns the types of all tensors whose static shape is known.

    What the file states about inner tensors and the shapes of outputs is ignored, because it may be partial or wrong.
    more: types that are known from elsewhere."""
    skeleton = without_large_constants(model)
    computed = {o for node in model.graph.node for o in node.output}
    infos = [onnx.helper.make_tensor_value_info(n, *more[n]) for n in more if n in computed]
    skeleton.graph.value_info.extend(infos)
    try:
        inferred = shape_inference.infer_shapes(skeleton, data_prop=True)
    except Exception:  # the C++ library's errors; a run finds the types later
        inferred = skeleton
    graph = inferred.graph
    types: Types = {i.name: (i.data_type, tuple(i.dims)) for i in model.graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        kind = value.type.tensor_type
        if kind.elem_type and kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim):
            types[value.name] = (kind.elem_type, tuple(d.dim_value for d in kind.shape.dim))
    return types


def _is_uneven(tensor: onnx.TensorProto) -> bool:
    """Returns whether a small tensor has a value that is not a multiple of 1/256, so that products with it are
    rounded."""
    if prod(tensor.dims) * 8 > LARGE:
        return False
    values = value_of(tensor).astype("float64") * 256
    return bool((values != values.round()).any())


def without_large_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a copy of the model for inference: nodes, inputs and small constants; large constants become inputs.
    Nodes for which ONNX's inference differs from onnxruntime are changed so that it finds the same shape as
    onnxruntime, or none."""
    skeleton = onnx.ModelProto(ir_version=max(model.ir_version, 4))
    skeleton.opset_import.extend([*model.opset_import, onnx.helper.make_opsetid(BY_A_RUN, 1)])
    graph, fed = skeleton.graph, {i.name for i in model.graph.input}
    graph.name = "types"
    graph.node.extend(model.graph.node)
    uneven = {i.name for i in model.graph.initializer if i.data_type == onnx.TensorProto.FLOAT and _is_uneven(i)}
    broadcasts = any(o.domain in ("", "ai.onnx") and o.version >= 7 for o in model.opset_import)
    for node in graph.node:
        if node.op_type in CEIL_POOLS and any(a.name == "ceil_mode" and a.i for a in node.attribute):
            node.domain = BY_A_RUN  # before opset 22 ONNX counts windows that begin behind the padding
        if node.op_type in RESIZES and not uneven.isdisjoint(node.input[1:]):
            node.domain = BY_A_RUN  # onnxruntime multiplies in float32, ONNX in float64: 10 * 0.7 is 7 or less
        if node.op_type == "PRelu" and node.domain in ("", "ai.onnx") and broadcasts:
            node.op_type = "Pow"  # onnxruntime broadcasts both ways, ONNX gives the shape of the first input
        if any(a.name == "auto_pad" and a.s in IGNORES_PADS for a in node.attribute):  # in onnxruntime
            kept = [a for a in node.attribute if a.name != "pads"]
            del node.attribute[:]
            node.attribute.extend(kept)
    graph.input.extend(model.graph.input)
    graph.output.extend(onnx.ValueInfoProto(name=o.name) for o in model.graph.output)
    for tensor in model.graph.initializer:
        if prod(tensor.dims) * 8 <= LARGE:
            graph.initializer.append(tensor)
        elif tensor.name not in fed:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return skeleton
