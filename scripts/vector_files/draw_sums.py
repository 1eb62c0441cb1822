"""Operators that sum products: sums at ties, edges and beyond the range; whole dot products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from qverify.tensors.one_op import OneOp, Operand

from scripts.vector_files.drawn import SCALE_Y, Array, Drawn, Rng, codes, in_rows, middle, random_of, scale32

SCALES = {  # the real scale of a sum
    "a general scale": 0.00371,
    "a tiny scale": 2.0**-24.3,
    "a scale above 1": 1.37,
    "a scale just below 1/2": 0.49993,
    "a power of two": 2.0**-6,
}
SUMS, PRODUCTS, TERMS = 768, 160, 21  # items that are chosen from; terms of a dot product
ENDS = (0, 1, -1, 2**24 + 1, -(2**24) - 1, 2**30, -(2**30), 2**31 - 1, -(2**31) + 1)
TAKEN, TAKEN_PRODUCTS = 48, 10


@dataclass(frozen=True)
class Layer:
    """How an op is written as an operator of ONNX. kind: the operator. depthwise: whether each channel is a group."""

    kind: str
    depthwise: bool = False
    attributes: dict[str, Any] = field(default_factory=dict)


LAYERS = {
    "conv": (Layer("Conv"), Layer("Conv", True)),
    "conv_transpose": (Layer("ConvTranspose"),),
    "fully_connected": (Layer("Gemm", attributes={"transB": 1}),),
}


def draw(op: str, dtype: str) -> Iterator[Drawn]:
    """Yields operators of an op with constant weights: one scale of weights, and one for each channel."""
    for layer in LAYERS[op]:
        for channels in (True, False):
            for what, real in SCALES.items():
                yield _sums(op, layer, dtype, channels, what, real)
            yield _products(op, layer, dtype, channels)


def _named(op: str, layer: Layer, dtype: str, channels: bool, what: str) -> str:
    words = f"depthwise {op}" if layer.depthwise else op
    return f"{words} of {dtype}, {'a scale for each channel' if channels else 'one scale of weights'}, {what}"


def _sums(op: str, layer: Layer, dtype: str, channels: bool, what: str, real: float) -> Drawn:
    """Returns an operator whose products are 0, so that a sum is its bias."""
    name = _named(op, layer, dtype, channels, what)
    rng, zero, zero_y = random_of("vectors", name), middle(dtype, -7), middle(dtype, 11)
    power = what == "a power of two"
    sx, sy = (0.25, 0.5) if power else (scale32(0.0311), SCALE_Y)
    sw = scale32(real * sy / sx)
    sums = _draw_sums(rng, sx * sw / sy, np.iinfo(dtype), zero_y)
    bias, n = sums.astype(np.int32), len(sums)
    x = Operand(np.full((1, n if layer.depthwise else 1, 1, 1), zero, dtype), np.float32(sx), zero)
    shape: tuple[int, ...] = (n, 1, 1, 1)
    axis, attributes = 0, dict(layer.attributes)
    if layer.depthwise:
        attributes["group"] = n
    if op == "conv_transpose":
        shape, axis = (1, n, 1, 1), 1
    elif op == "fully_connected":
        shape, x = (n, 1), Operand(x.codes.reshape(1, 1), x.scale, zero)
    weight = Operand(np.ones(shape, np.int8), np.full(n if channels else 1, sw, np.float32), 0, axis)
    probe = OneOp(op, name, layer.kind, (x,), sy, zero_y, dtype, weight, bias, attributes)
    types = (dtype, "int8", dtype)
    ends = len(ENDS)
    return Drawn(
        probe, f"sums; {name}", sums[:, None], None, in_rows, (sx, sw, sy), (zero, 0, zero_y), 0, TAKEN, ends, types
    )


def _draw_sums(rng: Rng, scale: float, limits: Any, zero: int) -> Array:
    """Returns sums: ends, next to ties within the range and at its ends, and others."""
    steps = rng.permutation(np.arange(int(limits.min) - 2, int(limits.max) + 2)) - zero
    ties = np.rint((steps + 0.5) / scale)
    near = np.concatenate([ties, ties + 1, ties - 1])
    others = rng.integers(-int(300 / scale) - 2, int(300 / scale) + 3, SUMS)
    sums = np.concatenate([ENDS, np.clip(np.concatenate([near, others]), -(2**31) + 1, 2**31 - 1)]).astype(np.int64)
    return sums[: len(ENDS) + len(near) + SUMS // 2]


def _products(op: str, layer: Layer, dtype: str, channels: bool) -> Drawn:
    """Returns an operator without bias, each of whose sums on the diagonal is a dot product of its own."""
    name = _named(op, layer, dtype, channels, "dot products")
    rng, zero, zero_y, n, k = random_of("vectors", name), middle(dtype, -7), middle(dtype, 11), PRODUCTS, TERMS
    sx, sw = scale32(0.0311), scale32(0.0113)
    sy = scale32(sx * sw * np.sqrt(k) * 74.0**2 / 60.0)
    a, b = codes(rng, (n, k), dtype), np.maximum(codes(rng, (n, k), "int8"), -127).astype(np.int8)
    a[0], b[0] = np.iinfo(dtype).max, 127  # the largest sum
    a[1], b[1] = np.iinfo(dtype).max, -127
    x, w, axis, attributes = a, b, 0, dict(layer.attributes)
    if layer.depthwise:
        x, w, attributes["group"] = a.reshape(1, n, 1, k), b.reshape(n, 1, 1, k), n
    elif op == "conv":
        x, w = a.T.reshape(1, k, 1, n), b.reshape(n, k, 1, 1)
    elif op == "conv_transpose":
        x, w, axis = a.T.reshape(1, k, 1, n), b.T.reshape(k, n, 1, 1), 1
    weight = Operand(np.ascontiguousarray(w), np.full(n if channels else 1, sw, np.float32), 0, axis)
    operand = Operand(np.ascontiguousarray(x), np.float32(sx), zero)
    probe = OneOp(op, name, layer.kind, (operand,), sy, zero_y, dtype, weight, None, attributes)

    def diagonal(output: Array) -> Array:
        return output.reshape(-1, 1) if layer.depthwise else np.diagonal(output.reshape(n, n))[:, None]

    zeros, types = (zero, 0, zero_y), (dtype, "int8", dtype)
    return Drawn(probe, name, a, b, diagonal, (sx, sw, sy), zeros, k, TAKEN_PRODUCTS, 2, types)


def draw_matmul(dtype: str) -> Iterator[Drawn]:
    """Yields products of two matrices that are not constant, with a general scale and a power of two."""
    n, k = 4 * PRODUCTS, TERMS
    for what, power in (("a general scale", False), ("a power of two", True)):
        name = f"matmul of {dtype}, {what}"
        rng, zeros = random_of("vectors", name), (middle(dtype, -7), middle(dtype, 3), middle(dtype, 11))
        sa, sb = (2.0**-5, 2.0**-6) if power else (scale32(0.0311), scale32(0.0113))
        sy = 2.0**-1 if power else scale32(sa * sb * np.sqrt(k) * 74.0**2 / 60.0)
        a, b = codes(rng, (n, 1, k), dtype), codes(rng, (n, k, 1), dtype)
        operands = Operand(a, np.float32(sa), zeros[0]), Operand(b, np.float32(sb), zeros[1])
        probe = OneOp("matmul", name, "MatMul", operands, sy, zeros[2], dtype)
        flat = a.reshape(n, k), b.reshape(n, k)
        yield Drawn(probe, name, *flat, in_rows, (sa, sb, sy), zeros, k, TAKEN_PRODUCTS, 2, (dtype, dtype, dtype))
