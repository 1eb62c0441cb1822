"""Means that are divided before they are scaled: their parameters are solved, and read back as they are written."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.arithmetic.forms import Form, MeanFirst
from qverify.compare.identify.fit import solve
from qverify.compare.identify.solve_means import Means


def means(form: str, seed: int) -> Means:
    """Returns random means of several sizes as this form computes them."""
    rng = np.random.default_rng(seed)
    count = np.repeat(rng.integers(3, 150, 6), 200)
    acc, ratio = (
        rng.integers(-100, 100, count.size) * count // 2 + rng.integers(-60, 60, count.size),
        0.3 + rng.random(),
    )
    empty = Means(acc, {"": ratio / count}, np.zeros(0, np.int64), 3, (-128, 127), count, ratio, -7)
    return Means(acc, {"": ratio / count}, empty.compute(Form.parse(form)), 3, (-128, 127), count, ratio, -7)


@pytest.mark.parametrize(
    "form",
    [
        "half even, sum divided by their number first to 4 fraction bits (floor)",
        "tflite-single, stored integers divided by their number first to 0 fraction bits (half away from zero)",
        "half up, multiplier of 23 bits, sum multiplied by a reciprocal of 12 bits first to 0 fraction bits (half up)",
        "half even, multiplier of 31 bits, product shifted by 31 first (floor), "
        "sum multiplied by a reciprocal of 16 bits first to 4 fraction bits (floor)",
    ],
)
def test_parameters_of_means_are_found(form: str) -> None:
    assert str(Form.parse(form)) == form
    shown = [means(form, seed) for seed in range(3)]
    found = solve([one.fewest() for one in shown])
    assert found, "none"
    assert all(one.is_given_by(f) for one in shown for f in found)
    assert Form.parse(form).method in {f.method for f in found}
    assert Form.parse(form) in found or len(found) > 1  # a form that nothing here tells from it


def test_by_hand() -> None:
    """(10 + 9 + 12) / 4 = 7.75, to one fraction bit 7.5 (floor); times 0.5 is 3.75, rounded to 4, plus the zero point."""
    ones = np.array([31]), {"": np.array([0.125])}, np.array([5]), 1, (-128, 127), np.array([4]), 0.5, 2
    first = MeanFirst(1, "floor")
    assert str(first) == "sum divided by their number first to 1 fraction bit (floor)"
    assert MeanFirst.parse(str(first)) == first and MeanFirst.parse("sum divided") is None
    assert Means(*ones).divide(first).tolist() == [15]
    assert Means(*ones).compute(Form("half up", method=str(first))).tolist() == [5]
    stored = MeanFirst(0, "half up", stored=True)  # (31 + 8) / 4 = 9.75, rounded to 10, less 2
    assert Means(*ones).divide(stored).tolist() == [8]


@pytest.mark.parametrize(
    "text",
    [
        "sum divided by their number first to 99 fraction bits (floor)",
        "sum divided by their number first to 1 fraction bit (up)",
    ],
)
def test_texts_of_no_mean_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no form"):
        Form.parse(f"half up, {text}")
