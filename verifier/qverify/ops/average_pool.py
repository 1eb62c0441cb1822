"""ref-exact: y = clip(RNE(fl32(fl32(m/sy)+zy))), m = sequential fl32 sum of fl32(sx*(x-zx)) / count; else
requantize(sum, S/count), or a quotient of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.linear import is_wide
from qverify.arithmetic.requantize import apply_steps, divide_stored, round_by_code, steps_of
from qverify.arithmetic.windows import WINDOW_WORDS, Window, as_planes, plane_shape, taps_counted, window_of
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = (*WINDOW_WORDS, "count_include_pad", "act_min", "act_max")


def prepare(node: Node, graph: Graph) -> Window:
    return window_of(node.words, dilated=False)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: Window) -> tuple[Array, ...]:
    spec, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    assert inputs[0] is not None
    x, out = as_planes(inputs[0]), plane_shape(y.shape)
    include_pad, low, high = node.words[8:]
    rq, zero = graph.constants[node.inputs[1] or ""], y.zero_point[0]
    count = taps_counted(state, plane_shape(x.shape), out, False)
    divisor = np.full_like(count, state.kernel[0] * state.kernel[1]) if include_pad else np.maximum(count, 1)
    centred = x.astype(np.int64) - spec.zero_point[0]
    if rq.dtype == np.float32:
        real = rq[0] * centred.astype(np.float32)
        total = np.zeros((*x.shape[:2], *out), np.float32)
        for tap in state.reads(real, out, 0):
            total += tap
        value = np.rint((total / divisor.astype(np.float32)) / rq[1] + np.float32(zero))
    else:
        acc = np.zeros((*x.shape[:2], *out), np.int64)
        for tap in state.reads(centred, out, 0):
            acc += tap
        if rq.dtype == np.float64 and rq.ndim == 2:
            value = round_by_code(acc * rq[0][divisor - 1], int(rq[1, 0]), zero) + zero
        elif rq.dtype == np.float64:
            value = np.rint((acc.astype(np.float64) * rq[0]) / divisor) + zero
        elif rq.ndim == 1:
            value = divide_stored(acc, rq, divisor) + zero
        else:
            wide = is_wide(spec.dtype, y.dtype)
            value = apply_steps(acc, steps_of(rq, graph.rounding, wide)[:, divisor - 1], zero, wide) + zero
    value = np.where(count == 0, zero, value)
    return (np.clip(value, low, high).astype(y.dtype).reshape(y.shape),)
