"""Styles of other tools, imitated by rewriting the float graph: TensorRT, NNCF, Brevitas, Quark, torch, LiteRT."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from .rewrite import Rewriter
from .subject import Style, Subject, affine, symmetric_scale

POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool")
ARITHMETIC = ("Add", "Mul", "Sub", "Concat", *POOLS)


def rewriter(subject: Subject, prepared: bool, opset: int = 13) -> Rewriter:
    model = subject.copy(prepared, opset)
    return Rewriter(model, subject.ranges(model))


def tensorrt(subject: Subject) -> onnx.ModelProto:
    """Only inputs of Conv and MatMul, int8 symmetric; weights stay float in front of Q and DQ; shortcuts too."""
    rw = rewriter(subject, prepared=False)
    for node in rw.weighted():
        node.input[0] = rw.symmetric_pair(node.input[0], shared=False)
        if node.input[1] not in rw.weights:
            node.input[1] = rw.symmetric_pair(node.input[1], shared=False)
            continue
        name = node.input[1]
        scale, axis = rw.weight_scale(node, 127)
        parameters = [
            rw.constant(scale, np.float32, f"{name}_scale"),
            rw.constant(np.zeros_like(scale), np.int8, f"{name}_zero_point"),
        ]
        extra = {} if axis is None else {"axis": axis}
        stored = rw.node("QuantizeLinear", [name, *parameters], name, **extra)
        node.input[1] = rw.node("DequantizeLinear", [stored, *parameters], name, **extra)
    for node in rw.original:
        if node.op_type == "Add" and all(rw.is_activation(name) for name in node.input):
            node.input[1] = rw.symmetric_pair(node.input[1], shared=False)
    return rw.finish("pytorch", "2.4.0")


def nncf(subject: Subject) -> onnx.ModelProto:
    """A FakeQuantize-like u8 pair in front of most operators and at the outputs; weights int8 per channel."""
    rw = rewriter(subject, prepared=True)
    for node in rw.weighted():
        if node.input[1] in rw.weights:
            rw.stored_weight(node)
    for node in rw.original:
        if node.op_type in (*ARITHMETIC, "Conv", "ConvTranspose", "Gemm", "MatMul", "InstanceNormalization"):
            node.input[:] = [rw.unsigned_pair(name) if rw.is_activation(name) else name for name in node.input]
    rw.pair_outputs(rw.unsigned_pair)
    return rw.finish("pytorch", "2.11.0")


def brevitas_qcdq(subject: Subject, weight_limit: int = 127) -> onnx.ModelProto:
    """Clip between Q and DQ of six-bit activations and of narrow weights; biases int32 behind a DQ."""
    rw = rewriter(subject, prepared=False)
    for index, node in enumerate(rw.weighted()):
        name = node.input[0]
        low, high = rw.ranges[name]
        if index % 2 or low < 0:
            scale = symmetric_scale((low, high), 127)
            node.input[0] = rw.symmetric_pair(name)
        else:
            scale = symmetric_scale((low, high), 63)
            parameters = [rw.constant(scale, np.float32, "act_scale"), rw.constant(0, np.uint8, "act_zero_point")]
            bounds = [rw.constant(value, np.uint8, "act_bound") for value in (0, 63)]
            stored = rw.node("QuantizeLinear", [name, *parameters], name)
            clipped = rw.node("Clip", [stored, *bounds], name)
            node.input[0] = rw.node("DequantizeLinear", [clipped, *parameters], name)
        if node.input[1] in rw.weights:
            weight_scale = rw.stored_weight(node, weight_limit, clip=True)
            rw.stored_bias(node, scale, weight_scale)
        else:
            node.input[1] = rw.symmetric_pair(node.input[1])
    return with_old_opset(rw.finish("pytorch", "2.1.0"))


def with_old_opset(model: onnx.ModelProto, opset: int = 13) -> onnx.ModelProto:
    """The same nodes declared as opset 13, which this exporter writes by default, where that is still valid."""
    old = onnx.ModelProto()
    old.CopyFrom(model)
    old.opset_import[0].version, old.ir_version = opset, 7
    try:
        onnx.checker.check_model(old)
        onnx.shape_inference.infer_shapes(old, strict_mode=True)
        return old
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return model


def brevitas_w4(subject: Subject) -> onnx.ModelProto:
    """Four-bit weights that are stored as int8 and clipped to -7..7."""
    return brevitas_qcdq(subject, weight_limit=7)


def power_of_two(value: float) -> float:
    return float(2.0 ** math.ceil(math.log2(value)))


def quark_xint8(subject: Subject) -> onnx.ModelProto:
    """Everything quantized with scales that are powers of two; u8 around 128, weights and biases int8."""
    rw = rewriter(subject, prepared=True)
    kinds = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Relu", "LeakyRelu", "Clip", "Sigmoid", "HardSigmoid",
             "Softmax", "Reshape", "Transpose", "Resize", "Slice", "Pad", "Div", "ReduceMean", *ARITHMETIC)  # fmt: skip
    fused = {
        node.input[0]
        for node in rw.original
        if node.op_type in ("Relu", "Clip") and len(rw.consumers(node.input[0])) == 1
    }

    def around_128(name: str) -> str:
        return rw.pair(name, power_of_two(symmetric_scale(rw.ranges[name], 127)), 128, TensorProto.UINT8)

    for node in rw.original:
        if node.op_type not in kinds:
            continue
        for place, name in enumerate(node.input):
            if rw.is_activation(name) and not (node.op_type in ("Relu", "Clip") and name in fused):
                node.input[place] = around_128(name)
            elif name in rw.weights and rw.weights[name].dtype == np.float32 and allowed_constant(node, place):
                value = rw.weights[name]
                scale = power_of_two(max(float(np.abs(value).max()), 1e-5) / 127)
                integers = rw.constant(np.clip(np.rint(value / scale), -128, 127), np.int8, f"{name}_quantized")
                parameters = [rw.constant(scale, np.float32, "scale"), rw.constant(0, np.int8, "zero_point")]
                node.input[place] = rw.node("DequantizeLinear", [integers, *parameters], name)
    rw.pair_outputs(around_128)
    return rw.finish("quark.onnx", "0.13")


def allowed_constant(node: onnx.NodeProto, place: int) -> bool:
    """Whether a constant input carries data; limits, padding values and resize factors do not."""
    return place == 0 or node.op_type not in ("Clip", "Pad", "Resize")


def torch_pt2e(subject: Subject) -> onnx.ModelProto:
    """The exporter of torch: Constant nodes, dense weights behind DQ and Transpose, leftovers between DQ and op."""
    rw = rewriter(subject, prepared=False, opset=18)

    def between(name: str, index: int) -> str:
        result = rw.signed_pair(name)
        if index % 3 == 1:
            return rw.node("Dropout", [result], name)
        if index % 3 == 2:
            return rw.node("Identity", [result], name)
        return rw.node("Cast", [result], name, to=TensorProto.FLOAT) if index % 2 else result

    def movement_first(name: str) -> str:
        """Q reads behind an Identity, as after an exporter's no-op."""
        rw.ranges[f"{name}_same"] = rw.ranges[name]
        rw.nodes.append(onnx.helper.make_node("Identity", [name], [f"{name}_same"], name=f"{name}_same"))
        return rw.signed_pair(f"{name}_same")

    for index, node in enumerate(rw.weighted()):
        node.input[0] = between(node.input[0], index)
        name = node.input[1]
        if name not in rw.weights:
            node.input[1] = between(name, index + 1)
        elif node.op_type == "MatMul" and rw.weights[name].ndim == 2:
            turned = rw.constant(rw.weights[name].T, np.float32, f"{name}_linear")
            row = onnx.helper.make_node("Gemm", [node.input[0], turned], ["unused"], transB=1)
            rw.stored_weight(row)
            node.input[1] = rw.node("Transpose", [row.input[1]], name, perm=[1, 0])
        else:
            rw.stored_weight(node)
    for node in rw.original:
        if node.op_type in ("Add", "Mul", "AveragePool", "GlobalAveragePool", "ReduceMean", "HardSwish"):
            node.input[:] = [rw.signed_pair(name) if rw.is_activation(name) else name for name in node.input]
    rw.pair_outputs(movement_first)
    return rw.finish("pytorch", "2.9.0", constants_as_nodes=True)


def litert_nhwc(subject: Subject) -> onnx.ModelProto:
    """A converted LiteRT file: Transposes to NHWC around every convolution, weights turned after their DQ."""
    rw = rewriter(subject, prepared=True)

    def turned(name: str, perm: list[int], back: list[int]) -> str:
        rw.ranges[f"{name}_nhwc"] = rw.ranges[name]
        if f"{name}_nhwc" not in rw.pairs:
            rw.nodes.append(
                onnx.helper.make_node("Transpose", [name], [f"{name}_nhwc"], perm=perm, name=f"{name}_nhwc")
            )
            result = rw.signed_pair(f"{name}_nhwc")
            rw.pairs[f"{name}_nhwc"] = rw.node("Transpose", [result], name, perm=back)
        return rw.pairs[f"{name}_nhwc"]

    for node in rw.weighted():
        name, weight = node.input[:2]
        scale = affine(rw.ranges[name], -128, 127)[0]
        images = node.op_type == "Conv" and rw.weights[weight].ndim == 4
        node.input[0] = turned(name, [0, 2, 3, 1], [0, 3, 1, 2]) if images else rw.signed_pair(name)
        if weight not in rw.weights:
            node.input[1] = rw.signed_pair(weight)
            continue
        if images:
            weight_scale, _ = rw.weight_scale(node, 127)
            integers = np.rint(rw.weights[weight] / weight_scale.reshape(-1, 1, 1, 1)).transpose(2, 3, 1, 0)
            inputs = [
                rw.constant(integers, np.int8, f"{weight}_hwio"),
                rw.constant(weight_scale, np.float32, f"{weight}_scale"),
                rw.constant(np.zeros_like(weight_scale), np.int8, f"{weight}_zero_point"),
            ]
            stored = rw.node("DequantizeLinear", inputs, weight, axis=3)
            node.input[1] = rw.node("Transpose", [stored], weight, perm=[3, 2, 0, 1])
        else:
            weight_scale = rw.stored_weight(node, per_channel=False)
        rw.stored_bias(node, scale, weight_scale)
    for node in rw.original:
        if node.op_type in (*ARITHMETIC, "Sigmoid", "Tanh", "Softmax", "LeakyRelu", "PRelu", "ReduceMean", "Resize"):
            node.input[:] = [rw.signed_pair(name) if rw.is_activation(name) else name for name in node.input]
    rw.pair_outputs(rw.signed_pair)
    return rw.finish("tf2onnx", "1.16.1 15c810")


def style(function: Any) -> Style:
    return Style(function.__name__, function)


STYLES = [
    style(f) for f in (tensorrt, nncf, brevitas_qcdq, brevitas_w4, quark_xint8, torch_pt2e, litert_nhwc)
]  # fmt: skip
