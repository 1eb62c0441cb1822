"""Weights of dense layers in blocks of four, two or eight bits, as language models are shipped."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from .builder import Array
from .rewrite import Rewriter
from .subject import NotApplicable, Style, Subject


def blocks(weight: Array, size: int, bits: int, with_zero_points: bool) -> tuple[Array, Array, Array]:
    """Unsigned integers [blocks, size, N], scales and zero points [blocks, N] of a weight [K, N]; K is padded."""
    rows, columns = weight.shape
    padded = np.zeros((-(-rows // size) * size, columns), np.float32)
    padded[:rows] = weight
    cut = padded.reshape(-1, size, columns)
    top = 2**bits - 1
    if with_zero_points:
        low, high = np.minimum(cut.min(1), 0), np.maximum(cut.max(1), 0)
        scales = np.maximum(high - low, 1e-6) / top
        zeros = np.clip(np.rint(-low / scales), 0, top)
    else:
        scales = np.maximum(np.abs(cut).max(1), 1e-6) / (2 ** (bits - 1) - 0.5 if bits > 2 else 1.5)
        zeros = np.full(scales.shape, 2 ** (bits - 1))
    integers = np.clip(np.rint(cut / scales[:, None]) + zeros[:, None], 0, top)
    return integers.astype(np.uint8), scales.astype(np.float32), zeros.astype(np.uint8)


def packed(values: Array, bits: int) -> Array:
    """Integers of the last axis packed into bytes, the lowest bits first."""
    each = 8 // bits
    length = -(-values.shape[-1] // each) * each
    padded = np.zeros((*values.shape[:-1], length), np.uint8)
    padded[..., : values.shape[-1]] = values
    groups = padded.reshape(*values.shape[:-1], -1, each)
    shifts = (np.arange(each) * bits).astype(np.uint8)
    return np.asarray(np.bitwise_or.reduce(groups << shifts, axis=-1), np.uint8)


def dense_layers(rw: Rewriter) -> list[onnx.NodeProto]:
    """MatMul by a constant matrix, the only operator these tools take; Gemm is first split into MatMul and Add."""
    for node in list(rw.nodes):
        settings = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        plain = settings.get("alpha", 1) == settings.get("beta", 1) == 1 and not settings.get("transA")
        if node.op_type == "Gemm" and plain and node.input[1] in rw.weights and len(node.input) == 3:
            weight = rw.weights[node.input[1]]
            name = rw.constant(weight.T.copy() if settings.get("transB") else weight, np.float32, f"{node.input[1]}_t")
            product = f"{node.output[0]}_product"
            place = rw.nodes.index(node)
            rw.nodes[place : place + 1] = [
                helper.make_node("MatMul", [node.input[0], name], [product], name=f"{node.name}_MatMul"),
                helper.make_node("Add", [product, node.input[2]], list(node.output), name=f"{node.name}_Add"),
            ]
    found = [
        node
        for node in rw.nodes
        if node.op_type == "MatMul" and node.input[1] in rw.weights and rw.weights[node.input[1]].ndim == 2
    ]
    if not found:
        raise NotApplicable("no MatMul or Gemm by a constant matrix")
    return found


def with_contrib_domain(model: onnx.ModelProto) -> onnx.ModelProto:
    if all(entry.domain != "com.microsoft" for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def matmul_nbits(subject: Subject, bits: int, size: int, accuracy_level: int, zeros: bool) -> onnx.ModelProto:
    """com.microsoft MatMulNBits in place of every dense layer."""
    rw = Rewriter(subject.copy(prepared=False), {})
    for node in dense_layers(rw):
        weight = rw.weights[node.input[1]]
        integers, scales, zero_points = blocks(weight, size, bits, zeros)
        name = node.input[1]
        inputs = [
            node.input[0],
            rw.constant(packed(integers.transpose(2, 0, 1), bits), np.uint8, f"{name}_Q{bits}"),
            rw.constant(scales.T.copy(), np.float32, f"{name}_scales"),
        ]
        if zeros:
            inputs.append(rw.constant(packed(zero_points.T, bits), np.uint8, f"{name}_zero_points"))
        new = helper.make_node(
            "MatMulNBits", inputs, list(node.output), name=f"{node.name}_Q{bits}", domain="com.microsoft",
            K=weight.shape[0], N=weight.shape[1], bits=bits, block_size=size, accuracy_level=accuracy_level,
        )  # fmt: skip
        rw.nodes[rw.nodes.index(node)] = new
    return with_contrib_domain(rw.finish("onnxruntime", "1.31.1"))


def w4_nbits(subject: Subject) -> onnx.ModelProto:
    """Four bits in blocks of 32, symmetric, computed in float."""
    return matmul_nbits(subject, 4, 32, 0, zeros=False)


def w4_nbits_int8(subject: Subject) -> onnx.ModelProto:
    """Four bits in blocks of 16 with zero points; level 4 lets the runtime quantize activations to int8."""
    return matmul_nbits(subject, 4, 16, 4, zeros=True)


def w2_nbits(subject: Subject) -> onnx.ModelProto:
    """Two bits in blocks of 16."""
    return matmul_nbits(subject, 2, 16, 0, zeros=True)


def w8_nbits(subject: Subject) -> onnx.ModelProto:
    """Eight bits in blocks of 16."""
    return matmul_nbits(subject, 8, 16, 0, zeros=False)


def w4_blocked(subject: Subject) -> onnx.ModelProto:
    """Opset 21: DequantizeLinear with block_size over INT4 or UINT4 weights, in front of MatMul."""
    rw = Rewriter(subject.copy(prepared=False, opset=21), {})
    tensors: dict[str, onnx.TensorProto] = {}
    for index, node in enumerate(dense_layers(rw)):
        weight, name = rw.weights[node.input[1]], node.input[1]
        integers, scales, zero_points = blocks(weight, 16, 4, with_zero_points=bool(index % 2))
        flat = integers.reshape(-1, weight.shape[1])[: weight.shape[0]].astype(np.int32)
        kind, shift = (TensorProto.UINT4, 0) if index % 2 else (TensorProto.INT4, 8)
        inputs = [f"{name}_int4_{index}", rw.constant(scales, np.float32, f"{name}_scales")]
        tensors[inputs[0]] = helper.make_tensor(inputs[0], kind, flat.shape, (flat - shift).ravel())
        if index % 2:
            inputs.append(f"{name}_zeros_{index}")
            values = zero_points.astype(np.int32)
            tensors[inputs[2]] = helper.make_tensor(inputs[2], kind, values.shape, values.ravel())
        for key in tensors:
            rw.weights.setdefault(key, np.zeros(1, np.int8))
        node.input[1] = rw.node("DequantizeLinear", inputs, name, axis=0, block_size=16)
    model = rw.finish("onnxruntime", "1.31.1")
    replace_tensors(model, tensors)
    return model


def replace_tensors(model: onnx.ModelProto, tensors: dict[str, onnx.TensorProto]) -> None:
    """Puts tensors of types that numpy lacks in place of their stand-ins."""
    for item in model.graph.initializer:
        if item.name in tensors:
            item.CopyFrom(tensors[item.name])


def embeddings_int8(subject: Subject) -> onnx.ModelProto:
    """Weights only: tables behind Gather and all dense weights as int8 rows, dequantized in front of use."""
    rw = Rewriter(subject.copy(prepared=False, opset=13), {})
    done = 0
    for node in rw.original:
        places = {"Gather": 0, "MatMul": 1, "Gemm": 1, "Conv": 1, "LSTM": 1, "GRU": 1, "RNN": 1}
        place = places.get(node.op_type)
        if place is None or node.input[place] not in rw.weights:
            continue
        weight = rw.weights[node.input[place]]
        if weight.dtype != np.float32 or weight.ndim < 2:
            continue
        scale = np.maximum(np.abs(weight).max(axis=tuple(range(1, weight.ndim))), 1e-6) / 127
        integers = np.rint(weight / scale.reshape(-1, *[1] * (weight.ndim - 1)))
        inputs = [rw.constant(integers, np.int8, "table_int8"), rw.constant(scale, np.float32, "table_scale")]
        node.input[place] = rw.node("DequantizeLinear", inputs, node.input[place], axis=0)
        done += 1
    if not done:
        raise NotApplicable("no weight of two dimensions or more")
    return rw.finish("optimum", "2.0.0")


STYLES = [
    Style(function.__name__, function)
    for function in (w4_nbits, w4_nbits_int8, w2_nbits, w8_nbits, w4_blocked, embeddings_int8)
]
