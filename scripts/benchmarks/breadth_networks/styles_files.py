"""Styles of the file rather than of the arithmetic: node order, functions, external data, half precision, old forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .rewrite import Rewriter
from .styles_onnxruntime import u8s8_per_channel
from .styles_tools import ARITHMETIC, tensorrt
from .subject import NotApplicable, Style, Subject, affine, opset_of

DOMAIN = "pkg.quantization"


def unsorted(subject: Subject) -> onnx.ModelProto:
    """Nodes from the last to the first, which onnxruntime sorts itself, and no shapes between them."""
    model = subject.once(u8s8_per_channel)
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:], model.graph.value_info[:]
    model.graph.node.extend(nodes)
    return model


def partial_shapes(subject: Subject) -> onnx.ModelProto:
    """Types known for every tensor, shapes only for some, as left behind by a tool that stopped half way."""
    model = subject.once(u8s8_per_channel)
    for index, value in enumerate(model.graph.value_info):
        if index % 2 and value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.ClearField("shape")
    return model


def external(subject: Subject) -> onnx.ModelProto:
    """An ordinary file whose weights lie in a second file beside it."""
    return subject.once(u8s8_per_channel)


def functions(subject: Subject) -> onnx.ModelProto:
    """Every pair of Q and DQ is one call of a local function, as torch's exporter writes custom operators."""
    model = tensorrt(subject)
    version = opset_of(model)
    produced = {node.output[0]: node for node in model.graph.node if node.op_type == "QuantizeLinear"}
    kept: list[onnx.NodeProto] = []
    names = set()
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            continue
        if node.op_type != "DequantizeLinear":
            kept.append(node)
            continue
        quantizer = produced[node.input[0]]
        axis = next((a.i for a in node.attribute if a.name == "axis"), None)
        name = "FakeQuantizePerTensor" if axis is None else f"FakeQuantizeAxis{axis}"
        if name not in names:
            names.add(name)
            model.functions.append(fake_quantize(name, axis, version))
        kept.append(helper.make_node(name, list(quantizer.input), list(node.output), name=node.name, domain=DOMAIN))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return model


def fake_quantize(name: str, axis: int | None, version: int) -> onnx.FunctionProto:
    """The function Q then DQ with the same scale and zero point."""
    extra: dict[str, Any] = {} if axis is None else {"axis": axis}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero_point"], ["q"], name="q", **extra),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero_point"], ["y"], name="dq", **extra),
    ]
    opsets = [helper.make_opsetid("", version)]
    return helper.make_function(DOMAIN, name, ["x", "scale", "zero_point"], ["y"], nodes, opsets)


def no_zero_points(subject: Subject) -> onnx.ModelProto:
    """Zero points that are zero are left out (uint8 is then the default), scales are computed from constants."""
    model = subject.copy(prepared=False)
    rw = Rewriter(model, subject.ranges(model))
    levels = rw.constant(255.0, np.float32, "levels")
    done: dict[str, str] = {}

    def pair(name: str) -> str:
        if name not in done:
            low, high = rw.ranges[name]
            width = rw.constant(max(high - low, 1e-5), np.float32, f"{name}_width")
            parameters = [rw.node("Div", [width, levels], name)]
            if low < 0:
                parameters.append(rw.constant(affine((low, high), 0, 255)[1], np.uint8, f"{name}_zero_point"))
            stored = rw.node("QuantizeLinear", [name, *parameters], name)
            done[name] = rw.node("DequantizeLinear", [stored, *parameters], name)
        return done[name]

    for node in rw.weighted():
        if node.input[1] in rw.weights:
            rw.stored_weight(node)
    for node in rw.nodes:
        if node.op_type == "DequantizeLinear":
            del node.input[2:]
    for node in rw.original:
        if node.op_type in (*ARITHMETIC, "Conv", "ConvTranspose", "Gemm", "MatMul"):
            node.input[:] = [pair(name) if rw.is_activation(name) else name for name in node.input]
    return rw.finish("PaddlePaddle", "")


def modelopt_fp16(subject: Subject) -> onnx.ModelProto:
    """NVIDIA ModelOpt with high precision fp16: float16 weights, scales and tensors, int8 in front of Conv and MatMul."""
    model = subject.copy(prepared=False, opset=19)
    source = Subject.__new__(Subject)
    source.__dict__.update(subject.__dict__, raw=model)
    model = tensorrt(source)
    kept = {
        name
        for node in model.graph.node
        for place, name in enumerate(node.input)
        if node.op_type == "Resize" and place == 2
    }
    if any(node.op_type == "NonMaxSuppression" for node in model.graph.node):
        raise NotApplicable("NonMaxSuppression takes no float16")
    for item in model.graph.initializer:
        value = numpy_helper.to_array(item)
        if value.dtype == np.float32 and item.name not in kept:
            if "scale" in item.name:
                value = np.maximum(value, 6e-8)
            item.CopyFrom(numpy_helper.from_array(value.astype(np.float16), item.name))
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
    cast_ends(model)
    del model.graph.value_info[:]
    model.producer_name, model.producer_version = "onnx.quantize", "0.1.0"
    return model


def cast_ends(model: onnx.ModelProto) -> None:
    """Float inputs and outputs keep their type; a Cast to or from float16 stands beside each."""
    graph = model.graph
    ends = [(value.name, True) for value in graph.input] + [(value.name, False) for value in graph.output]
    types = {value.name: value.type.tensor_type.elem_type for value in [*graph.input, *graph.output]}
    first: list[onnx.NodeProto] = []
    last: list[onnx.NodeProto] = []
    for name, is_input in ends:
        if types[name] != TensorProto.FLOAT:
            continue
        inner = f"{name}_fp16"
        for node in graph.node:
            node.input[:] = [inner if item == name else item for item in node.input]
            node.output[:] = [inner if item == name else item for item in node.output]
        edge, target = (first, TensorProto.FLOAT16) if is_input else (last, TensorProto.FLOAT)
        source, result = (name, inner) if is_input else (inner, name)
        edge.append(helper.make_node("Cast", [source], [result], name=f"{name}_cast", to=target))
    nodes = [*first, *graph.node, *last]
    del graph.node[:]
    graph.node.extend(nodes)


STYLES = [
    Style("unsorted", unsorted, sorted_nodes=False),
    Style("partial_shapes", partial_shapes),
    Style("external", external, external_data=True),
    Style("functions", functions),
    Style("no_zero_points", no_zero_points),
    Style("modelopt_fp16", modelopt_fp16),
]
