"""The error bounds of elementwise functions and of quantizing are those of NUMERICS.md section 4, worked out here by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from qverify.compare.error_bounds.bounded_values import (
    NoBound,
    Whole,
    bound_exactly,
    dequantize,
    gamma,
    quantize,
    requantize_operand,
    require_certain,
    round_interval,
)
from qverify.compare.error_bounds.bounded_values import require_real as real_of
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import FLUSHED, U, g, page, real, rounded, whole, word

A, DA, B, DB = 3.0, 0.25, -2.0, 0.5
TWO = {
    "add": (0, 1.0, rounded(1.0, 0.75)),
    "sub": (1, 5.0, rounded(5.0, 0.75)),
    "mul": (2, -6.0, rounded(-6.0, 3 * 0.5 + 2 * 0.25 + 0.125)),
    "div": (3, -1.5, rounded(-1.5, (0.25 + 1.5 * 0.5) / 1.5, 2)),
    "min": (4, -2.0, 0.5),
    "max": (5, 3.0, 0.5),
}


@pytest.mark.parametrize("name", TWO)
def test_two_operands(name):
    function, value, error = TWO[name]
    (y,) = page("elementwise_float", [real([A], DA), real([B], DB)], (function, 0, 0), (1,))
    assert y.value[0] == value and y.error[0] == pytest.approx(error, rel=1e-12, abs=0)


def test_a_slope_of_its_own():
    x, d, slope, ds = np.array([-3.0, 3.0, -0.125]), 0.25, -0.5, 0.125
    (y,) = page("elementwise_float", [real(x, d), real([slope], ds)], (7, 0, 0), (3,))
    for value, error, at in zip(y.value, y.error, x, strict=True):
        assert value == (slope * at if at < 0 else at)
        assert error == rounded(value, 1.0 * d + max(d - at, 0.0) * ds)


def test_a_divisor_that_may_be_zero_bounds_nothing():
    (y,) = page("elementwise_float", [real([A] * 3), real([0.5, 0.5, -0.5], [0.49, 0.5, 0.6])], (3, 0, 0), (3,))
    assert np.isfinite(y.error).tolist() == [True, False, False]
    (y,) = page("elementwise_float", [real([0.5, 0.5, -0.5], [0.49, 0.5, 0.6])], (28, 0, 0), (3,))
    assert np.isfinite(y.error).tolist() == [True, False, False]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


# name: function, p, q; the function; F, roundoffs; x. Where F is None nothing is rounded.
ONE = {
    "relu": (16, 0, 0, lambda x: max(x, 0.0), None, 0.125),
    "relu below": (16, 0, 0, lambda x: max(x, 0.0), None, -0.125),
    "clip": (17, -1, 2, lambda x: min(max(x, -1.0), 2.0), None, 1.9),
    "clip above": (17, -1, 2, lambda x: min(max(x, -1.0), 2.0), None, 2.1),
    "sigmoid": (18, 0, 0, sigmoid, lambda x, y: 6, 0.7),
    "tanh": (19, 0, 0, math.tanh, lambda x, y: 10 * abs(y), -0.7),
    "exp": (20, 0, 0, math.exp, lambda x, y: 4 * y, 1.3),
    "sqrt": (21, 0, 0, math.sqrt, lambda x, y: 2 * y, 3.0),
    "erf": (22, 0, 0, math.erf, lambda x, y: 4 * abs(y), -0.3),
    "erf at 0": (22, 0, 0, math.erf, lambda x, y: 4 * abs(y), 0.0),
    "hard_sigmoid": (23, 0.25, 0.5, lambda x: min(max(0.25 * x + 0.5, 0), 1), lambda x, y: 2 * abs(x) / 4 + y, 1.2),
    "hard_sigmoid at 1": (23, 0.25, 0.5, lambda x: min(max(0.25 * x + 0.5, 0), 1), lambda x, y: 1, 9.0),
    "leaky_relu": (25, 0.125, 0, lambda x: x if x > 0 else x / 8, lambda x, y: abs(y), -1.5),
    "leaky_relu above": (25, 0.125, 0, lambda x: x if x > 0 else x / 8, lambda x, y: abs(y), 1.5),
    "neg": (26, 0, 0, lambda x: -x, None, 0.75),
    "reciprocal": (28, 0, 0, lambda x: 1 / x, lambda x, y: 2 * abs(y), -0.8),
    "log": (29, 0, 0, math.log, lambda x, y: 3 + 2 * abs(y), 0.3),
    "elu": (30, 0.5, 0, lambda x: x if x > 0 else 0.5 * math.expm1(x), lambda x, y: 4 * 0.5, -1.1),
    "elu above": (30, 0.5, 0, lambda x: x if x > 0 else 0.5 * math.expm1(x), lambda x, y: y, 1.1),
    "softplus": (31, 0, 0, lambda x: math.log1p(math.exp(x)), lambda x, y: 4 + 2 * y, -0.4),
    "selu": (33, 0.5, 3, lambda x: 3 * (x if x > 0 else 0.5 * math.expm1(x)), lambda x, y: 6, -1.1),
    "selu above": (33, 0.5, 3, lambda x: 3 * (x if x > 0 else 0.5 * math.expm1(x)), lambda x, y: y, 1.1),
    "celu": (34, 0.5, 0, lambda x: x if x > 0 else 0.5 * math.expm1(x / 0.5), lambda x, y: 2, -1.1),
    "thresholded_relu": (35, 1, 0, lambda x: x if x > 1 else 0.0, None, 1.1),
    "shrink": (36, 1, 0.5, lambda x: x - 0.5 if x > 1 else 0.0, lambda x, y: y, 1.1),
    "softsign": (38, 0, 0, lambda x: x / (1 + abs(x)), lambda x, y: 5 * abs(y), -0.6),
    "floor": (41, 0, 0, math.floor, None, 2.1),
    "ceil": (42, 0, 0, math.ceil, None, 1.9),
    "round": (43, 0, 0, round, None, 2.5),
    "sign": (44, 0, 0, lambda x: (x > 0) - (x < 0), None, 0.1),
    "sinh": (45, 0, 0, math.sinh, lambda x, y: 5 * abs(y), -0.7),
    "cosh": (46, 0, 0, math.cosh, lambda x, y: 4 * y, 0.1),
    "asinh": (47, 0, 0, math.asinh, lambda x, y: 4 * abs(y), -0.7),
    "acosh": (48, 0, 0, math.acosh, lambda x, y: 4 * y, 1.5),
    "atanh": (49, 0, 0, math.atanh, lambda x, y: 4 * abs(y), -0.7),
    "asin": (50, 0, 0, math.asin, lambda x, y: 16 * abs(y), -0.7),
    "acos": (51, 0, 0, math.acos, lambda x, y: 10 * y, 0.7),
    "atan": (52, 0, 0, math.atan, lambda x, y: 10 * abs(y), -0.7),
    "pow 3": (6, 3, 0, lambda x: x**3, lambda x, y: 6 * abs(y), -1.2),
    "pow 2.5": (6, 2.5, 0, lambda x: x**2.5, lambda x, y: 6 * abs(y), 1.2),
}


@pytest.mark.parametrize("d", [0.0, 0.25])
@pytest.mark.parametrize("name", ONE)
def test_monotone_functions_move_as_their_ends_do(name, d):
    function, p, q, f, share, x = ONE[name]
    (y,) = page("elementwise_float", [real([x], d)], (function, word(p), word(q)), (1,))
    moved = max(abs(f(x + d) - f(x)), abs(f(x - d) - f(x)))
    assert y.value[0] == pytest.approx(f(x), rel=1e-12)
    more = 0.0 if share is None else U * (share(x, f(x)) + abs(f(x)) + 10 * moved) + FLUSHED
    assert y.error[0] == pytest.approx(moved + more, rel=1e-10, abs=0)


@pytest.mark.parametrize("d", [0.0, 0.25])
@pytest.mark.parametrize("x", [-1.1, 1.1])
def test_functions_that_fall_and_rise_move_by_their_slope(x, d):
    def made(function, p=0.0):
        (y,) = page("elementwise_float", [real([x], d)], (function, word(p), 0), (1,))
        return y.value[0], y.error[0]

    assert made(27) == (1.1, pytest.approx(d))
    swish, wide = x * min(max(x / 6 + 0.5, 0), 1), abs(x)
    assert made(24) == (
        pytest.approx(swish),
        pytest.approx(1.5 * d + U * (4 * wide + abs(swish) + 15 * d) + FLUSHED, rel=1e-10, abs=0),
    )
    assert made(32) == (
        pytest.approx(gelu(x)),
        pytest.approx(1.13 * d + U * (4 * wide + abs(gelu(x)) + 11.3 * d) + FLUSHED, rel=1e-10, abs=0),
    )
    for function, p, f, slope, share in (
        (37, 0.0, lambda v: v * math.tanh(math.log1p(math.exp(v))), 1.1, 10 * wide),
        (39, 2.0, lambda v: v * sigmoid(2 * v), 1.1, 7 * wide),
        (40, 0.0, lambda v: 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))), 1.13, 7 * wide),
        (53, 0.0, math.sin, 1.0, 6 * abs(math.sin(x))),
        (54, 0.0, math.cos, 1.0, 6 * abs(math.cos(x))),
    ):
        error = slope * d + U * (share + abs(f(x)) + 10 * slope * d) + FLUSHED
        assert made(function, p) == (pytest.approx(f(x)), pytest.approx(error, rel=1e-10, abs=0))
    square, moved = x * x, (2 * wide + d) * d
    assert made(6, 2) == (
        pytest.approx(square),
        pytest.approx(moved + U * (7 * square + 10 * moved) + FLUSHED, rel=1e-10, abs=0),
    )


def test_what_has_no_evaluation_says_so():
    for words, value, why in (
        ((6, word(0.5), 0), real([1.0], 1.5), "a power of negative numbers"),
        ((99, 0, 0), real([1.0]), "elementwise function 99"),
        ((35, word(-1.0), 0), real([-1.0], 0.5), "thresholded_relu that rises and falls"),
        ((55, 0, 0), real([-1.0], 0.5), "tan of inexact floats"),
        ((36, word(0.5), word(1.0)), real([-1.0], 0.5), "shrink that rises and falls"),
        ((16, 0, 0), whole([1]), "integers where floats are wanted"),
    ):
        with pytest.raises(NoBound, match=why):
            page("elementwise_float", [value], words, (1,))
    page("elementwise_float", [real([1.0], 1.0)], (6, word(0.5), 0), (1,))
    for exponent in (1, 2, 3):
        page("elementwise_float", [real([-1.0], 1.5)], (6, word(exponent), 0), (1,))


def test_a_sum_of_so_many_terms_that_float32_says_nothing_has_no_bound():
    assert gamma(2) == g(2) and gamma(3.0e6) == pytest.approx(g(3.0e6)) and gamma(2**24) == math.inf


def test_the_integers_that_a_value_with_an_error_may_round_to():
    for value, error, low, high in (
        (2.4, 0.0, 2, 2),
        (2.5, 0.0, 2, 3),  # any rule at the tie
        (2.4, 0.2, 2, 3),
        (-2.5, 0.0, -3, -2),
        (2.0, 1.0, 1, 3),
        (99.0, 0.0, 7, 7),
        (3.0, math.inf, -8, 7),
        (3.0, math.nan, -8, 7),
        (math.nan, 0.0, -8, -8),  # quantized, a NaN is the least
    ):
        found = round_interval(np.array([value - 1]), np.array([error]), 1, (-8, 7))
        assert (found.low[0], found.high[0]) == (low, high), (value, error)


def test_quantize_divides_and_rounds_once():
    spec = TensorSpec("y", "int8", (2, 1), scale=(0.5, 0.25), zero_point=(3, -3), channel_axis=0)
    y = quantize(real([[1.0], [1.0]], 0.25), spec)
    assert y.low.tolist() == [[4], [0]] and y.high.tolist() == [[6], [2]]
    for row, scale in ((0, 0.5), (1, 0.25)):
        assert y.error[row, 0] == pytest.approx(rounded(1 / scale, 0.25 / scale), rel=1e-12, abs=0)
    ends = quantize(real([[1000.0], [-1000.0]]), spec)
    assert ends.low.ravel().tolist() == ends.high.ravel().tolist() == [127, -128]
    (same,) = page("quantize", [real([[1.0], [1.0]], 0.25)], (), spec)
    assert np.array_equal(same.low, y.low)


def test_dequantize_is_exact_for_integers_that_are_known():
    spec = TensorSpec("x", "int8", (1, 2), scale=(0.1, 0.3), zero_point=(1, 2), channel_axis=1)
    for x in (whole([[5, 5]]), whole([[5, 5]], [[5, 5]])):
        y = dequantize(x, spec)
        assert y.value.tolist() == [[float(np.float32(4) * np.float32(0.1)), float(np.float32(3) * np.float32(0.3))]]
        assert not y.error.any()
    open_ = dequantize(whole([[5, 4]], [[5, 8]]), spec)
    assert open_.value.ravel().tolist() == pytest.approx([0.4, 1.2])
    assert open_.error.ravel().tolist() == pytest.approx([rounded(0.4, 0.0, 2), rounded(1.2, 0.6, 2)], rel=1e-9, abs=0)
    with pytest.raises(NoBound, match="floats where integers"):
        page("dequantize", [real([[1.0, 2.0]])], (), (1, 2))
    (same,) = page("dequantize", [whole([[5, 4]], [[5, 8]])], (), (1, 2), a=spec)
    assert np.array_equal(same.error, open_.error)


def test_a_branch_is_requantized_only_where_its_parameters_are_others():
    y = TensorSpec("y", "int8", (2,), scale=(0.5,), zero_point=(0,))
    x = whole([4, 6], [5, 6])
    assert requantize_operand(x, TensorSpec("x", "int8", (2,), scale=(0.5,), zero_point=(0,)), y) is x
    assert requantize_operand(x, y, TensorSpec("y", "int8", (2,))) is x
    found = requantize_operand(x, TensorSpec("x", "int8", (2,), scale=(1.0,), zero_point=(1,)), y)
    assert isinstance(found, Whole) and found.low.tolist() == [6, 10] and found.high.tolist() == [8, 10]
    floats = real([1.0])
    assert requantize_operand(floats, y, y) is floats


def test_held_values_are_certain_and_others_are_not():
    assert require_certain(bound_exactly(np.array([1, 2], np.int8))).tolist() == [1, 2]
    assert require_certain(whole([1, 2], [1, 2])).tolist() == [1, 2]
    for value in (whole([1, 2], [1, 3]), real([1.0]), None):
        with pytest.raises(NoBound, match="integers that depend on floats"):
            require_certain(value)
    with pytest.raises(NoBound):
        real_of(None)
    assert real_of(bound_exactly(np.array([1.5], np.float32))).error.tolist() == [0.0]


def elementwise(x, d, function, p=0.0, q=0.0):
    (y,) = page("elementwise_float", [real(x, d)], (function, word(p), word(q)), (len(x),))
    return y


@pytest.mark.parametrize(
    ("function", "p", "q", "x", "wanted"),
    [
        (36, 1.0, 0.5, [-1.5, -1.0, 0.0, 1.0, 1.5], [-1.0, 0.0, 0.0, 0.0, 1.0]),
        (35, 1.0, 0.0, [0.5, 1.0, 1.5], [0.0, 0.0, 1.5]),
        (6, 0.0, 0.0, [-2.0, 0.0, 3.0], [1.0, 1.0, 1.0]),
        (25, 0.5, 0.0, [-2.0, 0.0, 2.0], [-1.0, 0.0, 2.0]),
        (44, 0.0, 0.0, [-2.0, 0.0, 3.0], [-1.0, 0.0, 1.0]),
    ],
)
def test_values_on_both_sides_of_a_threshold_and_at_it(function, p, q, x, wanted):
    assert elementwise(x, 0.0, function, p, q).value.tolist() == wanted


@pytest.mark.parametrize(
    ("function", "p", "q", "at_zero", "at_two"),
    [
        (23, 0.25, 0.5, 0.5 + 0.5, 1.0 + 1.0),  # hard_sigmoid is 1 at 2
        (30, 0.5, 0.0, 0.0, 4.0),
        (33, 0.5, 3.0, 0.0, 12.0),
        (34, 0.5, 0.0, 0.0, 2.0),
        (25, 0.5, 0.0, 0.0, 4.0),
    ],
)
def test_roundoffs_at_zero_and_at_two(function, p, q, at_zero, at_two):
    """The library's share and that of rounding y."""
    wanted = [U * at_zero + FLUSHED, U * at_two + FLUSHED]
    assert elementwise([0.0, 2.0], 0.0, function, p, q).error.tolist() == pytest.approx(wanted, rel=1e-12, abs=0)


def test_thresholds_that_only_rise_have_a_bound():
    assert elementwise([0.5, -1.0], 1.0, 35, 0.0).error.tolist() == [1.0, 0.0]
    assert np.isfinite(elementwise([0.5, 3.0], 1.0, 36, 0.5, 0.5).error).all()
    assert elementwise([-1.0, 2.0], 0.0, 35, -1.5).error.tolist() == [0.0, 0.0]  # exact floats: nothing moves


@pytest.mark.parametrize("function", [53, 54, 55])
def test_a_periodic_function_of_what_is_far_away_is_lost(function):
    far = 2.0**20
    y = elementwise([1.0, far, far + 1, -far - 1, np.inf], 0.0, function)
    assert np.isnan(y.value).tolist() == [False, False, True, True, True]
    assert y.lost.tolist() == [False, False, True, True, False]
    assert elementwise([1.0, far], 0.0, function).lost is None


def test_a_sine_of_what_may_be_far_away_is_lost():
    far = 2.0**20
    y = elementwise([far, far + 1, far + 1.5, far - 1], 1.0, 53)
    assert np.isnan(y.value).tolist() == [False, False, True, False] and y.lost.tolist() == [True, True, True, False]


def test_only_a_sigmoid_of_exact_floats_has_a_smaller_error_of_ours():
    y = elementwise([0.5, -9.0], 0.0, 18)
    assert y.ours.tolist() == pytest.approx([U * sigmoid(x) + FLUSHED for x in (0.5, -9.0)], rel=1e-12, abs=0)
    assert elementwise([0.5, -9.0], [0.25, 0.0], 18).ours is None and elementwise([0.5, -9.0], 0.0, 19).ours is None
    assert elementwise([0.0, 2.0], 0.0, 19).error[0] == FLUSHED


@pytest.mark.parametrize(
    ("function", "p", "q", "x", "size"),
    [
        (18, 0.0, 0.0, -20.0, 0.0),
        (30, -0.5, 0.0, -1e-12, 0.5),
        (31, 0.0, 0.0, -40.0, 1.0),
        (32, 0.0, 0.0, -6.0, 6.0),
        (33, -0.5, 3.0, -1e-12, 1.5),
        (34, 0.5, 0.0, -1e-12, 0.5),
        (40, 0.0, 0.0, -6.0, 6.0),
        (30, 0.5, 0.0, 0.75, 0.5),
    ],
)
def test_our_own_error_is_a_share_of_what_cancels(function, p, q, x, size):
    y = elementwise([x], 0.0, function, p, q)
    own = U * abs(y.value[0]) + 2.0**-46 * size + FLUSHED
    assert own < y.error[0] and y.ours[0] == pytest.approx(own, rel=1e-12, abs=0)


def test_our_own_error_is_never_the_larger_one():
    y = elementwise([0.5], 0.0, 30, 2.0**40)  # an alpha so large that 2^-46 of it is more than a rounding of 0.5
    assert y.ours.tolist() == y.error.tolist()


def test_a_reciprocal_of_zero_has_no_limit():
    assert np.isinf(elementwise([0.0, 4.0], [0.0, 0.5], 28).error).tolist() == [True, False]


def test_a_slope_above_1_multiplies_the_error():
    (y,) = page("elementwise_float", [real([-3.0], 0.25), real([-2.0], 0.125)], (7, 0, 0), (1,))
    assert y.error[0] == rounded(6.0, 2.125 * 0.25 + 3.25 * 0.125)


def test_half_floats_move_to_the_next_one():
    step = 2.0**-10  # of float16 between 1 and 2
    (y,) = page("half_float", [real([1 + 0.4 * step, 1 + 0.6 * step, 2.0, -1.0], 0.0)], (), (4,))
    assert y.value.tolist() == [1.0, 1 + step, 2.0, -1.0] and not y.error.any()
    (y,) = page("half_float", [real([1 + 0.4 * step, 1 + 0.6 * step, 1 + step], [0.2 * step] * 2 + [0.0])], (), (3,))
    assert y.value.tolist() == [1.0, 1 + step, 1 + step] and y.error.tolist() == [step, step, 0.0]
