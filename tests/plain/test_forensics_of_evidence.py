"""How much the differing elements tell: which they are, how rare their values, and whether chance gives as much."""

from __future__ import annotations

from math import comb, log2
from typing import Any

import numpy as np
import pytest
from qverify.model_bin.units import units
from qverify.triage import evidence
from qverify.triage.case import Case

from tests.plain.fault_units import Table
from tests.plain.forensic_units import Small, generator

Array = Any


def test_bits_that_the_differing_elements_tell() -> None:
    assert evidence.log2_choices(10, 3) == pytest.approx(log2(120)) and evidence.log2_choices(5, 0) == pytest.approx(0)
    unit = Table(4, 10)
    recorded = unit.y.copy()
    recorded[0, :3] += 1
    assert evidence.difference_bits(unit.case(recorded)) == pytest.approx(log2(comb(40, 3)) + 8)  # one step, once
    recorded[0, 2] += 1  # two of three steps are equal
    told = 2 * log2(3 / 2) + log2(3) + 16
    assert evidence.difference_bits(unit.case(recorded)) == pytest.approx(log2(comb(40, 3)) + told)
    recorded[0, 1] += 2
    assert evidence.difference_bits(unit.case(recorded)) == pytest.approx(log2(comb(40, 3)) + 24)  # never more


def test_a_copy_tells_by_how_rare_its_values_are() -> None:
    """Each of 8 elements holds a value that one of 80 computed ones has: 8 * log2(81) bits."""
    unit = Table(8, 10)
    recorded = unit.y.copy()
    recorded[0, :8] = unit.y[1, :8]
    told = 8 * log2(81) - 16
    case = unit.case(recorded)
    assert evidence.copy_is_evidence(case, told - 0.1) and not evidence.copy_is_evidence(case, told + 0.1)
    free = np.zeros(80, bool)
    free[4:] = True  # these are not counted
    largest = np.where(recorded == unit.y, unit.y, unit.y[np.unravel_index(unit.y.view(np.uint8).argmax(), (8, 10))])
    told_by_it = unit.case(largest)
    count = int((largest != unit.y).sum())
    assert evidence.copy_is_evidence(told_by_it, count * log2(81) - 16.1)
    assert not evidence.copy_is_evidence(told_by_it, count * log2(81) - 15.9)
    told = 4 * log2(81) - 16
    assert evidence.copy_is_evidence(case, told - 0.1, free) and not evidence.copy_is_evidence(case, told + 0.1, free)
    other = recorded.copy()
    other[0, :8] = np.setdiff1d(np.arange(-128, 128), unit.y)[:8]  # nowhere among the computed: 8 bits, no more
    assert evidence.copy_is_evidence(unit.case(other), 48 - 0.1) and not evidence.copy_is_evidence(
        unit.case(other), 48.1
    )


def test_garbage_is_unrelated_to_the_computed() -> None:
    unit, rng = Table(40, 50), generator(2)
    free = np.zeros(2000, bool)
    free[:200] = True
    noise_ = np.where(free.reshape(40, 50), rng.integers(-128, 128, (40, 50)), unit.y).astype(np.int8)
    case = unit.case(noise_)
    assert evidence.is_unrelated(case, free) and evidence.garbage_is_evidence(case, 0.0, free)
    told = evidence.difference_bits(case) - 1600 - 16
    assert evidence.garbage_is_evidence(case, told - 0.1, free) and not evidence.garbage_is_evidence(
        case, told + 0.1, free
    )
    near = np.where(free.reshape(40, 50), unit.y.astype(int) // 2 + rng.integers(-9, 9, (40, 50)), unit.y)
    assert not evidence.is_unrelated(unit.case(near.astype(np.int8)), free)
    equal = noise_.copy()
    equal.reshape(-1)[:12] = unit.y.reshape(-1)[:12]
    assert not evidence.is_unrelated(unit.case(equal), free)


def left_over(made: Array, recorded: Array) -> bool:
    """Whether these recorded elements, left over from before, are unrelated to these computed ones."""
    spec = {"x": (made.astype(np.int8),)}
    small = Small("reshape", (), ("int8", 0, 0), made.shape, **spec)
    case = Case(small.graph, units(small.graph)[0], small.inputs, "y", recorded.astype(np.int8))
    return evidence.is_unrelated(case, np.ones(made.size, bool))


def test_as_many_equal_elements_as_chance_allows() -> None:
    """For 64 elements with each of 16 values four times, chance gives 4; allowed are 4 + 4 * sqrt(4) + 1."""
    made = np.repeat(np.arange(16), 4)
    for equal, unrelated in ((13, True), (14, False)):
        recorded, rest = made.copy(), generator(1).permutation(64)[equal:]
        order = rest[np.argsort(made[rest], kind="stable")]
        recorded[order] = made[np.roll(order, 20)]
        assert np.count_nonzero(recorded == made) == equal and abs(np.corrcoef(made, recorded)[0, 1]) < 0.4
        assert left_over(made, recorded) is unrelated


def test_as_many_of_more_elements_as_chance_allows() -> None:
    """For 256 elements with each of 16 values sixteen times, chance gives 16; allowed are 16 + 4 * sqrt(16) + 1."""
    made = np.repeat(np.arange(16), 16)
    for equal, unrelated in ((33, True), (34, False)):
        recorded, rest = made.copy(), generator(1).permutation(256)[equal:]
        order = rest[np.argsort(made[rest], kind="stable")]
        recorded[order] = made[np.roll(order, 75)]
        assert np.count_nonzero(recorded == made) == equal and abs(np.corrcoef(made, recorded)[0, 1]) < 0.25
        assert left_over(made, recorded) is unrelated


def test_as_much_correlation_as_chance_allows() -> None:
    """For 64 elements it is 4 / sqrt(64); no two are equal."""
    made = np.repeat([-1, 1], 32)
    for agreeing_, unrelated in ((16, False), (24, True), (25, False), (8, True), (7, False)):
        recorded = np.repeat([10, 20, 20, 10], [agreeing_, 32 - agreeing_, agreeing_, 32 - agreeing_])
        if agreeing_ == 16:
            recorded = 15 + 5 * made
        assert left_over(made, recorded) is unrelated, agreeing_
