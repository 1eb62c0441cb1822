"""Forensics of a few bits, of a narrower range, and of products that saturate in pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.plain.forensic_units import ZY, Conv, Small, families, generator

Array = Any


def _flipped(y: Array, *bits: tuple[int, int]) -> Array:
    for at, bit in bits:
        y.view(np.uint8).reshape(-1)[at] ^= 1 << bit
    return y


@pytest.mark.parametrize("bits", [((3, 6), (801, 7)), ((3, 6), (77, 0), (77, 5), (400, 2), (801, 7))])
def test_a_few_bits_are_inverted(bits: tuple[tuple[int, int], ...]):
    c = Conv()
    found = c.explained(_flipped(c.out(), *bits))
    assert families(found) == [{"bit-flip"}] and found.exact[0][0].said.startswith(f"{len(bits)} bits")


def test_steps_of_one_and_another_value_for_a_value_are_no_flipped_bits():
    c = Conv()
    y = c.out()
    stepped = _flipped(y.copy(), *((int(i), 0) for i in np.flatnonzero(y.reshape(-1) % 2 == 0)[:4]))
    values, counts = np.unique(y, return_counts=True)
    mapped = np.where(y == values[np.flatnonzero((counts > 1) & (counts < 9))[0]], y ^ 16, y)
    for recorded in (stepped, mapped):
        assert 1 < (recorded != y).sum() < 9 and "bit-flip" not in str(families(c.explained(recorded)))


@pytest.mark.parametrize("seed", range(5))
def test_small_steps_of_every_element_are_no_flipped_bits(seed: int):
    """The steps of few values have few bits."""
    rng = generator(seed)
    x = rng.integers(40, 128, (1, 8)).astype(np.uint8)
    small = Small("transpose", (0, 1), ("uint8", 1.0, 0), x.shape, x=(x, 1.0, 0))
    recorded = x ^ rng.choice(np.array([1, 2, 3, 4, 5, 6, 8, 9, 12], np.uint8), x.shape)
    found = small.explained(recorded)
    assert found.unexplained and not found.general, found.exact


def test_too_few_elements_tell_nothing():
    """One of two elements: every value of it is some fault's."""
    x = np.array([[93, 29]], np.uint8)
    small = Small("transpose", (0, 1), ("uint8", 1.0, 122), x.shape, x=(x, 1.0, 122))
    for value in (28, 77, 92, 151, 221):
        found = small.explained(np.array([[93, value]], np.uint8))
        assert found.unexplained and not found.general, found.exact


def test_a_range_narrower_at_both_ends():
    c = Conv(low=-60, high=90)
    found = c.explained(c.out(low=ZY - 30, high=ZY + 30))
    assert families(found) == [{"clamp"}] and "30 to each side of the zero point" in found.exact[0][0].said
    found = c.explained(c.out(low=-50, high=33))
    assert families(found) == [{"clamp"}] and "-50..33" in found.exact[0][0].said


@pytest.mark.parametrize("still", (0, 50))
def test_pairs_of_products_saturate(still: int):
    """still: what of the input's zero point is in the products, and taken out at the end."""
    rng = generator(26)
    x, w = rng.integers(0, 256, (1, 6, 5, 7)).astype(np.uint8), rng.integers(100, 128, (4, 6, 1, 1)).astype(np.int8)
    w[:, ::3] *= -1
    rq = np.full(4, 0.0005, np.float32)
    words = (1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, -128, 127)
    constants = {"c_w": (w, 1.0, 0), "c_b": (np.zeros(4, np.int32),), "c_rq": (rq,)}
    small = Small("conv", words, ("int8", 1.0, 3), (1, 4, 5, 7), x=(x, 1.0, 50), **constants)
    products = (x[0].astype(np.int64) - 50 + still)[None] * w.astype(np.int64)
    pairs = np.clip(products[:, ::2] + products[:, 1::2], -32768, 32767).sum(1) - still * w.astype(np.int64).sum(1)
    recorded = np.clip(np.rint(pairs.astype(np.float32) * rq[0]) + 3, -128, 127).astype(np.int8)[None]
    found = small.explained(recorded)
    same = {"accumulator"} if still else {"accumulator", "partial-sums"}
    assert found.description.differing > 5 and families(found)[0] == same, found.exact
    assert all(("zero point still in" in cause.said) == bool(still) for cause in found.exact[0])
