"""When two kernels of one operator are said to compute different things (VERDICTS.md, a .tflite by its own operators, rule 8)."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.compare.kernel_sets import differ_wholly, exceeds_ties

RNG = np.random.default_rng(5)
CODES = RNG.integers(-128, 128, 400).astype(np.int8)
REALS = RNG.normal(0, 3, 400).astype(np.float32)


@pytest.mark.parametrize(
    ("made", "recorded", "wanted"),
    [
        (CODES, CODES, False),
        (CODES, np.clip(CODES.astype(int) + RNG.integers(-8, 9, 400), -128, 127).astype(np.int8), False),
        (CODES, RNG.permutation(CODES), True),
        (CODES, np.zeros_like(CODES), True),
        (np.full(400, 3, np.int8), np.full(400, 5, np.int8), False),  # near each other, though nothing varies
        (REALS, REALS * np.float32(1.001), False),
        (REALS, np.maximum(REALS, 0), True),  # an activation that one of them drops
        (REALS, RNG.permutation(REALS), True),
        (REALS, -REALS, True),
        (REALS[:7], -REALS[:7], False),  # too few to say so
        (REALS, REALS[:200], False),
        (np.where(REALS > 3, np.nan, REALS), -REALS, False),  # judged elsewhere
    ],
)
def test_differ_wholly(made: np.ndarray, recorded: np.ndarray, wanted: bool) -> None:
    assert differ_wholly(made, recorded) is wanted
    assert differ_wholly(recorded, made) is wanted


@pytest.mark.parametrize(
    ("lower", "op", "read", "wanted"),
    [
        (400, "MEAN", 400 * 9, True),
        (90, "MEAN", 400 * 9, True),  # one in nine lies at a tie: 44, and 4 deviations of 6
        (60, "MEAN", 400 * 9, False),
        (230, "ADD", 400, False),
        (260, "ADD", 400, True),
        (15, "MEAN", 400 * 400, False),
    ],
)
def test_one_direction_at_more_elements_than_ties(lower: int, op: str, read: int, wanted: bool) -> None:
    made = np.clip(CODES, -100, 100)
    recorded = made.copy()
    recorded[:lower] -= 1
    assert exceeds_ties(op, made, recorded, read) is wanted
    recorded[lower - 1] += 2
    assert not exceeds_ties(op, made, recorded, read)  # both directions
