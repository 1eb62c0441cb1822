"""Operators on quantized integers: QLinearConv and those beside it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.graphs.random_graph import MICROSOFT, RandomGraph, Unfit


def operand(g: RandomGraph, *ranks: int) -> list[str]:
    """An integer tensor of 8 bits with its scale and zero point."""
    if g.style.real != "float32":
        raise Unfit
    known = [n for n, (s, _) in g.quantized.items() if s and len(g.shape(n)) in ranks and g.values[n].itemsize == 1]
    if not known:
        raise Unfit
    name = known[max(g.below(len(known)), g.below(len(known)))]
    return [name, *g.quantized[name]]


def result(g: RandomGraph, kind: str, inputs: list[str], like: str, domain: str = "", **more: Any) -> None:
    """Adds the operator with output parameters of a plausible range, and a DequantizeLinear behind it."""
    dtype = g.values[like].dtype
    limits = np.iinfo(dtype)
    ends = [
        g.constant(np.float32(g.rng.uniform(0.004, 0.05))),
        g.constant(g.below(int(limits.max), int(limits.min)), str(dtype)),
    ]
    if kind in ("QLinearSigmoid", "QLinearSoftmax"):
        ends[0] = g.constant(np.float32(1 / 256))
    names = [*inputs, *ends] if kind != "QLinearConcat" else [*ends, *inputs]
    if kind == "QLinearConv":
        bias = g.constant(g.rng.integers(-2000, 2000, g.shape(inputs[3])[0]), "int32")
        names += [bias] if g.chance(0.5) else []
    made = g.add(kind, names, 1, domain, **more)[0]
    g.quantized[made] = (ends[0], ends[1])
    g.add("DequantizeLinear", [made, *ends])


def weight(g: RandomGraph, *shape: int, dtype: str = "int8") -> list[str]:
    zero = 0 if dtype == "int8" else 128
    value = g.rng.integers(-127, 128, shape) + zero
    return [g.constant(value, dtype), g.constant(np.float32(g.rng.uniform(0.002, 0.02))), g.constant(zero, dtype)]


def convolution(g: RandomGraph) -> None:
    x = operand(g, 3, 4)
    channels, dims = g.shape(x[0])[1], g.shape(x[0])[2:]
    group = g.pick(1, 1, channels)
    w = weight(g, group * g.pick(1, 2), channels // group, *[g.pick(1, 2, 3) for _ in dims])
    more = {"group": group, "pads": [g.pick(0, 1) for _ in (*dims, *dims)], "strides": [g.pick(1, 2) for _ in dims]}
    result(g, "QLinearConv", [*x, *w], x[0], **more)


def product(g: RandomGraph) -> None:
    x = operand(g, 2, 3)
    w = weight(g, g.shape(x[0])[-1], g.pick(1, 4), dtype=g.pick("int8", str(g.values[x[0]].dtype)))
    if len(g.shape(x[0])) == 2 and g.chance(0.4):
        result(g, "QGemm", [*x, *w, ""], x[0], MICROSOFT, alpha=g.pick(1.0, 0.5))
    else:
        result(g, "QLinearMatMul", [*x, *w], x[0])


def pair(g: RandomGraph) -> None:
    x = operand(g, 1, 2, 3, 4)
    result(g, g.pick("QLinearAdd", "QLinearMul"), [*x, *g.pick(x, operand(g, 1, 2, 3, 4))], x[0], MICROSOFT)


def function(g: RandomGraph) -> None:
    x = operand(g, 1, 2, 3, 4)
    kind = g.pick("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax")
    more: dict[str, Any] = {"alpha": 0.2} if kind == "QLinearLeakyRelu" else {}
    if kind == "QLinearSoftmax":
        more = {"axis": g.axis(x[0]), "opset": 13}
    result(g, kind, x, x[0], MICROSOFT, **more)


def pool(g: RandomGraph) -> None:
    x = operand(g, 4)
    if g.chance(0.5):
        result(g, "QLinearGlobalAveragePool", x, x[0], MICROSOFT)
    else:
        more = {"kernel_shape": [2, g.pick(1, 2)], "count_include_pad": g.pick(0, 1), "pads": [0, 0, g.pick(0, 1), 0]}
        result(g, "QLinearAveragePool", x, x[0], MICROSOFT, **more)


def together(g: RandomGraph) -> None:
    x = operand(g, 1, 2, 3, 4)
    result(g, "QLinearConcat", [*x, *x], x[0], MICROSOFT, axis=g.axis(x[0]))


KINDS = (convolution, convolution, product, product, pair, pair, function, pool, together)
