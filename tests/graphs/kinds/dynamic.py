"""Dynamic quantization as quantize_dynamic writes it."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.graphs.random_graph import MICROSOFT, RandomGraph


def product(g: RandomGraph) -> None:
    x = g.tensor("float32", rank=(2, 3))
    made, dtype = g.pick(1, 3, 5), g.pick("int8", "uint8")
    integer = g.add("DynamicQuantizeLinear", [x], 3)
    w, zero, scale = _weight(g, (g.shape(x)[-1], made), dtype)
    total = g.add("MatMulInteger", [integer[0], w, integer[2], zero])[0]
    scaled = _scaled(g, total, integer[1], scale)
    g.op("Add", [scaled, g.reals(made)]) if g.chance(0.5) else None
    _hide(g, *integer)


def convolution(g: RandomGraph) -> None:
    x = g.tensor("float32", rank=(3, 4))
    made, dims = g.pick(1, 3), g.shape(x)[2:]
    integer = g.add("DynamicQuantizeLinear", [x], 3)
    w, zero, scale = _weight(g, (made, g.shape(x)[1], *[g.pick(1, 2) for _ in dims]), "uint8")
    more = {"pads": [g.pick(0, 1) for _ in (*dims, *dims)], "strides": [g.pick(1, 2) for _ in dims]}
    total = g.add("ConvInteger", [integer[0], w, integer[2], zero], **more)[0]
    _scaled(g, total, integer[1], scale)
    _hide(g, *integer)


def product_in_one(g: RandomGraph) -> None:
    x = g.tensor("float32", rank=(2, 3))
    made = g.pick(2, 3)
    w, zero, scale = _weight(g, (g.shape(x)[-1], made), g.pick("int8", "uint8"))
    bias = [g.reals(made)] if g.chance(0.5) else []
    if g.chance(0.5):
        g.op("DynamicQuantizeMatMul", [x, w, scale, zero, *bias], MICROSOFT)
    else:
        integer = g.add("DynamicQuantizeLinear", [x], 3)
        names = [integer[0], w, integer[1], scale, integer[2], zero, *bias]
        g.op("MatMulIntegerToFloat", names, MICROSOFT)
        _hide(g, *integer)


def _weight(g: RandomGraph, shape: tuple[int, ...], dtype: str) -> tuple[str, str, str]:
    zero = 0 if dtype == "int8" else g.pick(0, 120, 255)
    low = -128 if dtype == "int8" else 0
    value = g.constant(g.rng.integers(low, low + 256, shape), dtype)
    return value, g.constant(zero, dtype), g.constant(np.float32(g.rng.uniform(0.002, 0.02)))


def _scaled(g: RandomGraph, total: str, scale_x: str, scale_w: str) -> str:
    floats = g.add("Cast", [total], to=TensorProto.FLOAT)[0]
    return g.op("Mul", [floats, g.add("Mul", [scale_x, scale_w])[0]])


def _hide(g: RandomGraph, *names: str) -> None:
    """Keeps others from reading these: integers whose values are those of a scale that may differ in a bit."""
    g.quantized |= {n: ("", "") for n in names}


KINDS = (product, product, convolution, product_in_one)
