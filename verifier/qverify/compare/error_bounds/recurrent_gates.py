"""Bounded sums and gates of recurrences, and what one side recorded of a direction (see recurrences.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qverify.arithmetic import functions64
from qverify.arithmetic.recurrences import GateFunction, RecurrenceOperands
from qverify.compare.error_bounds.bounded_values import (
    BEYOND,
    OVERFLOW,
    ROUNDOFF,
    TINY,
    Array,
    NoBound,
    Real,
    Reals,
)
from qverify.compare.error_bounds.float_sums import DOUBLE, EXTRA
from qverify.compare.error_bounds.functions import FUNCTIONS, Function, apply
from qverify.compare.error_bounds.probable import bound_sum, is_probable, take_positions

BOUNDED_FUNCTIONS = FUNCTIONS | {
    "affine": Function(lambda x, p, q: p * x + q, lambda x, y, p, q: 2 * np.abs(p * x)),
    "tanh_by_sigmoid": Function(lambda x, p, q: functions64.tanh(x), lambda x, y, p, q: 12.0 + np.abs(y)),
    "scaled_tanh": Function(lambda x, p, q: p * functions64.tanh(q * x), lambda x, y, p, q: 12 * np.abs(y) + abs(p)),
}
FALLING = ("leaky_relu", "elu", "thresholded_relu")  # functions that fall and rise if alpha is negative


@dataclass(frozen=True, slots=True)
class GateKernel:
    """The rounding of a kernel. own: whether the kernel is qverify's own, which computes exact sums; if not, it is any
    float32 kernel."""

    own: bool

    def sums(
        self,
        terms: int,
        size: Reals,
        value: Reals,
        rounded: Reals,
        moved: Reals | float = 0.0,
        squares: Reals | None = None,
        rows: Callable[[], Reals] | None = None,
    ) -> Real:
        """Returns bounded sums of products.

        Args:
            terms: number of products of one sum.
            size: sums of the magnitudes of the terms.
            value: the sums.
            rounded: sums of the magnitudes that qverify's kernel rounds.
            moved: the part of the error that comes from the errors of the terms.
            squares, rows: as for bound_sum().
        """
        if self.own:
            y = Real(value, moved + ROUNDOFF * rounded + DOUBLE * terms * size + TINY)
        else:
            error = bound_sum(terms + EXTRA, size + moved, value, squares, rows)
            y = Real(value, moved + error + (terms + 2) * TINY)
        return mark_lost_if_large(y.as_float32(), size + moved)

    def product(self, a: Real, b: Real) -> Real:
        """Returns the product of a and b. It is a term of a sum, or is rounded afterwards."""
        value = a.value * b.value
        error = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
        y = Real(value, error + (DOUBLE if self.own else ROUNDOFF) * np.abs(value) + TINY)
        return mark_lost_if_large(mark_lost_like(y, a, b), value)

    def gate(self, gate: GateFunction, x: Real, limited: bool = True) -> Real:
        """Returns the function of a gate applied to x. Raises NoBound if the function rises and falls."""
        if gate.name in FALLING and gate.alpha < 0:
            raise NoBound(f"{gate.name} of a negative alpha")
        x = replace(x, value=gate.limited(x.value)) if limited else x
        y = mark_lost_like(apply(BOUNDED_FUNCTIONS[gate.name], x, gate.alpha, gate.beta), x)
        if not self.own:
            return round_to_float32(y)
        compute = BOUNDED_FUNCTIONS[gate.name].compute
        ends = [np.abs(compute(x.value + s * x.error, gate.alpha, gate.beta) - y.value) for s in (-1, 1)]
        size = np.abs(
            x.value if gate.name == "affine" else y.value
        )  # only of affine can the terms be larger than y and 1
        inside = DOUBLE * (1 + abs(gate.alpha) + abs(gate.beta)) * (1 + size)
        return round_to_float32(Real(y.value, np.maximum(*ends) + inside, None, y.lost))


def add(a: Real, b: Real) -> Real:
    y = Real(a.value + b.value, a.error + b.error)
    return mark_lost_if_large(mark_lost_like(y, a, b), y.value)


def round_to_float32(x: Real) -> Real:
    """Returns the values after a rounding to float32."""
    return x.rounded().as_float32()


def mark_lost_like(y: Real, *parts: Real) -> Real:
    """Returns y, with the elements lost that are lost in one of the parts."""
    return y.mark_lost(*(part.lost for part in parts if part.lost is not None))


def mark_lost_if_large(y: Real, size: Reals) -> Real:
    """Returns y, with the elements lost of which the magnitude of the terms may overflow or is NaN."""
    return y.mark_lost(~(np.abs(size) < OVERFLOW))


def select(values: Real, at: Any) -> Real:
    """Returns the part of the values at an index."""
    lost = None if values.lost is None else values.lost[at]
    return Real(values.value[at], values.error[at], None, lost)


class RecordedDirection:
    """The values that one side recorded for one direction of a recurrence.

    Attributes:
        operands: the inputs of the recurrence.
        d, backward: index of the direction, and whether it runs backward.
        inside: mask (T, N, 1) of the steps before each row's end.
        y: the recorded output (T, N, H), 0 beyond each row's end.
        before: the h before each step.
        terms: number of terms of a gate's sum.
        bias: magnitudes of the sums of both biases.
        x, h: sums of x, and of h, with their biases, as (value, size); see add_up().
    """

    def __init__(self, operands: RecurrenceOperands, d: int, backward: bool, y: Array):
        self.operands, self.d, self.backward = operands, d, backward
        steps = np.arange(len(y))[:, None]
        self.inside = (steps < operands.lengths)[..., None]
        self.y = y.astype(np.float64)
        first = operands.h[d]
        if backward:
            self.before = np.concatenate([self.y[1:], first[None]])
            self.before = np.where((steps == operands.lengths - 1)[..., None], first, self.before)
        else:
            self.before = np.concatenate([first[None], self.y[:-1]])
        self.terms = operands.x.shape[-1] + operands.hidden + 2
        self.bias = np.abs(np.add(*operands.biases(d)))

    def add_up(self) -> None:
        """Computes x and h."""
        of_x, of_h = self.operands.biases(self.d)
        self.x = _multiply(self.operands.x, self.operands.w[self.d], of_x)
        self.h = _multiply(self.before, self.operands.r[self.d], of_h)

    def gates(self, kernel: GateKernel, at: slice) -> Real:
        """Returns the arguments of these gates, each of which is one sum over x and h."""
        (x, size_x), (h, size_h) = self.x, self.h
        of_x, value = x[..., at] + self.operands.biases(self.d)[1][at], x[..., at] + h[..., at]
        rounded = self.bias[at] + np.abs(of_x) + np.abs(value)
        size, sums = (size_x + size_h)[..., at], value + find_infinities(of_x)
        squares = self._add_squares()[..., at] if is_probable() else None
        return kernel.sums(self.terms, size, sums, rounded, 0.0, squares, lambda: self._take_terms(at))

    def _add_squares(self) -> Reals:
        """Returns the sums of the squares of the terms of the gates, (T, N, gates)."""
        w, r = self.operands.w[self.d], self.operands.r[self.d]
        biases = sum(bias**2 for bias in self.operands.biases(self.d))
        return np.asarray(self.operands.x**2 @ (w**2).T + self.before**2 @ (r**2).T + biases)

    def _take_terms(self, at: slice) -> Reals:
        """Returns the terms of some of the sums of these gates, [R, terms]."""
        w, r = self.operands.w[self.d][at], self.operands.r[self.d][at]
        steps, rows = self.before.shape[:2]
        step, row, gate = np.unravel_index(take_positions(steps * rows * len(w)), (steps, rows, len(w)))
        biases = [np.broadcast_to(bias[at], len(w))[gate, None] for bias in self.operands.biases(self.d)]
        products = self.operands.x[step, row] * w[gate], self.before[step, row] * r[gate]
        return np.concatenate([*products, *biases], 1).astype(np.float64)


def find_infinities(sums: Reals) -> Reals:
    """Returns the infinities of the sums that are too large for float32, and 0 for all others."""
    return np.where(np.abs(sums) >= BEYOND, np.copysign(np.inf, sums), 0.0)


def _multiply(a: Array, weights: Array, bias: Array) -> tuple[Reals, Reals]:
    return a @ weights.T + bias, np.abs(a) @ np.abs(weights).T + np.abs(bias)
