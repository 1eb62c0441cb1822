"""Error bounds of reductions of float tensors: sums, products, norms and extrema over some axes, or over several
tensors, and running sums (NUMERICS.md section 4).

Each function that is named after an op takes a node, its bounded inputs and the graph, and returns the bounded outputs.
It raises NoBound if there is no bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from qverify.arithmetic import functions64
from qverify.compare.error_bounds.bounded_values import (
    OVERFLOW,
    ROUNDOFF,
    TINY,
    BoundedValue,
    NoBound,
    Real,
    Reals,
    require_real,
)
from qverify.compare.error_bounds.own_sums import add_own_error_of_sum
from qverify.compare.error_bounds.probable import bound_product, bound_sum, is_probable, take_rows
from qverify.model_bin.float_functions import REDUCTIONS, VARIADIC
from qverify.model_bin.graph import Graph, Node


def _sum(x: Real) -> Real:
    moved, size = x.error.sum(-1), np.abs(x.value).sum(-1)
    y = Real(x.value.sum(-1), moved + _bound_sum(x.value, 1, size + moved) + TINY)
    return add_own_error_of_sum(y, x, size, x.value.shape[-1]).mark_lost_if_large(size + moved)


def _bound_sum(terms: Reals, more: int, size: Reals) -> Reals:
    """Returns the error of the sums along the last axis. more: roundings besides those of the sum. size: the magnitudes of
    the terms, added up."""
    count = terms.shape[-1]
    squares = (terms**2).sum(-1) if is_probable() else None
    return bound_sum(count + more, size, terms.sum(-1), squares, lambda: take_rows(terms.reshape(-1, count)))


def _squares(x: Real) -> Real:
    moved = (2 * np.abs(x.value) * x.error + x.error**2).sum(-1)
    value = (x.value**2).sum(-1)
    y = Real(value, moved + _bound_sum(x.value**2, 2, value + moved) + x.value.shape[-1] * TINY)
    return add_own_error_of_sum(y, x, value, x.value.shape[-1] + 1).mark_lost_if_large(value + moved)


def _largest(x: Real) -> Real:
    """Returns the maximum. Its error is the difference to the largest upper end, which is at least the error of the
    largest element, by which the maximum can fall."""
    value = x.value.max(-1)
    return Real(value, (x.value + x.error).max(-1) - value)


def _smallest(x: Real) -> Real:
    turned = _largest(Real(-x.value, x.error))
    return Real(-turned.value, turned.error)


def _product(x: Real) -> Real:
    size = np.abs(x.value).prod(-1)
    most = (np.abs(x.value) + x.error).prod(-1)
    count = x.value.shape[-1]
    rounded = bound_product(count + 1, most, lambda: take_rows(x.value.reshape(-1, count)))
    y = Real(x.value.prod(-1), most - size + rounded + TINY)
    large = np.maximum(np.abs(x.value) + x.error, 1.0).prod(-1)  # of a partial product, in any order
    least = np.abs(x.value) - x.error
    small = np.where(least > 0, np.minimum(least, 1.0), 1.0).prod(-1)
    return y.mark_lost(large >= OVERFLOW, (small < TINY) & (large > 1.0))


def _root(x: Real) -> Real:
    value, ends = np.sqrt(x.value), [np.sqrt(np.maximum(x.value + s * x.error, 0.0)) for s in (-1, 1)]
    error = np.maximum(ends[1] - value, value - ends[0]) + 2 * ROUNDOFF * ends[1] + TINY
    return Real(value, error, None, x.lost)


def _log(x: Real) -> Real:
    value, low = functions64.log(x.value), x.value - x.error
    moved = np.where(low > 0, value - functions64.log(low), np.inf)
    return Real(value, moved + ROUNDOFF * (3 + 3 * np.abs(value) + 10 * moved), None, x.lost)


def _apply_to_sum(function: Callable[[Real], Real], x: Real) -> Real:
    """Returns the function of a sum, with the smaller error of qverify's own sides if the sum has one."""
    y = function(x)
    return y if x.ours is None else replace(y, ours=function(Real(x.value, x.ours)).error)


def _log_sum_exp(x: Real) -> Real:
    """Returns max + log(sum exp(x - max)). The logarithm of every term has its own error, that of rounding the
    difference, and that of the exponential."""
    largest = x.value.max(-1, keepdims=True)
    below, most = x.value - largest, x.error.max(-1)
    logs = most + ROUNDOFF * ((np.abs(below) + 2 * x.error).max(-1) + 4)
    exponentials = functions64.exp(below)
    total = exponentials.sum(-1)
    part = functions64.log(total)
    value = part + largest[..., 0]
    moved = logs + _bound_sum(exponentials, 2, total) / total + ROUNDOFF * (3 + 2 * np.abs(part))
    return Real(value, moved).rounded()


REDUCED: dict[str, Callable[[Real], Real]] = {
    "sum": _sum,
    "max": _largest,
    "min": _smallest,
    "prod": _product,
    "l1": lambda x: _sum(Real(np.abs(x.value), x.error)),
    "l2": lambda x: _apply_to_sum(_root, _squares(x)),
    "sum_square": _squares,
    "log_sum": lambda x: _apply_to_sum(_log, _sum(x)),
    "log_sum_exp": _log_sum_exp,
}


def reduce_float(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    from qverify.arithmetic.reduced_rows import reduced_rows

    x, (function, mask) = require_real(inputs[0]), node.words
    if not 0 <= function < len(REDUCTIONS):
        raise NoBound(f"reduction {function}")
    y = REDUCED[REDUCTIONS[function]](Real(reduced_rows(x.value, mask), reduced_rows(x.error, mask)))
    shape = graph.spec(node.outputs[0]).shape
    return [y.shaped(shape)]


def variadic_float(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    """Returns the sum, mean or extremum of the tensors, which are stacked along a last axis and reduced."""
    shape, function = graph.spec(node.outputs[0]).shape, node.words[0]
    if not 0 <= function < len(VARIADIC):
        raise NoBound(f"variadic function {function}")
    parts = [require_real(x) for x in inputs]
    values, errors = (
        np.stack([np.broadcast_to(v, shape) for v in of], -1)
        for of in ([p.value for p in parts], [p.error for p in parts])
    )
    name = VARIADIC[function]
    terms = Real(values, errors)
    y = REDUCED["sum" if name == "mean" else name](terms)
    if name != "mean":
        return [y]
    mean = Real(y.value / len(parts), y.error / len(parts), None, y.lost).rounded(2)
    return [add_own_error_of_sum(mean, terms, np.abs(values).mean(-1), len(parts))]


def cum_sum(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    """Returns the running sums. A kernel may compute each of them anew, in any order."""
    x, (axis, exclusive, reverse) = require_real(inputs[0]), node.words

    def run(of: Reals) -> Reals:
        lines = np.flip(of, axis) if reverse else of
        sums = np.cumsum(lines, axis)
        if exclusive:
            sums = np.delete(np.insert(sums, 0, 0.0, axis), -1, axis)
        return np.flip(sums, axis) if reverse else sums

    moved, size, value, count = run(x.error), run(np.abs(x.value)), run(x.value), x.value.shape[axis]
    squares = run(x.value**2) if is_probable() else None
    partial = run(value**2) if is_probable() else None  # of the sums before it, of which each is the next one's
    number = run(np.ones_like(x.value)) + exclusive + 1
    lines = np.moveaxis(np.flip(x.value, axis) if reverse else x.value, axis, -1).reshape(-1, count)
    rounded = bound_sum(number, size + moved, value, squares, lambda: take_rows(lines), partial)
    y = Real(value, moved + rounded + TINY)
    return [add_own_error_of_sum(y, x, size, count).mark_lost_if_large(size + moved)]
