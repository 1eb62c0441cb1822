"""Writes a MatMulBnb4, whose weights are 4-bit numbers of an element of a table, as MatMul with weights of float32."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx

from qverify.onnx_model.rewriter import MICROSOFT, Array, Rewriter, attribute, check_known

# by quant_type, the values of the numbers 0 to 15; measured on onnxruntime 1.32.0
_MAGNITUDES = (0.0, 5.208333333e-03, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
FP4 = (*_MAGNITUDES, *(-m for m in _MAGNITUDES))
NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
TABLES = {0: np.array(FP4, np.float32), 1: np.array(NF4, np.float32)}


def product(r: Rewriter, node: onnx.NodeProto) -> None:
    check_known(r, node, "K", "N", "block_size", "quant_type", "transB", "training_mode")
    table = TABLES.get(attribute(node, "quant_type", -1))
    if table is None or attribute(node, "transB", 1) != 1:
        raise r.refusal("wanted quant_type 0 (FP4) or 1 (NF4), and transB=1")
    stored, scales = (r.value(name) for name in node.input[1:3])
    if stored is None or scales is None:
        raise r.refusal("its weights are computed at run time; only constants can be compiled")
    shape = (attribute(node, "N", 0), attribute(node, "K", 0))
    weights = _dequantize(r, stored, scales, table, prod(shape), attribute(node, "block_size", 0))
    r.node("MatMul", [node.input[0], r.constant("weight", weights.reshape(shape).T)], node.output[0])


def _dequantize(r: Rewriter, stored: Array, scales: Array, table: Array, count: int, block: int) -> Array:
    """Returns `count` float32 weights. stored: two numbers in each byte, the first one in the upper half. scales: one for
    each block of this many weights."""
    if min(count, block) < 1 or stored.dtype != np.uint8 or scales.dtype != np.float32:
        raise r.refusal("wanted weights of uint8, scales of float32, and K, N and block_size of 1 or more")
    if stored.size != -(-count // 2) or scales.size != -(-count // block):
        raise r.refusal(
            f"{stored.size} bytes and {scales.size} scales for {count} weights in blocks of {block}; wanted "
            f"{-(-count // 2)} and {-(-count // block)}"
        )
    numbers = np.stack([stored.reshape(-1) >> 4, stored.reshape(-1) & 15], axis=1).reshape(-1)[:count]
    return np.asarray(table[numbers] * np.repeat(scales.reshape(-1), block)[:count])


REPLACED = {(MICROSOFT, "MatMulBnb4"): product}
