"""The bounds of log_softmax, lp_norm, rms_norm, group_norm, average_pool_float and resize_weighted are those of NUMERICS.md section 4,
worked out here element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.plain.error_pages import FLUSHED, U, g, page, real, rounded, whole, word

ROW, ZEROS = [1.5, -2.0, 0.25, 4.0], [0.0] * 4
# nothing, about as much as a rounding, and much
ERRORS = [ZEROS, [2.0**-25, 2.0**-22, 2.0**-24, 2.0**-23], [0.125, 0.25, 0.0625, 0.5]]
EPSILON = float(np.float32(0.01))
TOP = 2.0**127
Found = tuple[list[float], list[float]]  # values, errors


def check(y: Any, wanted: Found) -> None:
    assert y.value.ravel().tolist() == pytest.approx(wanted[0], rel=1e-11)
    assert y.error.ravel().tolist() == pytest.approx(wanted[1], rel=2e-9, abs=0)


def total(x: Any) -> float:
    return math.fsum(x)


def scaled(y: float, error: float, factor: float | None) -> tuple[float, float]:
    """Times gamma, rounded."""
    return (y, error) if factor is None else (y * factor, rounded(y * factor, error * abs(factor)))


@pytest.mark.parametrize("d", ERRORS)
@pytest.mark.parametrize("x", [ROW, [100.0, -200.0, 50.0, 99.0]])
def test_log_softmax(x: list[float], d: list[float]) -> None:
    h = [e + U * (max(x) - v + 2 * max(d)) + 4 * U for v, e in zip(x, d, strict=True)]
    shares = [math.exp(v - max(x)) for v in x]
    log = math.log(total(shares))
    moved = total(s * math.expm1(k) for s, k in zip(shares, h, strict=True)) / total(shares)
    moved += g(len(x) + 2) + U * (3 + 2 * abs(log))
    values = [v - max(x) - log for v in x]
    errors = [e + moved + U * (max(x) - v + 2 * max(d)) for v, e in zip(x, d, strict=True)]
    errors = [rounded(v, e) + 2 * U * abs(max(x)) for v, e in zip(values, errors, strict=True)]
    (y,) = page("log_softmax", [real([[[v] for v in x]], [[[e] for e in d]])], (1, 4, 1), (1, 4, 1))
    check(y, (values, errors))


def root_by_hand(value: float, off: float) -> tuple[float, float]:
    """The root, and its error: its change for the radicand's, and two roundings of the larger root."""
    low, high = math.sqrt(max(value - off, 0.0)), math.sqrt(value + off)
    return math.sqrt(value), max(high - math.sqrt(value), math.sqrt(value) - low) + 2 * U * high


def rms_norm_by_hand(x: list[float], d: list[float], epsilon: float, gammas: list[float | None]) -> Found:
    n = len(x)
    square, most = total(v * v for v in x) / n, total((abs(v) + e) ** 2 for v, e in zip(x, d, strict=True)) / n
    root, moved = root_by_hand(square + epsilon, most - square + g(n + 3) * (most + epsilon) + FLUSHED)
    made = []
    for v, e, factor in zip(x, d, gammas, strict=True):
        error = (e + abs(v / root) * moved) / (root - moved) if root > moved else math.inf
        made.append(scaled(v / root, rounded(v / root, error, 2), factor))
    return [v for v, _ in made], [e for _, e in made]


@pytest.mark.parametrize("gammas", [[None] * 4, [2.0, -0.5, 1.5, 1.0]])
@pytest.mark.parametrize("d", [*ERRORS, [2.0, 2.0, 2.0, 8.0]])
def test_rms_norm(d: list[float], gammas: list[Any]) -> None:
    factor = None if gammas[0] is None else real(gammas)
    (y,) = page("rms_norm", [real([ROW, ROW], [d, d]), factor], (4, word(EPSILON)), (2, 4))
    values, errors = rms_norm_by_hand(ROW, d, EPSILON, gammas)
    check(y, (values * 2, errors * 2))
    assert y.lost is None


@pytest.mark.parametrize("d", ERRORS)
@pytest.mark.parametrize("order", [1, 2])
def test_lp_norm(order: int, d: list[float]) -> None:
    n = len(ROW)
    larger = [abs(v) + e for v, e in zip(ROW, d, strict=True)]
    norm, most = (total(abs(v) ** order for v in x) ** (1 / order) for x in (ROW, larger))
    off = most - norm + g(n + 4) * most + FLUSHED
    errors = [rounded(v / norm, (e + abs(v / norm) * off) / (norm - off), 2) for v, e in zip(ROW, d, strict=True)]
    x = real([[[v] for v in ROW]], [[[e] for e in d]])
    (y,) = page("lp_norm", [x], (1, 4, 1, order), (1, 4, 1))
    check(y, ([v / norm for v in ROW], errors))
    assert y.lost is None


def norm_by_hand(
    x: list[float], d: list[float], factors: list[Any], offsets: list[Any], steps: float, last: float
) -> Found:
    """The variance is made in two passes or in one. steps: roundings of the difference; last: those after beta."""
    n = len(x)
    mean, size, mean_d = total(x) / n, total(map(abs, x)) / n, total(d) / n
    dm = mean_d + g(n + 1) * (size + mean_d)
    var = total((v - mean) ** 2 for v in x) / n
    carried = total(2 * abs(v - mean) * (e + mean_d) + (e + mean_d) ** 2 for v, e in zip(x, d, strict=True)) / n
    largest = abs(mean) + dm
    two_passes = dm**2 + g(n + 4) * (var + carried + dm**2)
    squares = total((abs(v) + e) ** 2 for v, e in zip(x, d, strict=True)) / n
    off = carried + max(two_passes, g(n + 3) * squares + 2 * largest * dm + 2 * U * largest**2)
    root, moved = root_by_hand(var + EPSILON, off + 2 * U * (var + off + EPSILON) + FLUSHED)
    made = []
    for v, e, factor, offset in zip(x, d, factors, offsets, strict=True):
        value = (v - mean) / root
        error = e + dm + steps * U * (abs(v) + e + largest) + abs(value) * moved
        error = error / (root - moved) if root > moved else math.inf
        value, error = scaled(value, rounded(value, error, 2), factor)
        if offset is not None:
            error += last * U * (abs(offset) + abs(value) + error) + FLUSHED
            value += offset
        made.append((value, error))
    return [v for v, _ in made], [e for _, e in made]


@pytest.mark.parametrize("d", [ERRORS[0], ERRORS[1], [0.03125, 0.125, 0.0625, 0.015625], [2.0**-13] * 4])
@pytest.mark.parametrize(("gammas", "betas"), [(None, None), ([2.0, -0.5], None), ([2.0, -0.5], [0.25, 3.0])])
@pytest.mark.parametrize("more", [0.0, 300.0])
def test_group_norm(more: float, d: list[float], gammas: list[float] | None, betas: list[float] | None) -> None:
    """Two groups of one channel each, of a mean near 0 or far from it."""
    groups = [[v + more for v in ROW], [v - more for v in reversed(ROW)]]
    inputs = [real([groups], [[d, d]]), *(None if v is None else real(v) for v in (gammas, betas))]
    (y,) = page("group_norm", inputs, (2, word(EPSILON)), (1, 2, 4))
    for at, x in enumerate(groups):
        factors, offsets = ([None if v is None else v[at]] * 4 for v in (gammas, betas))
        wanted = norm_by_hand(x, d, factors, offsets, 6, 2)
        assert y.value[0, at].tolist() == pytest.approx(wanted[0], rel=1e-9, abs=1e-9)
        assert y.error[0, at].tolist() == pytest.approx(wanted[1], rel=1e-8, abs=0)


@pytest.mark.parametrize("d", [ERRORS[0], ERRORS[1], [0.03125, 0.125, 0.0625, 0.015625], [2.0**-13] * 4])
@pytest.mark.parametrize("gammas", [None, [2.0, -0.5, 1.5, 1.0]])
@pytest.mark.parametrize("betas", [None, [0.25, 3.0, -9.0, 0.0]])
@pytest.mark.parametrize("by", [1.0, 0.0625, -1.0])
def test_layer_norm(by: float, betas: list[float] | None, gammas: list[float] | None, d: list[float]) -> None:
    """With errors that differ, of deviations above and below 1, and of a mean of 0."""
    x, d = [v * by for v in ROW] if by > 0 else [1.0, -1.0, 2.0, -2.0], [e * abs(by) for e in d]
    inputs = [real([x], [d]), *(None if v is None else real(v) for v in (gammas, betas))]
    (y,) = page("layer_norm", inputs, (4, word(EPSILON)), (1, 4))
    check(y, norm_by_hand(x, d, gammas or [None] * 4, betas or [None] * 4, 3, 1))


@pytest.mark.parametrize("includes", [0, 1])
@pytest.mark.parametrize("d", ERRORS)
def test_average_pool(includes: int, d: list[float]) -> None:
    """Windows of three and a step of two over four elements and one of padding at each end."""
    words = (1, 3, 1, 2, 0, 1, 0, 1, 1, 1, includes)
    (y,) = page("average_pool_float", [real([[[ROW]]], [[[d]]])], words, (1, 1, 1, 2))
    values, errors = [], []
    for at, counted in (((0, 1), 3 if includes else 2), ((1, 2, 3), 3)):
        moved, size = total(d[i] for i in at) / counted, total(abs(ROW[i]) for i in at) / counted
        values.append(total(ROW[i] for i in at) / counted)
        errors.append(moved + g(3 + 2) * (size + moved) + FLUSHED)
    check(y, (values, errors))


@pytest.mark.parametrize("d", ERRORS)
def test_resize_weighted(d: list[float]) -> None:
    """2 x 2 to 1 x 2: two taps of the rows, one of the columns with the second weight below 0."""
    x, e = np.reshape(ROW, (1, 1, 2, 2)), np.reshape(d, (1, 1, 2, 2))
    index, weights = whole([0, 1, 0, 1]), real([0.75, 0.5, 2.0, -0.25])
    (y,) = page("resize_weighted", [real(x, e), index, weights], (2, 1), (1, 1, 1, 2))
    values, errors = [], []
    for column, weight in ((0, 2.0), (1, -0.25)):
        parts = [(0.75, x[0, 0, 0, column], e[0, 0, 0, column]), (0.5, x[0, 0, 1, column], e[0, 0, 1, column])]
        values.append(total(w * weight * v for w, v, _ in parts))
        moved = total(w * abs(weight) * off for w, _, off in parts)
        size = total(w * abs(weight) * abs(v) for w, v, _ in parts)
        errors.append(moved + g(2 + 1 + 8) * (size + moved) + FLUSHED)
    check(y, (values, errors))


ZERO_ROWS = {
    "reduce_mean": ((2, 0, 0), [[0.0, 0.0]], (1,), FLUSHED),
    "average_pool_float": ((1, 2, 1, 1, 0, 0, 0, 0, 1, 1, 0), [[[[0.0, 0.0]]]], (1, 1, 1, 1), FLUSHED),
    "lp_norm": ((1, 2, 1, 2), [[[0.0], [0.0]]], (1, 2, 1), FLUSHED),
}


@pytest.mark.parametrize("op", ZERO_ROWS)
def test_of_zeros_the_error_is_what_flushing_loses(op: str) -> None:
    words, x, shape, wanted = ZERO_ROWS[op]
    (y,) = page(op, [real(x)], words, shape)
    assert y.error.ravel().tolist() == pytest.approx([wanted] * y.error.size, rel=1e-6, abs=0)


def test_a_linear_resize_of_zeros_loses_what_flushing_does() -> None:
    index, weights = whole([0, 0, 0, 0]), real([0.5, 0.5, 0.5, 0.5])
    for op, words in (("resize_linear", (0,)), ("resize_weighted", (1, 1))):
        more = [index, weights] if op == "resize_linear" else [whole([0, 0]), real([0.5, 0.5])]
        (y,) = page(op, [real([[[[0.0]]]]), *more], words, (1, 1, 1, 1))
        assert y.error.ravel().tolist() == [FLUSHED]
    (y,) = page("resize_linear", [real([[[[TOP, -TOP]]]]), whole([0, 0, 0, 1]), weights], (0,), (1, 1, 1, 1))
    assert y.lost is not None and y.lost.all()
    (y,) = page("resize_linear", [real([[[[TOP / 2]]]], TOP), index, weights], (0,), (1, 1, 1, 1))
    assert y.lost is not None and y.lost.all()
    (y,) = page("resize_linear", [real([[[[TOP / 2]]]], TOP / 4), index, weights], (0,), (1, 1, 1, 1))
    assert y.lost is None


@pytest.mark.parametrize("low", [-800.0, -math.inf])
def test_the_share_of_what_is_masked_is_as_large_as_its_error_makes_it(low: float) -> None:
    """exp(-800) is 0; but where the element may be 790 higher it has a share. Of -inf there is none."""
    x = real([[[0.0], [low]]], [[[0.0], [790.0]]])
    first = 4 * U + U * 2 * 790
    share = 0.0 if low == -math.inf else math.exp(-800 + 790 + U * 800 + first)
    (y,) = page("softmax_float", [x], (1, 2, 1), (1, 2, 1))
    assert y.value.ravel().tolist() == [1.0, 0.0]
    assert y.error[0, 1, 0] == pytest.approx(share / math.exp(-first) + 2 * FLUSHED, rel=1e-9, abs=0)
    (y,) = page("log_softmax", [x], (1, 2, 1), (1, 2, 1))
    moved = share + math.expm1(first) + g(4) + 3 * U + U * 2 * 790
    assert y.error[0, 0, 0] == pytest.approx(rounded(0.0, moved), rel=1e-9, abs=0)


def test_log_softmax_goes_along_its_own_axis() -> None:
    x, d = np.random.default_rng(1).normal(size=(2, 3, 4)), np.random.default_rng(2).uniform(size=(2, 3, 4))
    (whole_,) = page("log_softmax", [real(x, d)], (2, 3, 4), (2, 3, 4))
    for outer, inner in ((0, 0), (1, 3), (0, 2)):
        row = [v[outer, :, inner].reshape(1, 3, 1) for v in (x, d)]
        (one,) = page("log_softmax", [real(*row)], (1, 3, 1), (1, 3, 1))
        for part in ("value", "error"):
            assert getattr(whole_, part)[outer, :, inner] == pytest.approx(getattr(one, part).ravel(), rel=1e-12)


@pytest.mark.parametrize(("op", "words", "shape"), [("layer_norm", (2,), (1, 2)), ("group_norm", (1,), (1, 1, 2))])
def test_every_rounding_of_a_normalized_zero_may_flush_it(
    op: str, words: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    width = 1 if op == "group_norm" else 2
    for gammas, betas in ((None, None), (None, 0.0), (1.0, None), (1.0, 0.0)):
        inputs = [None if v is None else real([v] * width) for v in (gammas, betas)]
        (y,) = page(op, [real(np.zeros(shape)), *inputs], (*words, word(EPSILON)), shape)
        count = 1 + (gammas is not None) + (betas is not None)
        assert y.error.ravel().tolist() == pytest.approx([count * FLUSHED] * 2, rel=1e-6, abs=0)


def test_a_norm_about_as_small_as_what_flushing_loses() -> None:
    x = 2.0**-121
    (y,) = page("lp_norm", [real([[[x], [x]]])], (1, 2, 1, 1), (1, 2, 1))
    off = g(2 + 4) * 2 * x + FLUSHED
    assert y.error.ravel().tolist() == pytest.approx([rounded(0.5, 0.5 * off / (2 * x - off), 2)] * 2, rel=1e-9)


def test_a_window_of_one_element_is_its_mean() -> None:
    """Two taps of which one is padding, at either end."""
    (y,) = page("average_pool_float", [real([[[[3.0]]]])], (1, 2, 1, 1, 0, 1, 0, 1, 1, 1, 0), (1, 1, 1, 2))
    assert y.value.ravel().tolist() == [3.0, 3.0]
