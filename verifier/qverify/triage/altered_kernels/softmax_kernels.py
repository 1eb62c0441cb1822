"""Softmax of 8 bits and of float32, of which a fault can replace each part: maximum, exponential, sum, quotient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import exp64, log64
from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word
from qverify.triage.altered_kernels.replaced_kernels import kernel_variant
from qverify.triage.altered_kernels.row_sums import whole
from qverify.triage.hypotheses import FaultVariant

Array = npt.NDArray[Any]


def largest(rows: Array) -> Array:
    """Returns the largest element of each row, [rows, 1]."""
    return rows.max(1, keepdims=True)


def sum_of(e: Array) -> Array:
    """Returns the sum of each row, [rows, 1], added from left to right in the dtype of the values."""
    return whole(e)[:, None]


def as_they_are(largest: Array, total: Array) -> tuple[Array, Array]:
    """Returns the statistics of each row for the row itself."""
    return largest, total


def rows_of(values: Array, node: Node) -> Array:
    """Returns the tensor's values as rows, [outer * inner, depth], by the node's words."""
    outer, depth, inner = node.words[:3]
    return np.moveaxis(values.reshape(outer, depth, inner), 1, 2).reshape(-1, depth)


def from_rows(rows: Array, node: Node) -> Array:
    """Returns the values of rows in the order of the tensor."""
    outer, depth, inner = node.words[:3]
    return np.moveaxis(rows.reshape(outer, inner, depth), 2, 1)


def quotient(e: Array, total: Array) -> Array:
    """Returns e / total."""
    return e / total


@dataclass(frozen=True, slots=True)
class FloatSoftmax:
    """A kernel for softmax_float nodes. largest_at and total_at are the rows whose maximum and sum are used for each
    row; None for the row itself."""

    largest: Callable[[Array], Array] = largest
    exponential: Callable[[Array], Array] = exp64
    total: Callable[[Array], Array] = sum_of
    largest_at: Array | None = None
    total_at: Array | None = None
    divide: Callable[[Array, Array], Array] = quotient

    def __call__(self, node: Node, inputs: list[Array], graph: Graph) -> Array:
        rows = rows_of(inputs[0].astype(np.float64), node)
        most = self.largest(rows)
        e = self.exponential(rows - (most if self.largest_at is None else most[self.largest_at]))
        total = self.total(e)
        return from_rows(self.divide(e, total if self.total_at is None else total[self.total_at]), node)


def less_logarithm(below: Array, total: Array, log: Callable[[Array], Array]) -> Array:
    """Returns below - log(total)."""
    return below - log(total)


@dataclass(frozen=True, slots=True)
class LogSoftmax:
    """A kernel for log_softmax nodes.

    Attributes:
        largest_at, total_at: as in FloatSoftmax.
        below: changes the differences to the maximum.
        finish: computes the output from these differences, the sums and the logarithm.
        dtype: dtype of all arithmetic.
    """

    largest: Callable[[Array], Array] = largest
    exponential: Callable[[Array], Array] = exp64
    total: Callable[[Array], Array] = sum_of
    largest_at: Array | None = None
    total_at: Array | None = None
    log: Callable[[Array], Array] = log64
    below: Callable[[Array], Array] = lambda v: v
    finish: Callable[[Array, Array, Callable[[Array], Array]], Array] = less_logarithm
    dtype: type = np.float64

    def __call__(self, node: Node, inputs: list[Array], graph: Graph) -> Array:
        rows = rows_of(inputs[0].astype(self.dtype), node)
        most = self.largest(rows)
        below = self.below(rows - (most if self.largest_at is None else most[self.largest_at]))
        total = self.total(self.exponential(below))
        output = self.finish(below, total if self.total_at is None else total[self.total_at], self.log)
        return from_rows(output, node)


@dataclass(frozen=True, slots=True)
class Steps:
    """The output format of an 8-bit softmax. size: output steps of the value 1, float32. low, high: limits of the dtype
    without the zero point."""

    size: np.float32
    zero_point: int
    low: int
    high: int


def scaled_quotient(e: Array, total: Array, steps: Steps) -> Array:
    """Returns fl32(fl32(e*size)/total)."""
    return (e * steps.size) / total


def rounded(value: Array, rows: Array, steps: Steps) -> Array:
    """Returns the values rounded to whole steps within the limits."""
    return np.clip(np.rint(value), steps.low, steps.high)


def by_index(difference: Array, table: Array) -> Array:
    """Returns the exponentials of the differences from the table; differences beyond it get those of its ends."""
    return table[np.clip(difference + 255, 0, 255)]


@dataclass(frozen=True, slots=True)
class IntegerSoftmax:
    """A kernel for softmax nodes.

    Attributes:
        table: changes the table of exponentials (float32 [256], the largest last), given it and the input's scale.
        exponential: computes exponentials from integer differences to the maximum and the table.
        largest_at, total_at: as in FloatSoftmax.
        divide: computes quotients in output steps.
        finish: computes whole steps without the zero point from the quotients and the rows.
    """

    table: Callable[[Array, float], Array] | None = None
    largest: Callable[[Array], Array] = largest
    exponential: Callable[[Array, Array], Array] = by_index
    total: Callable[[Array], Array] = sum_of
    largest_at: Array | None = None
    total_at: Array | None = None
    divide: Callable[[Array, Array, Steps], Array] = scaled_quotient
    finish: Callable[[Array, Array, Steps], Array] = rounded

    def __call__(self, node: Node, inputs: list[Array], graph: Graph) -> Array:
        rows, y = rows_of(inputs[0].astype(np.int64), node), graph.spec(node.outputs[0])
        table = inputs[1].astype(np.float32)
        if self.table is not None:
            table = self.table(table.astype(np.float64), input_scale(node, graph)).astype(np.float32)
        most = self.largest(rows)
        e = self.exponential(rows - (most if self.largest_at is None else most[self.largest_at]), table)
        total = self.total(e)
        info, zero = np.iinfo(y.dtype), y.zero_point[0]
        steps = Steps(float_word(node.words[3]), zero, int(info.min) - zero, int(info.max) - zero)
        value = self.divide(e, total if self.total_at is None else total[self.total_at], steps)
        value = np.where(np.isnan(value), steps.low, value)
        return from_rows(self.finish(value, rows, steps) + zero, node)


def softmax_variant(text: str, bits: float = 0.0, **parts: Any) -> FaultVariant:
    """Returns the fault of an 8-bit softmax with other parts."""
    return kernel_variant(f"softmax: {text}", {"softmax": IntegerSoftmax(**parts)}, bits)


def input_scale(node: Node, graph: Graph) -> float:
    """Returns the real value of one step of the node's input; 1 if it is not quantized."""
    scale = graph.spec(node.inputs[0] or "").scale
    return float(scale[0]) if scale else 1.0
