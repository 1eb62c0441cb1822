"""reduce_mean: reference cases and random nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


def _axes(m: Qdq, axes: list[int]) -> list[str]:
    return [m.constant("axes", np.array(axes, np.int64))] if m.opset >= 18 else []


def _axes_attr(m: Qdq, axes: list[int]) -> dict[str, Any]:
    return {} if m.opset >= 18 else {"axes": axes}


@reference(integer=False)
def reduce_mean(m: Qdq) -> None:
    m.output(m.quantize(m.op("ReduceMean", [m.input((2, 5, 3, 7)), *_axes(m, [2, 3])], **_axes_attr(m, [2, 3]))))


@reference(integer=False)
def global_average_of_floats(m: Qdq) -> None:
    """The form of a squeeze-and-excite block between quantized tensors."""
    x = m.op("HardSigmoid", [m.input((2, 5, 7, 9))])
    m.output(m.quantize(m.op("GlobalAveragePool", [x])))
    m.output(m.op("GlobalAveragePool", [m.op("Exp", [m.input((2, 3, 17))])]))


@reference(integer=False)
def reduce_mean_of_one_number(m: Qdq) -> None:
    m.output(m.quantize(m.op("ReduceMean", [m.input(())], keepdims=1)))
    m.output(m.quantize(m.op("ReduceMean", [m.input((7, 9)), *_axes(m, [1])], **_axes_attr(m, [1]))))


def random_nodes(r: RandomNodes) -> None:
    x = r.input(r.type(), (2, 3, 11, 13))
    y = r.output(x.dtype, (2, 13))
    r.node("reduce_mean", (x, r.mean(x, y, 33, np.float64)), y, (0b0110, *r.limits(y.dtype)))
    r.node("reduce_mean", (r.floats((2, 7, 5, 11)), None), r.float_output((2, 7)), (0b1100, 0, 0))
