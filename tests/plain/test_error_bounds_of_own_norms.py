"""The error of our own normalizations is that of NUMERICS.md section 4, worked out here number by number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.compare.error_bounds.bounded_values import NoBound, Real
from qverify.compare.error_bounds.own_norms import add_own_error

from tests.plain.error_pages import FLUSHED, U, page, real, whole, word

ROWS = np.array([[1.0, -2.0, 4.0], [0.5, 0.0, -8.0]])
Z = np.array([[0.25, -1.5, 3.0], [0.0, 0.75, -2.0]])
V, SCALE = np.array([[1e-9, -3.0, 0.0], [0.0, 2e-9, 5.0]]), np.array([2.0, 0.5, 3.0])


def own(error: float = 1.0, least: Any = ((2.0**-20,), (2.0**-10,)), inputs: Any = None, root: float = 0.0) -> Real:
    y, given = Real(V, np.full(V.shape, error)), [real(ROWS), None, None] if inputs is None else inputs
    with np.errstate(all="ignore"):
        return add_own_error(y, given, ROWS, Z, np.full((2, 1), root), np.array(least), SCALE)


def test_the_error_of_two_float64_passes_and_one_rounding() -> None:
    y = own()
    assert y.ours is not None and y.error.tolist() == np.ones(V.shape).tolist()
    for r, least in ((0, 2.0**-20), (1, 2.0**-10)):
        mean = sum(map(abs, ROWS[r])) / 3
        for i in range(3):
            x, z, v = abs(ROWS[r, i]), abs(Z[r, i]), abs(V[r, i])
            inside = (3 + 8) * ((x + mean) * (1 + z) / least + z) + z
            wanted = U * v + FLUSHED + 2.0**-52 * inside * SCALE[i] + 2.0**-51 * v
            assert y.ours[r, i] == pytest.approx(wanted, rel=1e-12, abs=0)


def test_a_row_of_zeros_has_the_least_error_there_is() -> None:
    zeros = np.zeros((1, 3))
    y = add_own_error(
        Real(zeros, zeros + 1), [real(zeros), None, None], zeros, zeros, zeros[:, :1], np.full((1, 1), 2.0**-10), SCALE
    )
    assert y.ours is not None and y.ours.tolist() == [[FLUSHED] * 3]


def test_it_is_no_larger_than_that_of_every_side() -> None:
    assert own(2.0**-60).ours is not None and (own(2.0**-60).ours == 2.0**-60).all()


@pytest.mark.parametrize("least", [0.0, -1.0, np.nan])
def test_where_the_deviation_may_be_zero_it_is_that_of_every_side(least: float) -> None:
    y = own(7.0, ((2.0**-20,), (least,)))
    assert y.ours is not None and (y.ours[0] < 1e-6).all() and (y.ours[1] == 7.0).all()


def test_where_float32_may_cancel_it_follows_from_half_of_the_deviation() -> None:
    assert own(np.inf, ((0.0,), (0.0,)), root=2.0**-10).ours is not None
    there = own(np.inf, ((0.0,), (0.0,)), root=2.0**-10).ours
    half = own(np.inf, ((2.0**-11,), (2.0**-11,))).ours
    assert there is not None and half is not None and (there == half).all()
    beyond = own(np.inf, ((0.0,), (0.0,)), root=2.0**-40).ours  # it may cancel in float64, too
    assert beyond is not None and np.isinf(beyond).all()


def test_of_inexact_floats_there_is_none() -> None:
    for at in range(3):
        inputs: list[Any] = [real(ROWS), real(SCALE), real(SCALE)]
        assert own(inputs=inputs).ours is not None
        inputs[at] = replace(inputs[at], error=inputs[at].error + 0.5)
        assert own(inputs=inputs).ours is None
    with pytest.raises(NoBound):
        own(inputs=[real(ROWS), whole([1])])


@pytest.mark.parametrize("op", ["layer_norm", "group_norm"])
def test_both_normalizations_have_it(op: str) -> None:
    """It does not depend on the summand, and grows with the factor; that of every side is much larger."""
    shape = (1, 8) if op == "layer_norm" else (1, 2, 4)
    x = np.array([3.0, -1.0, 2.0, 0.5, -7.0, 1.0, 4.0, 9.0]).reshape(shape)
    words, size = ((8, word(1e-3)), 8) if op == "layer_norm" else ((1, word(1e-3)), 2)
    one, none = np.ones(size), np.zeros(size)
    made = [page(op, [real(x), real(f), real(none)], words, shape)[0] for f in (one, 2 * one)]
    (plain,) = page(op, [real(x), None, None], words, shape)
    assert (made[0].ours < made[0].error / 4).all()
    assert plain.ours == pytest.approx(made[0].ours, rel=1e-12, abs=0)
    assert made[1].ours == pytest.approx(2 * made[0].ours, rel=1e-12, abs=FLUSHED)
    factor = np.arange(1.0, size + 1)
    (each,) = page(op, [real(x), real(factor), None], words, shape)
    along = factor if op == "layer_norm" else factor[:, None]
    assert each.ours == pytest.approx(plain.ours * along, rel=1e-12, abs=8 * FLUSHED)
