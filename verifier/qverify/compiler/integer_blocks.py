"""Splits MatMulNBits of accuracy level 4, which rounds its activations to 8 bits in blocks, into two nodes: QuantizeBlocks,
whose integers and scales are tensors of their own, and MatMulBlocks, which multiplies them.

Both are functions of the model (ONNX's FunctionProto), so that onnxruntime runs them: the first in standard operators, the
second as its own MatMulNBits of level 4 on the dequantized blocks. These quantize to the same integers again, because the
largest of a block is 127 of its steps, and its scale is at most one rounding away."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qverify.compiler.unpack_weights import Constants, Names, constants_of, input_at, obstacle
from qverify.onnx_model.graph_view import attributes
from qverify.onnx_model.opsets import standard_opset

DOMAIN = "qverify"
LONGEST = 256  # elements of a block of activations; onnxruntime divides longer blocks
OLDEST = 13  # opset of Cast, Pad and Round as the functions use them
AXES_AS_INPUT = 18  # opset from which on ReduceMax has its axes as an input
SMALLEST = np.float32(127) / np.finfo(np.float32).max  # the least float32 by which 127 can be divided
LEVEL = 4
BLOCKS_OF_2_BITS = (32, 64, 128)  # others are computed in float32
Infos = dict[str, onnx.ValueInfoProto]


def split_integer_blocks(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model with every MatMulNBits that takes_integers() replaced by the two nodes; the model itself if there is
    no such node."""
    graph, infos = model.graph, _infos(model.graph)
    constants, opset = constants_of(graph), standard_opset(model)
    chosen = {n.output[0] for n in graph.node if takes_integers(n, constants, opset) and _dims(infos, n.input[0])}
    if not chosen:
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    writer = _Writer(changed, infos)
    for node in graph.node:
        if node.output[0] in chosen:
            writer.split(node)
        else:
            writer.nodes.append(node)
    del changed.graph.node[:]
    changed.graph.node.extend(writer.nodes)
    changed.functions.extend([_quantize_blocks(opset), _matmul_blocks(opset)])
    changed.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    changed.ir_version = max(changed.ir_version, 8)  # the first with functions
    return changed


def takes_integers(node: Any, constants: Constants, opset: int = OLDEST) -> bool:
    """Returns whether onnxruntime rounds the activations of this node to 8 bits. Measured with 1.32 on x86-64 (NUMERICS.md,
    matmul_blocks)."""
    attrs = attributes(node)
    if (node.domain, node.op_type) != ("com.microsoft", "MatMulNBits") or attrs.get("accuracy_level", 0) != LEVEL:
        return False
    if opset < OLDEST or input_at(node, 4) or obstacle(node, constants):
        return False
    zero = input_at(node, 3)
    packed = not zero or constants[zero].data_type == onnx.TensorProto.UINT8
    return packed and (attrs.get("bits", 4) != 2 or attrs["block_size"] in BLOCKS_OF_2_BITS)


class _Writer:
    """Writes the new nodes of one model.

    nodes: the model's nodes, in running order."""

    def __init__(self, model: onnx.ModelProto, infos: Infos):
        self._graph, self._infos = model.graph, infos
        self._names = Names(model.graph)
        self._quantized: dict[
            tuple[str, int], tuple[str, str]
        ] = {}  # activations and length of a block to both outputs
        self._zeros: dict[tuple[str, int], str] = {}  # weights and bits to the constant for their omitted zero points
        self.nodes: list[onnx.NodeProto] = []

    def split(self, node: onnx.NodeProto) -> None:
        """Writes the nodes for a MatMulNBits."""
        attrs = attributes(node)
        depth, rows, bits, size = attrs["K"], attrs["N"], attrs.get("bits", 4), attrs["block_size"]
        padded, length = -(-depth // size) * size, min(size, LONGEST)
        lead = _dims(self._infos, node.input[0])[:-1]
        parts = self._parts(node.input[0], lead, (depth, padded, length))
        bias = [input_at(node, 5)] if input_at(node, 5) else []
        zeros = input_at(node, 3) or self._omitted_zeros(node.input[1], bits, rows * -(-(padded // size) * bits // 8))
        words: dict[str, Any] = {"K": padded, "N": rows, "bits": bits, "block_size": size, "shape": [*lead, padded]}
        name = {"name": node.name} if node.name else {}
        inputs = [*parts, *node.input[1:3], zeros, *bias]
        self.nodes.append(helper.make_node("MatMulBlocks", inputs, node.output, domain=DOMAIN, **name, **words))

    def _parts(self, x: str, lead: list[int], sizes: tuple[int, int, int]) -> tuple[str, str]:
        """Returns the names of the integers and of the scales of x, which nodes may share.

        sizes: elements of a row, with those that fill its last block, and elements of a block."""
        depth, padded, length = sizes
        if (x, length) not in self._quantized:
            quantized, scale = (self._names.fresh(f"{x}/{part}") for part in ("quantized", "scale"))
            shape = [*lead, padded // length, length]
            self._graph.value_info.extend(
                [
                    helper.make_tensor_value_info(quantized, onnx.TensorProto.INT8, shape),
                    helper.make_tensor_value_info(scale, onnx.TensorProto.FLOAT, [*shape[:-1], 1]),
                ]
            )
            words: dict[str, Any] = {"pads": [0] * (2 * len(lead) + 1) + [padded - depth], "shape": shape}
            name = f"{quantized}/QuantizeBlocks"
            self.nodes.append(
                helper.make_node("QuantizeBlocks", [x], [quantized, scale], name=name, domain=DOMAIN, **words)
            )
            self._quantized[x, length] = quantized, scale
        return self._quantized[x, length]

    def _omitted_zeros(self, weights: str, bits: int, count: int) -> str:
        """Adds the zero points 2^(bits-1) that weights have without any, and returns their name. (Given as a constant, they
        keep onnxruntime on ARM from another quantization of the activations; the weights are the same.)"""
        if (weights, bits) not in self._zeros:
            name = self._names.fresh(f"{weights}/zero_points")
            byte = {2: 0xAA, 4: 0x88, 8: 0x80}[bits]
            self._graph.initializer.append(numpy_helper.from_array(np.full(count, byte, np.uint8), name))
            self._zeros[weights, bits] = name
        return self._zeros[weights, bits]


def _quantize_blocks(opset: int) -> onnx.FunctionProto:
    """Returns the function x -> quantized, scale (NUMERICS.md, quantize_blocks)."""
    last: dict[str, Any] = {} if opset >= AXES_AS_INPUT else {"axes": [-1]}
    nodes = [
        _from_attribute("pads"),
        _from_attribute("shape"),
        _floats("limit", 127.0),
        _floats("smallest", float(SMALLEST)),
        helper.make_node("Constant", [], ["last"], value_ints=[-1]),
        helper.make_node("Pad", ["x", "pads"], ["padded"]),
        helper.make_node("Reshape", ["padded", "shape"], ["blocks"]),
        _floats("zero", 0.0),
        helper.make_node("IsNaN", ["blocks"], ["no_number"]),  # ReduceMax finds one or not, depending on its place
        helper.make_node("Where", ["no_number", "zero", "blocks"], ["numbers"]),
        helper.make_node("Abs", ["numbers"], ["magnitudes"]),
        helper.make_node(
            "ReduceMax", ["magnitudes"] if last else ["magnitudes", "last"], ["largest"], keepdims=1, **last
        ),
        helper.make_node("Div", ["largest", "limit"], ["scale"]),
        helper.make_node("Max", ["largest", "smallest"], ["divisor"]),
        helper.make_node("Div", ["limit", "divisor"], ["steps"]),
        helper.make_node("Mul", ["numbers", "steps"], ["stepped"]),
        helper.make_node("IsNaN", ["stepped"], ["of_infinity"]),
        helper.make_node("Where", ["of_infinity", "zero", "stepped"], ["finite"]),
        helper.make_node("Round", ["finite"], ["rounded"]),
        helper.make_node("Cast", ["rounded"], ["quantized"], to=onnx.TensorProto.INT8),
    ]
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_function(
        DOMAIN, "QuantizeBlocks", ["x"], ["quantized", "scale"], nodes, opsets, attributes=["pads", "shape"]
    )


def _matmul_blocks(opset: int) -> onnx.FunctionProto:
    """Returns the function quantized, scale, weights, their scales and zero points, bias? -> y (NUMERICS.md, matmul_blocks)."""
    product = helper.make_node(
        "MatMulNBits", ["rows", "w", "ws", "wz", "", "bias"], ["y"], domain="com.microsoft", accuracy_level=LEVEL
    )
    names = ("K", "N", "bits", "block_size")
    for name in names:
        product.attribute.add(name=name, ref_attr_name=name, type=onnx.AttributeProto.INT)
    nodes = [
        _from_attribute("shape"),
        helper.make_node("Cast", ["quantized"], ["integers"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["integers", "scale"], ["blocks"]),
        helper.make_node("Reshape", ["blocks", "shape"], ["rows"]),
        product,
    ]
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    inputs = ["quantized", "scale", "w", "ws", "wz", "bias"]
    return helper.make_function(DOMAIN, "MatMulBlocks", inputs, ["y"], nodes, opsets, attributes=[*names, "shape"])


def _from_attribute(name: str) -> onnx.NodeProto:
    """Returns a Constant of the function's attribute of this name, a list of integers."""
    node = helper.make_node("Constant", [], [name])
    node.attribute.add(name="value_ints", ref_attr_name=name, type=onnx.AttributeProto.INTS)
    return node


def _floats(name: str, value: float) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value_float=value)


def _infos(graph: onnx.GraphProto) -> Infos:
    return {v.name: v for v in [*graph.value_info, *graph.input, *graph.output]}


def _dims(infos: Infos, name: str) -> list[int]:
    """Returns the dims of a float32 tensor, an empty list if they are not known."""
    if name not in infos or infos[name].type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
        return []
    dims = [d.dim_value for d in infos[name].type.tensor_type.shape.dim]
    return dims if all(d > 0 for d in dims) else []
