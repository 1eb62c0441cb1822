"""The error of our own sums of floats, and of quotients by them, is that of NUMERICS.md section 4, worked out here by hand. The bound
of a running sum holds in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.compare.error_bounds.bounded_values import Real
from qverify.model_bin.float_functions import REDUCTIONS, VARIADIC

from tests.plain.error_pages import FLUSHED, U, g, page, real, word

D = 2.0**-52
X = np.array([4096.0, -4095.5, 2.0, -2.25])
F = np.float32
POOL = (1, 4, 1, 4, 0, 0, 0, 0, 1, 1, 0)
Page = tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # op, words, shape of x, shape of y
SUMS: dict[str, tuple[Page, float, float, int]] = {  # with the value, the size of the terms, and their number
    "sum": (("reduce_float", (REDUCTIONS.index("sum"), 1), (4,), ()), 0.25, 8195.75, 4),
    "l1": (("reduce_float", (REDUCTIONS.index("l1"), 1), (4,), ()), 8195.75, 8195.75, 4),
    "sum_square": (("reduce_float", (REDUCTIONS.index("sum_square"), 1), (4,), ()), (X**2).sum(), (X**2).sum(), 5),
    "mean": (("reduce_mean", (1, 0, 0), (4,), ()), 0.0625, 8195.75 / 4, 4),
    "average_pool": (("average_pool_float", POOL, (1, 1, 1, 4), (1, 1, 1, 1)), 0.0625, 8195.75 / 4, 4),
}


def run(of: Page, error: float = 0.0) -> Real:
    op, words, shape, made = of
    (y,) = page(op, [real(X.reshape(shape), error)], words, made)
    assert isinstance(y, Real)
    return y


def each(values: Any) -> float:
    (value,) = np.asarray(values).reshape(-1).tolist()
    return float(value)


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_in_float64_is_rounded_once(name: str) -> None:
    of, value, size, count = SUMS[name]
    y = run(of)
    assert each(y.value) == value and y.ours is not None
    assert each(y.ours) == pytest.approx(U * value + D * count * size + FLUSHED, rel=1e-12, abs=0)
    assert each(y.error) >= g(count) * size
    assert run(of, 2.0**-30).ours is None  # of inexact floats there is none


@pytest.mark.parametrize(("name", "value"), [("sum", 0.25), ("mean", 0.0625)])
def test_several_tensors_are_a_sum_of_them(name: str, value: float) -> None:
    words = (VARIADIC.index(name),)
    (y,) = page("variadic_float", [real([v]) for v in X], words, (1,))
    share = 1 if name == "sum" else 4
    assert y.ours.item() == pytest.approx(U * value + D * 4 * 8195.75 / share + FLUSHED, rel=1e-12, abs=0)
    assert page("variadic_float", [real([v], 2.0**-30) for v in X], words, (1,))[0].ours is None


def test_the_root_and_the_logarithm_of_a_sum_carry_its_error() -> None:
    for name, of in (("l2", np.sqrt), ("log_sum", np.log)):
        (y,) = page("reduce_float", [real([100.0, 300.0])], (REDUCTIONS.index(name), 1), ())
        total = 1e5 if name == "l2" else 400.0
        own = U * total + D * (3 if name == "l2" else 2) * total + FLUSHED
        value = of(total)
        moved = max(of(total + own) - value, value - of(total - own))
        rounding = 2 * U * of(total + own) + FLUSHED if name == "l2" else U * (3 + 3 * value + 10 * moved)
        assert float(y.ours) == pytest.approx(moved + rounding, rel=1e-9, abs=0) and y.ours < y.error
        (inexact,) = page("reduce_float", [real([100.0, 300.0], 0.5)], (REDUCTIONS.index(name), 1), ())
        assert inexact.ours is None


QUOTIENTS: dict[str, tuple[str, tuple[int, ...]]] = {
    "lp_norm 1": ("lp_norm", (1, 4, 1, 1)),
    "lp_norm 2": ("lp_norm", (1, 4, 1, 2)),
    "rms_norm": ("rms_norm", (4, word(1e-3))),
    "softmax": ("softmax_float", (1, 4, 1)),
}


@pytest.mark.parametrize("name", QUOTIENTS)
def test_a_quotient_by_a_sum_of_one_sign_has_a_relative_error(name: str) -> None:
    op, words = QUOTIENTS[name]
    x, more = np.array([[3.0, -1.0, 0.5, 2.0]]), [None] if op == "rms_norm" else []
    (y,) = page(op, [real(x), *more], words, (1, 4))
    assert y.ours == pytest.approx((U + D * (4 + 64)) * np.abs(y.value) + FLUSHED, rel=1e-12, abs=0)
    assert (y.ours < y.error).all()
    assert page(op, [real(x, 2.0**-30), *more], words, (1, 4))[0].ours is None
    if op == "rms_norm":
        assert page(op, [real(x), real(np.ones(4), 2.0**-30)], words, (1, 4))[0].ours is None


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_running_sums(exclusive: int, reverse: int) -> None:
    x, d = np.stack([X, 2 * X, 0.1 * np.abs(X)], 1)[None], np.full((1, 4, 3), 0.125)
    places = [[j for j in range(4) if (j >= i if reverse else j <= i) and not (exclusive and i == j)] for i in range(4)]
    for error in (np.zeros_like(d), d):
        (y,) = page("cum_sum", [real(x, error)], (1, exclusive, reverse), x.shape)
        for i, taken in enumerate(places):
            value, moved = x[0, taken].sum(0), error[0, taken].sum(0)
            size = np.abs(x[0, taken]).sum(0)
            assert y.value[0, i] == pytest.approx(value, rel=1e-12, abs=1e-9)
            assert y.error[0, i] == pytest.approx(moved + g(5) * (size + moved) + FLUSHED, rel=1e-12, abs=0)
            if not error.any():
                own = U * np.abs(value) + D * 4 * size + FLUSHED
                assert y.ours[0, i] == pytest.approx(own, rel=1e-6, abs=0)
        assert (y.ours is None) is bool(error.any())


def test_running_sums_in_float32() -> None:
    x = np.random.default_rng(4).normal(0, 1, (3, 500)).astype(F)
    (y,) = page("cum_sum", [real(x)], (1, 0, 0), x.shape)
    made = np.add.accumulate(x, 1, dtype=F).astype(np.float64)
    assert (np.abs(made - y.value) <= y.error).all() and (np.abs(made - y.value) > y.ours).any()
    own = np.add.accumulate(x.astype(np.float64), 1).astype(F).astype(np.float64)
    assert (np.abs(own - y.value) <= y.ours).all()


def test_a_running_sum_that_may_overflow_is_lost_from_there_on() -> None:
    (y,) = page("cum_sum", [real([1.0, 1e38, 1e38, -1e38])], (0, 0, 0), (4,))
    assert y.lost.tolist() == [False, False, True, True]
