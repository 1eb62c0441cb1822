"""reduce_float: reference cases and random nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from qverify.model_bin.float_functions import REDUCTIONS

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


def _reduce(m: Qdq, kind: str, x: str, axes: list[int], **attrs: Any) -> str:
    """axes: an input or, before their opset (13 for ReduceSum, else 18), an attribute."""
    if m.opset < (13 if kind == "ReduceSum" else 18):
        return m.op(kind, [x], axes=axes, **attrs)
    return m.op(kind, [x, m.constant(f"axes{len(m.nodes)}", np.array(axes, np.int64))], **attrs)


@reference(integer=False)
def sums_and_norms_of_floats(m: Qdq) -> None:
    x = m.op("Sub", [m.input((2, 5, 7, 9)), m.input((7, 1))])
    for kind in ("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"):
        m.output(_reduce(m, kind, x, [-1, 1]))
    m.output(m.quantize(_reduce(m, "ReduceL2", x, [1], keepdims=0)))


@reference(integer=False)
def extrema_of_floats(m: Qdq) -> None:
    x = m.op("Sub", [m.input((2, 5, 7, 9)), m.input((7, 1))])
    m.output(_reduce(m, "ReduceMax", x, [0, 3], keepdims=0))
    m.output(m.quantize(_reduce(m, "ReduceMin", x, [2])))
    m.output(m.op("GlobalMaxPool", [x]))


@reference(integer=False)
def products_and_logarithms_of_floats(m: Qdq) -> None:
    x = m.op("Exp", [m.input((2, 3, 5, 7), -0.5, 0.5)])
    for kind in ("ReduceProd", "ReduceLogSum", "ReduceLogSumExp"):
        m.output(_reduce(m, kind, x, [1, 2]))
    m.output(m.quantize(m.op("GlobalLpPool", [x], p=1)))


def random_nodes(r: RandomNodes) -> None:
    """Every function over random axes, also over none and over all."""
    x, positive = r.floats((3, 2, 7, 5)), r.floats((3, 2, 7, 5))
    r.values[positive.name] = np.abs(r.values[positive.name]) + np.float32(0.1)
    for function, name in enumerate(REDUCTIONS):
        mask = r.pick(*range(16))
        kept = tuple(1 if mask >> i & 1 else n for i, n in enumerate(x.shape))
        source = positive if name == "log_sum" else x
        r.node("reduce_float", (source,), r.float_output(kept), (function, mask))
