"""Faults in a part of an output: every kind of part is found, named, and paid for."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
import pytest
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.output_parts import MAX_PARTS, restrict

from tests.plain.experiment_boards import flipped, random_like, unit
from tests.plain.fault_units import case_of, small_case
from tests.plain.forensic_units import SY, ZY, Conv, Small, generator

Array = Any
LOW = flipped(0)
SHAPE = (3, 7, 9, 11)
N, C, H, W = np.meshgrid(*map(np.arange, SHAPE), indexing="ij")
LAST, PIXEL = np.arange(3 * 7 * 9 * 11)[::-1].reshape(SHAPE), H * 11 + W


def parts_of(case: Case, way: Any, mask: Array) -> dict[str, FaultVariant]:
    """The parts in which the fault gives what a board gives that has it where the mask is set."""
    variant = FaultVariant("it", way, 2.0)
    case.recorded = np.where(mask, way(case), case.healthy)
    case.cache.clear()
    inside = np.zeros(case.recorded.size, bool)
    inside[case.differing] = True
    return {v.text.removeprefix("it, "): v for v in restrict(case, variant, way(case), inside)}


@pytest.mark.parametrize(
    ("words", "mask"),
    [
        ("in the last channel", C == 6),
        ("in the first row", H == 0),
        ("in every batch item but the first", N > 0),
        ("in every column but the last", W < 10),
        ("in the last 3 columns (beyond whole groups of 8)", W >= 8),
        ("in the last pixel", PIXEL == 98),
        ("in the last 3 channels (beyond whole groups of 4)", C >= 4),
        ("in whole groups of 4 columns", W < 8),
        ("in whole groups of 4 channels", C < 4),
        ("in every second row, from row 0 on", H % 2 == 0),
        ("in every third channel, from channel 1 on", C % 3 == 1),
        ("in every 8th column, from column 5 on", W % 8 == 5),
        ("in all channels but every 4th, from channel 2 on", C % 4 != 2),
        ("in the upper half of every 4 columns", W % 4 >= 2),
        ("from row 5 on", H >= 5),
        ("in channels 0 to 4", C < 5),
        ("in column 6", W == 6),
        ("in batch item 1", N == 1),
        ("in the last 3 pixels (beyond whole groups of 4)", PIXEL >= 96),
        ("in the last 35 pixels (beyond whole groups of 64)", PIXEL >= 64),
        ("in the last element", LAST == 0),
        ("in the last 31 elements (beyond whole groups of 64)", LAST < 31),
        ("in the last channel and in the first row", (C == 6) & (H == 0)),
        ("in the last row or in the first column", (H == 8) | (W == 0)),
    ],
)
def test_a_part_along_the_axes_is_named(words: str, mask: Array):
    case = unit(LOW, SHAPE)
    found = parts_of(case, LOW, mask)
    assert words in found and len(found) <= MAX_PARTS, list(found)
    assert all(np.array_equal(v.make(case), case.recorded) for v in found.values())
    noise = case.on_noise(1)
    assert np.array_equal(found[words].make(noise), np.where(mask, LOW(noise), noise.healthy))  # for other inputs, too


@pytest.mark.parametrize(
    ("shape", "words", "at"),
    [
        ((2, 9, 12), "in the last channel", np.s_[:, 8:]),
        ((2, 9, 12), "in every column but the first", np.s_[:, :, 1:]),
        ((2, 9), "in the last channel", np.s_[:, 8:]),
        ((30,), "in the last 2 axis-0 slices (beyond whole groups of 4)", np.s_[28:]),
    ],
)
def test_parts_of_other_ranks(shape: tuple[int, ...], words: str, at: Any):
    mask = np.zeros(shape, bool)
    mask[at] = True
    assert words in parts_of(unit(LOW, shape), LOW, mask)


def window_of(c: Conv) -> dict[str, Array]:
    """Kernel 3, pads 1: which outputs read the padding."""
    _, h, w = np.meshgrid(np.arange(10), np.arange(9), np.arange(11), indexing="ij")
    sides = {"top": h == 0, "bottom": h == 8, "left": w == 0, "right": w == 10}
    every = sides["top"] | sides["bottom"] | sides["left"] | sides["right"]
    reach = "where the window reaches into the padding"
    return {
        **{f"{reach} at the {side}": mask for side, mask in sides.items()},
        reach: every,
        "where the window lies inside the input": ~every,
        "where the accumulator is negative": c.acc() < 0,
        "where the accumulator is positive": c.acc() > 0,
        "where the output lies below its zero point": c.out()[0] < ZY,
        "where the output lies above its zero point": c.out()[0] > ZY,
    }


@pytest.mark.parametrize("words", window_of(Conv()))
def test_a_part_of_a_convolution_is_named(words: str):
    c = Conv()
    found = parts_of(case_of(c), LOW, window_of(c)[words][None])
    assert words in found, list(found)


@pytest.mark.parametrize("sign", ["negative", "positive"])
def test_a_part_told_by_the_value_before_rounding(sign: str):
    x = generator(60).normal(0, 1, (1, 3, 5, 7)).astype(np.float32)
    small = Small("quantize", (), ("uint8", 0.02, 128), x.shape, x=(x,))
    case = small_case(small, np.zeros(x.shape, np.uint8))
    found = parts_of(case, LOW, x < 0 if sign == "negative" else x > 0)
    assert f"where the value before rounding is {sign}" in found
    other = case.on_inputs({"x": -x})  # it follows the inputs
    assert not np.array_equal(found[f"where the value before rounding is {sign}"].make(other), case.recorded)


def test_a_part_that_no_words_name_is_none():
    mask = random_like(np.zeros(SHAPE, np.uint8), generator(61)) < 80
    assert not parts_of(unit(LOW, SHAPE), LOW, mask)


@pytest.mark.parametrize("single", [True, False])
def test_a_large_output_is_looked_at_in_every_element(single: bool):
    """Few elements tell which parts may fit; one of many that is not wrong still tells that none does."""
    shape = (1, 40, 30, 31)
    _, c, h, _ = np.meshgrid(*map(np.arange, shape), indexing="ij")
    mask = c >= 33 if single else (c >= 33) & (h < 11)
    words = "from channel 33 on" if single else "from channel 33 on and in rows 0 to 10"
    assert words in parts_of(unit(LOW, shape), LOW, mask)
    for at in ((0, 35, 3, 17), (0, 39, 10, 30)):
        spared = mask.copy()
        spared[at] = False
        case = unit(LOW, shape)
        assert all(np.array_equal(v.make(case), case.recorded) for v in parts_of(case, LOW, spared).values())


def test_a_part_is_paid_for():
    """All parts together are one choice, and that of the fault in its family comes on top."""
    found = parts_of(unit(LOW, SHAPE), LOW, C == 6)
    assert all(v.bits == 2.0 for v in found.values())
    assert found["in the last channel"].part_bits > 3 + log2(10)  # of some hundred parts
    pair = parts_of(unit(LOW, SHAPE), LOW, (C == 6) & (H == 0))["in the last channel and in the first row"]
    assert pair.part_bits == pytest.approx(2 * found["in the last channel"].part_bits)


def test_a_fault_in_a_part_is_told_by_all_pages():
    c = Conv()
    whole = c.out(c.acc(bias=np.zeros(10, np.int32)))
    for at, words in ((np.s_[:, 8:], "in the last 2 channels"), (np.s_[..., ::2], "in every second column")):
        recorded = c.out()
        recorded[at] = whole[at]
        found = c.explained(recorded)
        first = next(f for group in found.exact for f in group if words in f.said)
        assert first.family == "bias" and first.bits > 6
        assert found.exact[0][0].said.startswith("bias left out, ")


def test_one_element_alone_is_no_fault_in_a_part():
    """Some fault of hundreds gives one element in any place, and some two of hundreds of parts hold it alone."""
    inputs = [random_like(np.zeros((1, 3, 7, 7), np.uint8), generator(seed)) for seed in (62, 63, 64)]
    small = Small(
        "concat", (1,), ("uint8", SY, 3), (1, 9, 7, 7), **dict(zip("abc", [(v, SY, 3) for v in inputs], strict=True))
    )
    for place in (3, 77, 147, 300):
        recorded = np.concatenate(inputs, 1)
        recorded.reshape(-1)[place] ^= 32
        found = small.explained(recorded)
        assert found.exact[0][0].family == "bit-flip" and len(found.exact[0]) == 1, found.exact
