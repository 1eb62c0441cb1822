"""The error that a sum of floats has in practice (NUMERICS.md section 4).

The bound of any order of summation, gamma(n) times the sum of magnitudes, is one that no kernel comes near: roundings do
not all point in one direction. Within `probable_errors()`, the functions of this folder bound a sum by what independent
roundings add up to, times a factor that is measured on the terms themselves, in several orders of summation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np

from qverify.compare.error_bounds.bounded_values import ROUNDOFF, Array, Reals, gamma

LEAST_FACTOR = 8.0  # standard deviations of independent roundings that are always allowed
MEASURED = 4.0  # times the largest error of the orders of summation that are computed here
ROWS = 64  # sums of one node of which the orders are computed
MOST_TERMS = 1 << 16  # of a sum whose orders are computed
LANES = (4, 8, 16, 32)  # partial sums that vector units add side by side
LAST = 8  # roundings of the finished sum: scale, bias, division
PER_TERM = 4  # variances of the roundings of each term before it is added: two operands and their product
TRUNCATED = ("toward zero", "down")


@dataclass(slots=True)
class Probable:
    """The errors that bound_sum() allows at present. truncates: whether accumulators that cut off instead of rounding count as well. two_passes:
    whether a variance is the mean of squares of differences from the mean, never a difference of means. used: whether any sum
    was bounded so."""

    truncates: bool = False
    two_passes: bool = False
    used: bool = field(default=False)


_ALLOWED: ContextVar[Probable | None] = ContextVar("probable errors", default=None)


@contextmanager
def probable_errors(truncates: bool = False, two_passes: bool = False) -> Iterator[Probable]:
    """Makes bound_sum() return probable errors."""
    allowed = Probable(truncates, two_passes)
    token = _ALLOWED.set(allowed)
    try:
        yield allowed
    finally:
        _ALLOWED.reset(token)


def is_probable() -> bool:
    """Returns whether probable errors are asked for, so that a caller of bound_sum() needs squares and rows."""
    return _ALLOWED.get() is not None


def takes_two_passes() -> bool:
    """Returns whether a variance is taken to be computed in two passes."""
    allowed = _ALLOWED.get()
    return allowed is not None and allowed.two_passes


def bound_sum(
    roundings: int | Array,
    size: Reals,
    value: Reals,
    squares: Reals | None,
    rows: Callable[[], Reals] | None,
    partial: Reals | None = None,
) -> Reals:
    """Returns the error of float32 sums: gamma(roundings) * size, or the probable one if that is asked for and less.

    Args:
        roundings: the largest number of roundings on the way from a term to the sum, of each sum or of all.
        size: the sums of the magnitudes of the terms.
        value: the sums.
        squares: the sums of the squares of the terms; None if they are not known, as is the probable error then.
        rows: function that returns the terms of some of the sums, [R, n].
        partial: of running sums, the sums of the squares of all that come before each; else None. The rows are the lines then.
    """
    limit = gamma(float(np.max(roundings))) * size
    allowed = _ALLOWED.get()
    if allowed is None or squares is None or rows is None:
        return limit
    allowed.used = True
    with np.errstate(all="ignore"):
        spread = _measure_spread(roundings, value, squares)
        spread = spread if partial is None else np.maximum(spread, ROUNDOFF * np.sqrt(partial + PER_TERM * squares))
        measured = measure_orders(rows(), allowed.truncates) if partial is None else _measure_running(rows())
        factor = max(LEAST_FACTOR, MEASURED * measured)
        return np.fmin(limit, factor * spread + gamma(LAST) * np.abs(value))


def bound_product(roundings: int, most: Reals, rows: Callable[[], Reals]) -> Reals:
    """Returns the error of float32 products: gamma(roundings) * most, or what independent roundings add up to if that is asked
    for and less. most: the magnitudes of the products. rows: function that returns the factors of some of them, [R, n]."""
    limit = gamma(roundings) * most
    allowed = _ALLOWED.get()
    if allowed is None:
        return limit
    allowed.used = True
    with np.errstate(all="ignore"):
        factor = max(LEAST_FACTOR, MEASURED * _measure_products(rows()))
        return np.fmin(limit, (factor * ROUNDOFF * np.sqrt(roundings) + gamma(LAST)) * most)


def take_rows(terms: Array, count: int = ROWS) -> Reals:
    """Returns evenly spaced rows of [N, n], at most `count`."""
    step = max(1, -(-len(terms) // count))
    return np.asarray(terms[::step], np.float64)


def take_positions(elements: int, count: int = ROWS) -> Array:
    """Returns evenly spaced flat positions, at most `count`."""
    return np.arange(0, elements, max(1, -(-elements // count)))


def _measure_running(lines: Reals) -> float:
    """Returns the largest error that a running sum of these lines has anywhere, in the standard deviations of bound_sum()."""
    exact = np.cumsum(lines, 1)
    spread = ROUNDOFF * np.sqrt(np.cumsum(exact**2, 1) + PER_TERM * np.cumsum(lines**2, 1))
    off = np.abs(np.add.accumulate(lines.astype(np.float32), 1, np.float32).astype(np.float64) - exact)
    worst = float((off[spread > 0] / spread[spread > 0]).max(initial=0.0))
    return worst if np.isfinite(worst) else 0.0


def _measure_products(rows: Reals) -> float:
    """Returns the largest error of these products in order, reversed or in pairs, in roundoffs times the root of their number."""
    count = rows.shape[1]
    exact = rows.prod(1)
    factors = rows.astype(np.float32)
    if not 1 < count <= MOST_TERMS or not rows.size or not np.isfinite(exact).all():
        return 0.0
    results = [np.multiply.accumulate(f, 1, np.float32)[:, -1] for f in (factors, factors[:, ::-1])]
    results.append(_in_pairs(factors, np.multiply, 1.0))
    off = [np.abs(r.astype(np.float64) - exact)[exact != 0] / np.abs(exact[exact != 0]) for r in results]
    worst = max(float(o.max(initial=0.0)) for o in off) / (ROUNDOFF * count**0.5)
    return worst if np.isfinite(worst) else 0.0


def _measure_spread(terms: int | Array, value: Reals, squares: Reals) -> Reals:
    """Returns the standard deviation of the error of sums whose terms come in random order: the partial sum of k of n terms
    is k/n of the sum, plus what a bridge has there, so that the squares of all partial sums add up to
    n (value^2/3 + squares/6). One rounding counts as much as it may at most."""
    return ROUNDOFF * np.sqrt(terms * (value**2 / 3 + squares / 6) + PER_TERM * squares)


def measure_orders(rows: Reals, truncates: bool) -> float:
    """Returns the largest error of these sums in any of the orders that are computed here, in standard deviations of
    _measure_spread(). truncates: whether accumulators that cut off are among them."""
    count = rows.shape[1]
    if not 1 < count <= MOST_TERMS or not rows.size or not np.isfinite(rows).all():
        return 0.0
    exact = rows.sum(1)
    spread = _measure_spread(count, exact, (rows**2).sum(1))
    worst = 0.0
    for total in _add_in_orders(rows, truncates):
        off = np.abs(total.astype(np.float64) - exact)
        worst = max(worst, float((off[spread > 0] / spread[spread > 0]).max(initial=0.0)))
    return worst if np.isfinite(worst) else 0.0


def _add_in_orders(rows: Reals, truncates: bool) -> Iterator[Array]:
    terms = rows.astype(np.float32)
    yield _add_in_order(terms)
    yield _add_in_order(terms[:, ::-1])
    yield _add_in_order(terms[:, np.random.default_rng(0).permutation(terms.shape[1])])
    yield _in_pairs(terms, np.add, 0.0)
    for lanes in LANES:
        padded = np.pad(terms, ((0, 0), (0, -terms.shape[1] % lanes)))
        shaped = padded.reshape(len(terms), -1, lanes)
        yield _add_in_order(np.add.accumulate(shaped, 1, np.float32)[:, -1])  # every lane adds each `lanes`-th term
        blocks = padded.reshape(len(terms), lanes, -1)
        yield _add_in_order(np.add.accumulate(blocks, 2, np.float32)[:, :, -1])  # lanes of neighbouring terms
        small = padded.reshape(len(terms), -1, lanes)
        yield _add_in_order(np.add.accumulate(small, 2, np.float32)[:, :, -1])  # a sum of sums of a few neighbours
    yield _add_fused(rows, "")
    if truncates:
        yield from (_add_fused(rows, direction) for direction in TRUNCATED)
        yield from (_add_fused(terms.astype(np.float64), direction) for direction in TRUNCATED)


def _add_in_order(terms: Array) -> Array:
    return np.add.accumulate(terms, 1, np.float32)[:, -1]


def _in_pairs(terms: Array, combine: np.ufunc, neutral: float) -> Array:
    while terms.shape[1] > 1:
        terms = np.pad(terms, ((0, 0), (0, terms.shape[1] % 2)), constant_values=neutral)
        terms = combine(terms[:, ::2], terms[:, 1::2]).astype(np.float32)
    return terms[:, 0]


def _add_fused(rows: Reals, direction: str) -> Array:
    """Returns the sums in order, each product added before it is rounded to float32. direction: "" rounds to the nearest."""
    total = np.zeros(len(rows))
    for term in rows.T:
        exact = total + term
        rounded = exact.astype(np.float32)
        if direction:
            wide = rounded.astype(np.float64)
            beyond = np.abs(wide) > np.abs(exact) if direction == "toward zero" else wide > exact
            toward = np.float32(0.0) if direction == "toward zero" else np.float32(-np.inf)
            rounded = np.where(beyond, np.nextafter(rounded, toward), rounded)
        total = rounded.astype(np.float64)
    return total.astype(np.float32)
