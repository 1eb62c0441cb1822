"""Error bounds of ops that sum rows of floats: norms, softmax, means, lrn, linear resizes and others (NUMERICS.md
section 4).

Each function that is named after an op takes a node, its bounded inputs and the graph, and returns the bounded outputs.
It raises NoBound if there is no bound."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from qverify.arithmetic import functions64
from qverify.arithmetic.windows import as_planes, plane_shape, taps_counted, window_of
from qverify.compare.error_bounds.bounded_values import (
    BEYOND,
    OVERFLOW,
    ROUNDOFF,
    TINY,
    Array,
    BoundedValue,
    NoBound,
    Real,
    Reals,
    Whole,
    exact,
    float_word,
    gamma,
    require_certain,
    require_real,
    round_interval,
)
from qverify.compare.error_bounds.own_norms import add_own_error
from qverify.compare.error_bounds.own_sums import add_own_error_of_sum, add_own_relative_error
from qverify.compare.error_bounds.probable import bound_sum, is_probable, take_rows, takes_two_passes
from qverify.model_bin.graph import Graph, Node

EXPONENTIAL = 4.0  # relative error of a float32 library's exp, in roundoffs


def layer_norm(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    x, depth, epsilon = require_real(inputs[0]), node.words[0], float_word(node.words[1])
    rows = Real(x.value.reshape(-1, depth), x.error.reshape(-1, depth))
    mean, mean_error = _average(rows)
    centred = rows.value - mean
    root, root_error, lost = _bound_deviation(rows, mean, mean_error, epsilon)
    least = root - root_error
    above = rows.error + mean_error + 3 * ROUNDOFF * (np.abs(rows.value) + rows.error + np.abs(mean) + mean_error)
    value = centred / root
    error = np.where(least > 0, (above + np.abs(value) * root_error) / least, np.inf)
    y, scale = Real(value, error).mark_lost(lost).rounded(2), np.ones(1)
    if inputs[1] is not None:
        factor = require_real(inputs[1]).value.reshape(-1)
        y, scale = Real(y.value * factor, y.error * np.abs(factor), None, y.lost).rounded(), np.abs(factor)
    if inputs[2] is not None:
        offset = require_real(inputs[2]).value.reshape(-1)
        largest = np.abs(offset) + np.abs(y.value) + y.error
        y = Real(y.value + offset, y.error + ROUNDOFF * largest + TINY, None, y.lost)
    return [add_own_error(y, inputs, rows.value, value, root, least, scale).shaped(x.value.shape)]


def _average(rows: Real) -> tuple[Reals, Reals]:
    """Returns the mean of each row and its error: gamma(D + 1) * mean |x| plus the mean of the errors of the terms."""
    moved = rows.error.mean(1, keepdims=True)
    return rows.value.mean(1, keepdims=True), moved + _bound_mean(rows.value, 1, moved)


def _bound_mean(terms: Reals, more: int, moved: Reals | float = 0.0) -> Reals:
    """Returns the error of the mean of each row, [rows, 1]. more: roundings besides those of the sum. moved: what is added to
    the mean magnitude of the terms."""
    depth = terms.shape[1]
    size = np.abs(terms).mean(1, keepdims=True) + moved
    squares = ((terms / depth) ** 2).sum(1, keepdims=True) if is_probable() else None
    mean = terms.mean(1, keepdims=True)
    return bound_sum(depth + more, size, mean, squares, lambda: take_rows(terms) / depth)


def _bound_deviation(rows: Real, mean: Reals, mean_error: Reals, epsilon: float) -> tuple[Reals, Reals, Array]:
    """Returns sqrt(var + eps), its error, and the mask of the lost rows. The error is the larger of those of the two
    formulas for var: mean((x - mean)^2), and mean(x^2) - mean^2."""
    depth = rows.value.shape[1]
    centred, moved = rows.value - mean, rows.error + rows.error.mean(1, keepdims=True)
    variance = (centred**2).mean(1, keepdims=True)
    carried = (2 * np.abs(centred) * moved + moved**2).mean(1, keepdims=True)
    size = np.abs(mean) + mean_error
    two_passes = mean_error**2 + _bound_mean(centred**2, 4, carried + mean_error**2)
    largest = (np.abs(rows.value) + rows.error) ** 2
    squares = largest.mean(1, keepdims=True)
    one_pass = _bound_mean(largest, 3) + 2 * size * mean_error + 2 * ROUNDOFF * size**2
    off = carried + (two_passes if takes_two_passes() else np.maximum(two_passes, one_pass))
    off = off + 2 * ROUNDOFF * (variance + off + epsilon)
    root, error, lost = _bound_root(variance + epsilon, off, TINY)
    return root, error, lost | (depth * squares >= OVERFLOW)


def _bound_root(radicand: Reals, off: Reals, flushed: float) -> tuple[Reals, Reals, Array]:
    """Returns the root of a sum of squares, its error, and the mask of the lost roots: those that could be 0 only
    because squares underflow. Their error does not include that underflow, which does not occur on qverify's own sides.

    Args:
        radicand: the sums of squares.
        off: the error of the radicand without underflow.
        flushed: the error that underflow adds to the radicand.
    """
    root = np.sqrt(radicand)

    def reach(by: Reals) -> Reals:
        low, high = np.sqrt(np.maximum(radicand - by, 0.0)), np.sqrt(radicand + by)
        return np.maximum(high - root, root - low) + 2 * ROUNDOFF * high

    whole, without = reach(off + flushed), reach(off)
    lost = (whole >= root) & (without < root)
    return root, np.where(lost, without, whole), lost


def rms_norm(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    x, depth, epsilon = require_real(inputs[0]), node.words[0], float_word(node.words[1])
    rows = Real(x.value.reshape(-1, depth), x.error.reshape(-1, depth))
    square = (rows.value**2).mean(1, keepdims=True)
    largest = (np.abs(rows.value) + rows.error) ** 2
    most = largest.mean(1, keepdims=True)
    off = (most - square) + _bound_mean(largest, 3, epsilon)
    root, root_error, lost = _bound_root(square + epsilon, off, TINY)
    least, value = root - root_error, rows.value / root
    error = np.where(least > 0, (rows.error + np.abs(value) * root_error) / least, np.inf)
    y = Real(value, error).mark_lost(lost, depth * most >= OVERFLOW).rounded(2)
    if inputs[1] is not None:
        factor = require_real(inputs[1]).value.reshape(-1)
        y = Real(y.value * factor, y.error * np.abs(factor), None, y.lost).rounded()
    return [add_own_relative_error(y, inputs, depth).shaped(x.value.shape)]


def group_norm(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    """Returns the normalization over groups of channels. A kernel may compute it with one factor and one summand per
    channel, as x * (gamma/s) + (beta - mean * (gamma/s))."""
    x, epsilon = require_real(inputs[0]), float_word(node.words[1])
    rows = Real(*(v.reshape(len(v) * node.words[0], -1) for v in (x.value, x.error)))
    mean, mean_error = _average(rows)
    root, root_error, lost = _bound_deviation(rows, mean, mean_error, epsilon)
    least = root - root_error
    above = rows.error + mean_error + 6 * ROUNDOFF * (np.abs(rows.value) + rows.error + np.abs(mean) + mean_error)
    value = (rows.value - mean) / root
    error = np.where(least > 0, (above + np.abs(value) * root_error) / least, np.inf)
    y = Real(value, error).mark_lost(lost).shaped(x.value.shape).rounded(2)
    scale, along = np.ones(1), (-1, *[1] * (x.value.ndim - 2))
    if inputs[1] is not None:
        factor = require_real(inputs[1]).value.reshape(along)
        scale = np.abs(factor)
        y = Real(y.value * factor, y.error * np.abs(factor), None, y.lost).rounded()
        folded = np.maximum(np.maximum(np.abs(rows.value), np.abs(mean)), 1.0) / np.where(least > 0, least, np.inf)
        y = y.mark_lost_if_large(folded.reshape(x.value.shape) * factor)
    if inputs[2] is not None:
        offset = require_real(inputs[2]).value.reshape(along)
        largest = np.abs(offset) + np.abs(y.value) + y.error
        y = Real(y.value + offset, y.error + 2 * ROUNDOFF * largest + TINY, None, y.lost)
    return [add_own_error(y, inputs, rows.value, value, root, least, scale)]


def _masked(below: Reals, logs: Reals) -> Reals:
    """Returns the largest possible exponential of each element, for elements so far below the maximum that the
    exponential is 0: it is 0 for -inf, and depends on the error of the logarithm for others."""
    return np.where(np.isneginf(below), 0.0, functions64.exp(below + logs))


def softmax_float(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    x = require_real(inputs[0])
    value, error = x.value.reshape(node.words), x.error.reshape(node.words)
    below = value - value.max(1, keepdims=True)
    logs = error + ROUNDOFF * (np.abs(below) + 2 * error.max(1, keepdims=True)) + EXPONENTIAL * ROUNDOFF
    e = functions64.exp(below)
    y = e / e.sum(1, keepdims=True)
    least = (y * functions64.exp(-logs)).sum(1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        share = functions64.exp(logs) / least * (1 + _bound_shares(y, 4)) - 1
        apart = np.where(e > 0, y * share, _masked(below, logs) / least)
    bounded = add_own_relative_error(Real(y, apart + node.words[1] * TINY), inputs, node.words[1])
    return [bounded.shaped(graph.spec(node.outputs[0]).shape)]


def _bound_shares(shares: Reals, more: int) -> Reals:
    """Returns the relative error of the sum of exponentials, [A, 1, B], of shares of it, [A, D, B]. more: roundings besides
    those of the sum."""
    total = shares.sum(1, keepdims=True)
    squares = (shares**2).sum(1, keepdims=True) if is_probable() else None
    return bound_sum(
        shares.shape[1] + more,
        np.ones_like(total),
        total,
        squares,
        lambda: take_rows(np.moveaxis(shares, 1, -1).reshape(-1, shares.shape[1])),
    )


def log_softmax(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    """Returns (x - max) - log(sum exp(x - max)): a difference, minus the logarithm of the sum that softmax_float
    computes."""
    x = require_real(inputs[0])
    value, error = x.value.reshape(node.words), x.error.reshape(node.words)
    below, most = value - value.max(1, keepdims=True), error.max(1, keepdims=True)
    logs = error + ROUNDOFF * (np.abs(below) + 2 * most) + EXPONENTIAL * ROUNDOFF
    e = functions64.exp(below)
    total = e.sum(1, keepdims=True)
    part = functions64.log(total)
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.where(e > 0, e * functions64.expm1(logs), _masked(below, logs))
    moved = apart.sum(1, keepdims=True) / total + _bound_shares(e / total, 2)
    moved = moved + ROUNDOFF * (3 + 2 * np.abs(part))
    y = Real(below - part, error + moved + ROUNDOFF * (np.abs(below) + 2 * most)).rounded()
    y = Real(y.value, y.error + 2 * ROUNDOFF * np.abs(value.max(1, keepdims=True)))
    shape = graph.spec(node.outputs[0]).shape
    return [Real(y.value.reshape(shape), y.error.reshape(shape))]


def lp_norm(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    x = require_real(inputs[0])
    value, error = x.value.reshape(node.words[:3]), x.error.reshape(node.words[:3])
    size, largest = np.abs(value), np.abs(value) + error
    if node.words[3] == 1:
        norm, most = size.sum(1, keepdims=True), largest.sum(1, keepdims=True)
        large, flushed = most, np.zeros_like(norm)
    else:
        norm, most = np.sqrt((size**2).sum(1, keepdims=True)), np.sqrt((largest**2).sum(1, keepdims=True))
        large, flushed = most**2, norm - np.sqrt(np.maximum(norm**2 - node.words[1] * TINY, 0.0))
    off = (most - norm) + _bound_norm(size, most, node.words[3], 4) + TINY
    lost = (off < norm) & (off + flushed >= norm)  # only the underflow of squares could make the norm 0
    off = np.where(lost, off, off + flushed)
    least = norm - off
    y = np.where(norm > 0, value / norm, 0.0)
    moved = np.where(least > 0, (error + np.abs(y) * off) / least, np.where(most > 0, np.inf, 0.0))
    normalized = Real(y, moved).rounded(2).mark_lost(lost, large >= OVERFLOW)
    normalized = add_own_relative_error(normalized, inputs, node.words[1])
    return [normalized.shaped(graph.spec(node.outputs[0]).shape)]


def _bound_norm(size: Reals, most: Reals, power: int, more: int) -> Reals:
    """Returns the error of the norms of magnitudes, [A, 1, B] of [A, D, B]. most: the largest norms, with the errors of the
    terms. more: roundings besides those of the sum."""
    terms = np.moveaxis(size, 1, -1).reshape(-1, size.shape[1])
    if not is_probable():
        return gamma(size.shape[1] + more) * most
    largest = np.where(most > 0, most, 1.0)
    shares = size / largest if power == 1 else (size / largest) ** 2
    total = shares.sum(1, keepdims=True)
    relative = bound_sum(
        size.shape[1] + more,
        np.ones_like(total),
        total,
        (shares**2).sum(1, keepdims=True),
        lambda: take_rows(terms if power == 1 else terms**2),
    )
    return (
        relative if power == 1 else relative / 2 + gamma(more)
    ) * most  # a root halves the relative error, and rounds


def softmax(node: Node, inputs: list[BoundedValue | None], graph: Graph, more: float = 0.0) -> list[BoundedValue]:
    """Returns the softmax of integers, T_i * ys / sum T_j in LSB, with float32 exponentials from a table, which each
    kernel sums in its own order. more: additional relative error, for kernels in fixed point."""
    x, table = require_certain(inputs[0]).reshape(node.words[:3]), require_real(inputs[1]).value
    y = graph.spec(node.outputs[0])
    e = table[x - x.max(1, keepdims=True) + 255]
    steps = e * float_word(node.words[3])  # every side computes it in float32, where it may overflow
    over = steps >= BEYOND
    value = np.where(over, np.inf, steps / e.sum(1, keepdims=True))
    error = np.where(over, 0.0, value * (gamma(node.words[1] + 3 + 2 * EXPONENTIAL) + more) + node.words[1] * TINY)
    limits = np.iinfo(y.dtype)
    whole = round_interval(value, error, y.zero_point[0], (int(limits.min), int(limits.max)))
    lost = over.reshape(y.shape) if over.any() else None
    return [Whole(whole.low.reshape(y.shape), whole.high.reshape(y.shape), error.reshape(y.shape), None, lost)]


def reduce_mean(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    x = require_real(inputs[0])
    axes = tuple(i for i in range(x.value.ndim) if node.words[0] >> i & 1)
    count = prod(x.value.shape[i] for i in axes)
    moved = x.error.mean(axes)
    size = np.abs(x.value).mean(axes) + moved
    squares = ((x.value / count) ** 2).sum(axes) if is_probable() else None
    error = bound_sum(
        count + 2,
        size,
        x.value.mean(axes),
        squares,
        lambda: take_rows(np.moveaxis(x.value, axes, range(-len(axes), 0)).reshape(-1, count)) / count,
    )
    y = Real(x.value.mean(axes), moved + error + TINY)
    y = add_own_error_of_sum(y, x, size, count).mark_lost_if_large(count * size)
    return [y.shaped(graph.spec(node.outputs[0]).shape)]


def average_pool_float(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    x, y = require_real(inputs[0]), graph.spec(node.outputs[0])
    window, out = window_of(node.words), plane_shape(y.shape)
    count = np.maximum(taps_counted(window, plane_shape(x.value.shape), out, bool(node.words[10])), 1)

    def mean(of: Reals) -> Reals:
        taps = window.reads(as_planes(of), out, 0.0)
        return np.asarray(sum(taps) / count).reshape(y.shape)

    def rows() -> Reals:
        taps = np.stack([tap.reshape(-1) for tap in window.reads(as_planes(x.value), out, 0.0)], -1)
        return take_rows(taps) / prod(window.kernel)

    moved = mean(x.error)
    size = mean(np.abs(x.value)) + moved
    squares = mean(x.value**2) / count.min() if is_probable() else None
    error = bound_sum(prod(window.kernel) + 2, size, mean(x.value), squares, rows)
    pooled = Real(mean(x.value), moved + error + TINY)
    pooled = add_own_error_of_sum(pooled, x, size, prod(window.kernel))
    return [pooled.mark_lost_if_large(prod(window.kernel) * size)]


def lrn(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    """Returns the local response normalization. A kernel may update the sum of the window from channel to channel by
    adding and subtracting squares, so the error is that of a sum over the squares of all channels."""
    x, size = require_real(inputs[0]), node.words[0]
    if x.error.any():
        raise NoBound("lrn of inexact floats")
    alpha, beta, bias = (float_word(w) for w in node.words[1:])
    squares, channels = x.value**2, x.value.shape[1]
    total = np.stack(
        [squares[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1].sum(1) for c in range(channels)],
        1,
    )
    base = bias + alpha / size * total
    every = squares.sum(1, keepdims=True)
    roundings = 2 * channels + size + 4
    rounded = bound_sum(
        roundings,
        every,
        every,
        (squares**2).sum(1, keepdims=True) if is_probable() else None,
        lambda: take_rows(np.moveaxis(squares, 1, -1).reshape(-1, channels)),
    )
    off = abs(alpha) / size * rounded + gamma(roundings) * (np.abs(base) + abs(bias))
    if (base - off <= 0).any():
        raise NoBound("lrn over a base that may be 0")
    value = x.value / functions64.power(base, beta)
    ends = [np.abs(x.value / functions64.power(base + s * off, beta) - value) for s in (-1, 1)]
    powers, sizes = functions64.power(np.abs(base), beta), (squares.sum(1, keepdims=True), base + off)
    own = 2.0**-46 * np.abs(beta * functions64.log(base)) + 2.0**-47 * abs(beta) * (np.abs(base) + 2 * abs(bias)) / base
    y = (
        Real(value, np.maximum(*ends))
        .mark_lost(powers >= OVERFLOW, powers <= TINY)
        .mark_lost_if_large(*sizes)
        .rounded(8)
    )
    return [replace(y, ours=(ROUNDOFF + own) * np.abs(value) + TINY)]


def resize_linear(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    """Returns the linear resize of floats. The reference computes four products in float32, with at most 5 roundings
    each."""
    if node.words[0]:
        raise NoBound("resize_linear on integers")
    x, y = require_real(inputs[0]), graph.spec(node.outputs[0])
    index, weight = require_certain(inputs[1]), require_real(inputs[2]).value
    rows, columns = y.shape[-2:]
    cuts = [rows, 2 * rows, 2 * rows + columns]
    (row1, row2, column1, column2), (dy2, dy1, dx2, dx1) = np.split(index, cuts), np.split(weight, cuts)
    value, size, moved = (np.zeros(y.shape) for _ in range(3))
    for row, dy in ((row1, dy2), (row2, dy1)):
        for column, dx in ((column1, dx2), (column2, dx1)):
            part = dy[:, None] * dx
            taken = x.value[..., row, :][..., column]
            value, size = value + part * taken, size + np.abs(part * taken)
            moved = moved + np.abs(part) * x.error[..., row, :][..., column]
    return [Real(value, moved + gamma(6) * (size + moved) + TINY).mark_lost_if_large(size + moved)]


def resize_weighted(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    """Returns the weighted sums over rows and columns. The reference computes a product for each tap in float32 and
    adds the products."""
    x, shape = require_real(inputs[0]), graph.spec(node.outputs[0]).shape
    cut = [node.words[0] * shape[-2]]
    rows, columns = (
        t.reshape(-1, n) for t, n in zip(np.split(require_certain(inputs[1]), cut), node.words, strict=True)
    )
    wy, wx = (t.reshape(-1, n) for t, n in zip(np.split(require_real(inputs[2]).value, cut), node.words, strict=True))

    def summed(values: Reals, by_row: Reals, by_column: Reals) -> Reals:
        lines = sum(by * values[..., at] for at, by in zip(columns.T, by_column.T, strict=True))
        return np.asarray(sum(by[:, None] * lines[..., at, :] for at, by in zip(rows.T, by_row.T, strict=True)))

    size, moved = (summed(v, np.abs(wy), np.abs(wx)) for v in (np.abs(x.value), x.error))
    return [Real(summed(x.value, wy, wx), moved + gamma(sum(node.words) + 8) * (size + moved) + TINY)]


def normalize(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    x = require_certain(inputs[0]).astype(np.float64)
    mean, scale = np.array(node.words, np.int32).view(np.float32).astype(np.float64).reshape(2, 1, -1, 1, 1)
    value = (x - mean) * scale
    return [exact(value).rounded(3)]


def dequantize(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    from qverify.compare.error_bounds import bounded_values

    x = inputs[0]
    if not isinstance(x, Whole):
        raise NoBound("floats where integers are wanted")
    return [bounded_values.dequantize(x, graph.spec(node.inputs[0] or ""))]


def quantize(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    from qverify.compare.error_bounds import bounded_values

    return [bounded_values.quantize(require_real(inputs[0]), graph.spec(node.outputs[0]))]
