"""Rows whose float32 intermediates overflow or underflow are lost, each exactly from the magnitude on that NUMERICS.md section 4
gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from qverify.compare.error_bounds.bounded_values import NoBound
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import FLUSHED, U, g, page, real, rounded, whole, word

TOP = 2.0**127
NORM = {"layer_norm": 2, "rms_norm": 1, "group_norm": 2}


def norm(op: str, x: list[float], d: Any = 0.0, epsilon: float = 0.0) -> Any:
    """One row through a normalization without gamma and beta."""
    values, errors = np.array([x]), np.broadcast_to(d, (1, len(x)))
    if op == "group_norm":
        values, errors = values[:, None], errors[:, None]
    words = (1 if op == "group_norm" else len(x), word(epsilon))
    (y,) = page(op, [real(values, errors), *[None] * NORM[op]], words, values.shape)
    return y


@pytest.mark.parametrize("op", NORM)
@pytest.mark.parametrize(
    ("x", "d", "wanted"),
    [
        ([2.0**63, -(2.0**63)], 0.0, True),  # the squares together are 2^127
        ([2.0**63, -(2.0**62.9)], 0.0, False),
        ([2.0**62, -(2.0**62)], 2.0**62, True),
        ([2.0**62, -(2.0**62)], 2.0**61, False),
    ],
)
def test_a_normalization_whose_squares_overflow_is_lost(op: str, x: list[float], d: float, wanted: bool) -> None:
    y = norm(op, x, d)
    assert (y.lost is not None and bool(y.lost.all())) == wanted


@pytest.mark.parametrize("op", NORM)
def test_a_deviation_that_only_the_underflow_of_squares_makes_zero(op: str) -> None:
    """Its error is that without the underflow; of a row that is 0 on every side there is none."""
    y = norm(op, [2.0**-64, -(2.0**-64)])
    assert y.lost.all() and (y.error < 1e-5).all()
    assert norm(op, [2.0**-62, -(2.0**-62)]).lost is None
    y = norm(op, [0.0, 0.0])
    assert y.lost is None and not np.isfinite(y.error).any()
    y = norm(op, [2.0**-64, -(2.0**-64)], 2.0**-63)
    assert y.lost is None and np.isinf(y.error).all()


@pytest.mark.parametrize(
    ("order", "x", "d", "wanted"),
    [
        (1, [TOP / 2, -TOP / 2], 0.0, True),
        (1, [TOP / 2, -TOP / 2.01], 0.0, False),
        (1, [TOP / 4, -TOP / 4], TOP / 4, True),
        (2, [2.0**63, 2.0**63], 0.0, True),
        (2, [2.0**63, 2.0**62.9], 0.0, False),
        (2, [2.0**62, 2.0**62], 2.0**62, True),
        (1, [2.0**-70, 2.0**-70], 0.0, False),
        (2, [2.0**-63, 2.0**-64], 0.0, True),
        (2, [2.0**-62, 2.0**-62], 0.0, False),
        (2, [0.0, 0.0], 0.0, False),
        (2, [2.0**-64, 2.0**-64], 2.0**-60, False),  # its error may make it 0 without any underflow
    ],
)
def test_a_norm_that_overflows_or_underflows_is_lost(order: int, x: list[float], d: float, wanted: bool) -> None:
    (y,) = page("lp_norm", [real([[[v] for v in x]], d)], (1, 2, 1, order), (1, 2, 1))
    assert (y.lost is not None and bool(y.lost.all())) == wanted
    if wanted:
        assert (y.error < 1e-5).all() or d


def test_an_underflow_of_squares_that_makes_no_zero_is_part_of_the_error() -> None:
    norm_, n = math.sqrt(2 * 2.0**-122), 2
    flushed = norm_ - math.sqrt(norm_**2 - n * FLUSHED)
    off = g(n + 4) * norm_ + FLUSHED + flushed
    (y,) = page("lp_norm", [real([[[2.0**-61], [2.0**-61]]])], (1, 2, 1, 2), (1, 2, 1))
    value = 2.0**-61 / norm_
    assert y.lost is None
    assert y.error.ravel().tolist() == pytest.approx([rounded(value, value * off / (norm_ - off), 2)] * 2, rel=1e-6)


@pytest.mark.parametrize(
    ("x", "factor", "wanted"),
    [
        ([1.0, 3.0], TOP / 4, False),  # the largest is 3, and the deviation 1
        ([1.0, 3.0], -TOP / 2, True),
        ([-5.0, 1.0], TOP / 4, False),
        ([0.25, -0.25], TOP / 8, False),
        ([0.25, -0.25], -TOP / 4, True),  # 1 / 0.25
        ([30.0, 30.5], -TOP / 125, False),
        ([30.0, 30.5], TOP / 121.3, True),
    ],
)
def test_a_factor_that_overflows_where_it_is_folded_is_lost(x: list[float], factor: float, wanted: bool) -> None:
    inputs = [real([[x]]), real([factor]), None]
    (y,) = page("group_norm", inputs, (1, word(0.0)), (1, 1, 2))
    assert (y.lost is not None and bool(y.lost.all())) == wanted


def test_means_that_overflow_are_lost() -> None:
    for x, d, wanted in ((TOP / 2, 0.0, True), (TOP / 2.1, 0.0, False), (TOP / 4, TOP / 4, True)):
        (y,) = page("reduce_mean", [real([[x, -x]], d)], (2, 0, 0), (1,))
        assert (y.lost is not None) == wanted
        words = (1, 2, 1, 1, 0, 0, 0, 0, 1, 1, 0)
        (y,) = page("average_pool_float", [real([[[[x, -x]]]], d)], words, (1, 1, 1, 1))
        assert (y.lost is not None) == wanted


def lrn(x: list[float], alpha: float, beta: float, bias: float) -> Any:
    (y,) = page(
        "lrn", [real(np.reshape(x, (1, -1, 1, 1)))], (1, word(alpha), word(beta), word(bias)), (1, len(x), 1, 1)
    )
    return y


@pytest.mark.parametrize(
    ("x", "alpha", "beta", "bias", "wanted"),
    [
        (1.0, 0.0, 1.0, 2.0**126, False),
        (1.0, 0.0, 2.0, 2.0**63.6, True),
        (1.0, 0.0, 1.0, 2.0**-125, False),
        (1.0, 0.0, 1.0, 2.0**-126, True),
        (1.0, 0.0, 1.0, TOP, True),
        (2.0**63.5, 0.0, 1.0, 1.0, True),
        (2.0**63, 0.0, 1.0, 1.0, False),
    ],
)
def test_a_power_of_lrns_base_that_overflows_is_lost(
    x: float, alpha: float, beta: float, bias: float, wanted: bool
) -> None:
    assert (lrn([x], alpha, beta, bias).lost is not None) == wanted


def test_our_own_error_of_lrn() -> None:
    alpha, beta, bias = 0.5, 0.75, 2.0
    y = lrn([3.0], alpha, beta, bias)
    base = bias + alpha * 9
    own = 2.0**-46 * beta * math.log(base) + 2.0**-47 * beta * (base + 2 * bias) / base
    assert y.ours.ravel().tolist() == pytest.approx([(U + own) * 3 / base**beta + FLUSHED], rel=1e-12, abs=0)
    wanted = FLUSHED
    assert lrn([0.0], alpha, beta, bias).ours.ravel().tolist() == pytest.approx([wanted], rel=1e-6, abs=0)


def test_squares_of_all_channels_and_the_base_with_its_error_lose_lrn() -> None:
    assert lrn([2.0**63, 2.0**63], 0.0, 1.0, 1.0).lost.all()
    assert lrn([2.0**63, 2.0**62.9], 0.0, 1.0, 1.0).lost is None
    assert lrn([1.0], 0.0, 0.5, TOP * (1 - 2.0**-24)).lost.all()
    assert lrn([1.0], 0.0, 0.5, TOP * (1 - 2.0**-18)).lost is None


@pytest.mark.parametrize("x", [[0.0], [2.0**-20, 2.0**20]])
def test_a_base_of_lrn_that_may_just_be_zero_has_no_bound(x: list[float]) -> None:
    with pytest.raises(NoBound, match="may be 0"):
        lrn(x, 0.5, 0.75, 0.0)


def test_an_8_bit_softmax_whose_step_just_overflows() -> None:
    y = TensorSpec("y", "uint8", (1, 1, 1), scale=(1.0,), zero_point=(0,))
    for step, wanted in ((2.0**128 - 2.0**103, True), (2.0**128 - 2.0**104, False)):
        (found,) = page("softmax", [whole([[[7]]]), real(np.full(256, step))], (1, 1, 1, word(1.0)), y)
        assert (found.lost is not None) == wanted


@pytest.mark.parametrize("zero", [0, 3])
def test_an_8_bit_softmax_that_overflows_saturates(zero: int) -> None:
    y = TensorSpec("y", "uint8", (1, 2, 1), scale=(1 / 256,), zero_point=(zero,))
    table = np.full(256, 2.0**120)
    (found,) = page("softmax", [whole([[[7], [7]]]), real(table)], (1, 2, 1, word(2.0**8)), y)
    assert found.lost.all() and found.low.ravel().tolist() == found.high.ravel().tolist() == [255, 255]
    assert not found.error.any()
    (found,) = page("softmax", [whole([[[7], [7]]]), real(table)], (1, 2, 1, word(2.0**7)), y)
    assert found.lost is None and found.low.ravel().tolist() == [64 + zero] * 2
