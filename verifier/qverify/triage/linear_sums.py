"""The accumulator of a unit's last node and its requantization to the output, from which arithmetic faults start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify import ops
from qverify.arithmetic.linear import is_wide
from qverify.arithmetic.requantize import requantize, stated_scale
from qverify.triage.case import Case, UnitChange

Array = npt.NDArray[Any]
# The axis of the channels to which rq belongs, by op.
OPS = {
    "conv": 1,
    "conv_transpose": 1,
    "fully_connected": 1,
    "matmul": -1,
    "mul": 1,
    "global_average_pool": 1,
    "reduce_mean": 1,
}
LINEAR_OPS = tuple(OPS)
WIDE_LIMITS = (int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max))


@dataclass(frozen=True, slots=True)
class Linear:
    """An accumulator with its requantization.

    Attributes:
        acc: the accumulator with the bias, int64, in the output's shape.
        rq: the stored parameters of the requantization.
        real: output LSB per unit of acc, float64 [C] or [1].
        low, high: limits of the activation.
        wide: whether the accumulator has 64 bits.
        axis: axis of the channels.
    """

    acc: Array
    rq: Array
    real: Array
    zero_point: int
    low: int
    high: int
    dtype: str
    rounding: str
    wide: bool
    axis: int

    def output(self, acc: Array | None = None, rq: Array | None = None, rounding: str = "") -> Array:
        """Returns the output requantized from another accumulator, with other parameters or in another rounding
        mode."""
        return requantize(
            self.acc if acc is None else acc,
            self.rq if rq is None else rq,
            self.zero_point,
            self.low,
            self.high,
            self.dtype,
            rounding or self.rounding,
            self.wide,
            self.axis,
        )

    def finished(self, value: Array) -> Array:
        """Returns the output from whole output steps: adds the zero point and clips."""
        return np.clip(value + self.zero_point, self.low, self.high).astype(self.dtype)

    def along(self, values: Array) -> Array:
        """Returns the values, [C] or [1], reshaped to broadcast against acc."""
        shape = [1] * self.acc.ndim
        shape[self.axis] = len(values)
        return values.reshape(shape)


def linear(case: Case) -> Linear | None:
    """Returns the accumulator of the last node, or None if the op has none."""
    return case.compute_once("linear", lambda: _linear(case))


def required_linear(case: Case) -> Linear:
    """Returns the accumulator of a last node that is known to have one."""
    sums = linear(case)
    assert sums is not None
    return sums


def _linear(case: Case) -> Linear | None:
    node, graph = case.last, case.graph
    rq = graph.constants.get(node.inputs[-1] or "")
    if node.op not in OPS or rq is None or len(node.outputs) > 1 or not case.spec.quantized:
        return None
    wide = is_wide(*(graph.spec(n).dtype for n in node.inputs[:2] if n is not None), case.spec.dtype)
    low, high = node.words[-2:]
    return Linear(
        accumulator(case),
        rq,
        real_scale(case, rq, wide),
        case.spec.zero_point[0],
        low,
        high,
        case.spec.dtype,
        graph.rounding,
        wide,
        OPS[node.op],
    )


def accumulator(case: Case, change: UnitChange | None = None) -> Array:
    """Returns the int64 accumulator before requantization, by running the node with multiplier 1, shift 0, no zero
    point and no limits."""
    change, node = change or UnitChange(), case.last
    node = change.nodes.get(node.name, node)
    identity = np.array([[1], [0]], np.int32)
    wide = replace(
        change,
        constants={**change.constants, node.inputs[-1] or "": identity},
        specs={**change.specs, case.output: replace(case.spec, dtype="int64", zero_point=(0,))},
        nodes={**change.nodes, node.name: replace(node, words=(*node.words[:-2], *WIDE_LIMITS))},
        rounding="pow2-floor",
    )
    return case.recompute(wide)


def real_scale(case: Case, rq: Array, wide: bool) -> Array:
    """Returns output LSB per unit of the accumulator, float64: computed from the tensors' scales, or from rq where that
    differs from them because the op has a factor of its own."""
    node, graph = case.last, case.graph
    stored = stated_scale(rq, graph.rounding, wide)
    operands = [graph.spec(n) for n in node.inputs[:2] if n is not None and graph.spec(n).quantized]
    product: Array = np.ones(1)
    for operand in operands:
        product = product * np.array(operand.scale if len(operand.scale) in (1, len(stored)) else operand.scale[:1])
    scale = product / np.float64(case.spec.scale[0]) / _mean_count(case)
    return np.where(np.abs(scale - stored) <= 1e-5 * stored, scale, stored)


def _mean_count(case: Case) -> int:
    """Returns the number of elements of a mean; 1 for other ops."""
    node, shape = case.last, case.graph.spec(case.last.inputs[0] or "").shape
    if node.op == "global_average_pool":
        return int(np.prod(shape[2:]))
    if node.op == "reduce_mean":
        mask = ops.words(node)["axes_mask"]
        return int(np.prod([n for i, n in enumerate(shape) if mask >> i & 1]))
    return 1
