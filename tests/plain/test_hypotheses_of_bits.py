"""Faults of single bits, of floats that are scrubbed and of the places a table is read at; as plain numpy makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import comb, log2
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.multipliers import parameters
from qverify.arithmetic.requantize import requantize
from qverify.model_bin.units import units
from qverify.triage.case import Case

from tests.plain.fault_units import (
    ALL,
    BOTH,
    INF,
    NAN,
    PAGES,
    SCRUBBED,
    TINY,
    Dense,
    Table,
    Way,
    case_of,
    check,
    each,
    found,
    small_case,
)
from tests.plain.forensic_units import SX, SY, ZY, Conv, Small, generator

Array = Any


def test_a_bit_of_one_element() -> None:
    unit = Table(1, 4, 3, 5)
    recorded = unit.y.copy()
    recorded[0, 2, 1, 3] ^= 4
    wanted: dict[str, Array] = {}
    bits: dict[str, float] = {}
    for place in ALL:
        for bit in [2] if place == "the output" else range(8):
            name = f"bit {bit} of every element" + ("" if place == "the output" else f" of {place}")
            mask = np.array([1 << bit], np.uint8).view(np.int8)[0]
            wanted[f"{name} is always 0"] = unit.under(place, lambda v, mask=mask: v & ~mask)
            wanted[f"{name} is always 1"] = unit.under(place, lambda v, mask=mask: v | mask)
            wanted[f"{name} is inverted"] = unit.under(place, lambda v, mask=mask: v ^ mask)
    said = "bit 2 of the element at (0, 2, 1, 3) is inverted"
    wanted[said], bits[said] = recorded, log2(60 * 8)
    entry = int(unit.x[0, 2, 1, 3]) + 128
    for bit in range(8):
        table = unit.table.copy()
        table[entry] = (table[entry : entry + 1].view(np.uint8) ^ np.uint8(1 << bit)).view(np.int8)[0]
        said = f"bit {bit} of table entry {entry} is inverted"
        wanted[said], bits[said] = unit.read(unit.x, table), log2(256 * 8)
    check("bit-flip", unit.case(recorded), wanted, bits)


def flips(unit: Table, recorded: Array) -> list[str]:
    every = found("bit-flip", unit.case(recorded))
    return [said for said in every if "every element" not in said and "table" not in said]


def test_bits_of_several_elements() -> None:
    """At most sixteen, of at least two elements; one element's only where there are eight."""
    unit = Table(20, 50)
    recorded = unit.y.copy()
    recorded.reshape(-1)[[3, 400, 900]] ^= np.array([64, 32, 64], np.int8)
    assert flips(unit, recorded) == ["3 bits are inverted, of 3 elements"]
    (variant,) = (v for s, v in found("bit-flip", unit.case(recorded)).items() if s.startswith("3 bits"))
    assert np.array_equal(variant.make(unit.case(recorded)), recorded)
    assert variant.bits == pytest.approx(log2(comb(8000, 3)))
    many = unit.y.copy()
    many.reshape(-1)[np.arange(16) * 60] ^= np.resize(np.array([-128, 64, 32, 16, 8], np.int8), 16)
    assert flips(unit, many) == ["16 bits are inverted, of 16 elements"]
    many.reshape(-1)[16 * 60] ^= 64
    assert flips(unit, many) == []
    same = unit.y.copy()
    same.reshape(-1)[np.arange(16) * 60] ^= 64
    assert flips(unit, same) == []  # steps of 64 alone are no evidence of sixteen upsets
    for count, said in ((7, []), (8, ["bit 6 of the element at (0, 1) is inverted"])):
        few = Table(1, count)
        one = few.y.copy()
        one[0, 1] ^= 64
        assert flips(few, one) == said


def test_what_is_scrubbed_from_floats() -> None:
    x = np.array([NAN, INF, -INF, -0.0, TINY, -TINY, 1.5], np.float32)
    unit = Small("reshape", (), ("float32", 0, 0), (7, 1), x=(x,))
    case = Case(unit.graph, units(unit.graph)[0], unit.inputs, "y", x.reshape(7, 1))
    wanted = {
        f"NaN scrub: in {p} {s}": np.array(v, np.float32).reshape(7, 1) for p in BOTH for s, v in SCRUBBED.items()
    }
    check("nan-scrub", case, wanted)


def test_the_smallest_number_that_is_not_subnormal_is_kept() -> None:
    smallest = np.finfo(np.float32).tiny
    scrubbed = PAGES["nan-scrub"].WAYS["subnormal numbers become zero"]  # type: ignore[attr-defined]
    assert scrubbed(np.array([smallest, -smallest, smallest / 2])).tolist() == [smallest, -smallest, 0]


def read_at(index: Callable[[int], int]) -> Way:
    return lambda table: np.array([table[index(i)] for i in range(256)])


def test_lookup_index() -> None:
    unit = Table(1, 3, 10, 10)
    ways: dict[str, Way] = {
        "one too high": read_at(lambda i: min(i + 1, 255)),
        "one too high, wrapping": read_at(lambda i: (i + 1) % 256),
        "one too low": read_at(lambda i: max(i - 1, 0)),
        "one too low, wrapping": read_at(lambda i: (i - 1) % 256),
        "without the offset of the type's sign": read_at(lambda i: (i + 128) % 256),
        "backward": read_at(lambda i: 255 - i),
        "without its highest bit": read_at(lambda i: i & 127),
        "without its lowest bit": read_at(lambda i: i & 254),
        "with its lowest bit set": read_at(lambda i: i | 1),
        "saturated to the lower half": read_at(lambda i: min(i, 127)),
        "saturated to the upper half": read_at(lambda i: max(i, 128)),
        "by its absolute value": read_at(lambda i: min(128 + abs(i - 128), 255)),
    }
    ways["negative indices taken as 0"] = ways["saturated to the upper half"]
    check("lookup-index", unit.case(unit.y), each(unit, ["the table"], ways, "table index {way}"))


def test_what_is_scrubbed_from_every_input() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40, -1e-40, 1.5], np.float32)
    small = Small("concat", (0,), ("float32", 0, 0), (14,), a=(x,), b=(x,))
    case = small_case(small, np.concatenate([x, x]))
    wanted = {}
    for said, values in SCRUBBED.items():
        new = np.array(values, np.float32)
        wanted[f"NaN scrub: in the output {said}"] = np.concatenate([new, new])
        wanted[f"NaN scrub: in the input a {said}"] = np.concatenate([new, x])
        wanted[f"NaN scrub: in the input b {said}"] = np.concatenate([x, new])
        wanted[f"NaN scrub: in every input {said}"] = np.concatenate([new, new])
    check("nan-scrub", case, wanted)


@pytest.mark.parametrize("mode", ["gemmlowp", "mul31"])
def test_a_bit_of_a_multiplier_or_its_shift(mode: str) -> None:
    c = Conv()
    rq = parameters(mode, SX * c.sw.astype(np.float64) / SY, False)
    graph = replace(c.graph(), rounding=mode)
    graph.constants["rq"] = rq
    recorded = requantize(c.acc()[None], rq, ZY, -128, 127, "int8", mode, False, 1)
    recorded[0, 4, 2, 2:5] ^= 1
    case = Case(graph, units(graph)[0], {"x": c.x}, "y", recorded)
    every = [v for v in PAGES["bit-flip"].variants(case) if "scales of channel 4" in v.text]
    assert len(every) == 64 and all(v.bits == pytest.approx(log2(20 * 32)) for v in every)
    for row in (0, 1):
        for bit in (0, 1):
            changed = rq.copy()
            changed[row, 4] ^= 1 << bit
            value = requantize(c.acc()[None], changed, ZY, -128, 127, "int8", mode, False, 1)
            assert np.array_equal(every[32 * row + bit].make(case), value), (row, bit)


def test_a_bit_of_a_weight_or_a_bias() -> None:
    c = Conv()
    w = c.w.copy()
    w[7, 2, 1, 0] ^= 32
    case = case_of(c, c.out(c.acc(w=w)))
    every = {s: v for s, v in found("bit-flip", case).items() if "every element" not in s}
    biases, scales = ([f"bit {b} of {n} of channel 7 is inverted" for b in range(32)] for n in ("bias", "scales"))
    weight = "bit 5 of weight (7, 2, 1, 0) is inverted"
    assert every.keys() == {weight, *biases, *scales}
    assert np.array_equal(every[weight].make(case), case.recorded)
    assert every[weight].bits == pytest.approx(log2(540 * 8))
    for bit, said in enumerate(biases):
        changed = c.b.copy()
        changed[7] = (changed[7:8].view(np.uint32) ^ np.uint32(1 << bit)).view(np.int32)[0]
        if bit < 24:  # beyond, sums wrap
            assert np.array_equal(every[said].make(case), c.out(c.acc(bias=changed))), said
        assert every[said].bits == pytest.approx(log2(10 * 32))
    for bit in (0, 12, 22, 23):
        changed = c.rq.copy()
        changed[7] = (changed[7:8].view(np.uint32) ^ np.uint32(1 << bit)).view(np.float32)[0]
        assert np.array_equal(every[scales[bit]].make(case), c.out(rq=changed))
        assert every[scales[bit]].bits == pytest.approx(log2(10 * 32))
    recorded = case.recorded.copy()
    recorded[0, 3, 0, 0] ^= 1
    assert not [s for s in found("bit-flip", case_of(c, recorded)) if "channel" in s or "weight (" in s]  # two channels


@pytest.mark.parametrize(("at", "bit"), [((0, 0), 7), ((1, 4), 6), ((2, 2), 7)])
def test_a_bit_of_a_dense_weight(at: tuple[int, int], bit: int) -> None:
    d = Dense()
    w = d.w.copy()
    w[at] = np.uint8(int(w[at]) % 256 ^ 1 << bit).view(np.int8)
    case = small_case(d.small, d.out(w))
    assert f"bit {bit} of weight {at} is inverted" in found("bit-flip", case)


@pytest.mark.parametrize(("places", "named"), [([3], False), ([3, 60], True)])
def test_bits_of_wide_elements(places: list[int], named: bool) -> None:
    """Two bits each, others in each element; of one element alone they are no several elements' bits."""
    x = generator(2).integers(0, 5, 100).astype(np.int32)
    recorded = x.copy()
    recorded[places] ^= np.array([1 << 25 | 1 << 3, 1 << 17 | 1 << 4], np.int32)[: len(places)]
    case = small_case(Small("reshape", (), ("int32", 0, 0), (100,), x=(x,)), recorded)
    said = [s for s in found("bit-flip", case) if "bits are inverted" in s]
    assert said == [f"{2 * len(places)} bits are inverted, of {len(places)} elements"] * named


def of_repeated(count: int, *flipped: tuple[int, int]) -> list[str]:
    """Faults of several bits of that many elements, whose values stand there twice; flipped: an element and its mask."""
    x = (np.arange(count) % 32).astype(np.uint8)
    recorded = x.copy()
    for at, mask in flipped:
        recorded[at] ^= mask
    case = small_case(Small("reshape", (), ("uint8", 0.5, 3), (count,), x=(x, 0.5, 3)), recorded)
    return [s for s in found("bit-flip", case) if "bits are inverted" in s]


def test_of_how_many_elements_several_must_be_for_flips() -> None:
    """Two of 64: log2 C(512, 2) = 17.0 bits as flips, 25.0 as steps up to 64. Two of 63 are more than one of 32: flips
    must explain 8 bits more."""
    two, said = ((3, 64), (40, 32)), "2 bits are inverted, of 2 elements"
    assert of_repeated(64, *two) == [said] and of_repeated(63, *two) == []
    assert of_repeated(64, (3, 4), (40, 4)) == []  # 16.98 bits as steps up to 4
    five = "5 bits are inverted, of 4 elements"  # 43.1 bits
    assert of_repeated(128, (3, 17), (40, 16), (70, 8), (100, 4)) == [five]  # 43.7 as steps up to 17
    assert of_repeated(128, (3, 9), (34, 8), (70, 4), (100, 2)) == []  # 40.0


def test_bits_of_several_floats() -> None:
    x = np.repeat(generator(3).normal(size=50), 2).astype(np.float32)
    recorded = x.copy()
    recorded.view(np.uint32)[[4, 71]] ^= 1 << 27
    case = small_case(Small("reshape", (), ("float32", 0, 0), (100,), x=(x,)), recorded)
    variant = found("bit-flip", case)["2 bits are inverted, of 2 elements"]
    assert np.array_equal(variant.make(case), recorded) and variant.bits == pytest.approx(log2(comb(3200, 2)))


def test_a_bit_of_every_element_is_only_of_bytes() -> None:
    x = np.arange(12, dtype=np.int32)
    case = small_case(Small("reshape", (), ("int32", 0, 0), (12,), x=(x,)), x ^ (1 << 20))
    assert list(found("bit-flip", case)) == [
        f"bit 20 of every element is {s}" for s in ("always 0", "always 1", "inverted")
    ]
    dense = {s.split(" is ")[0] for s in found("bit-flip", small_case(Dense().small, Dense().out() ^ np.int8(3)))}
    assert dense == {f"bit {b} of every element of the {name}" for b in range(8) for name in ("input", "weights")}


def test_no_bit_of_a_channel_where_scales_are_of_none() -> None:
    """One multiplier and one shift for all channels: neither is the second channel's."""
    d = Dense()
    d.small.graph.rounding = "mul31"
    d.small.graph.constants["c_rq"] = np.array([[1 << 30], [38]], np.int32)
    recorded = small_case(d.small, d.out()).healthy.copy()
    recorded[:, 1] ^= 2
    case = small_case(d.small, recorded)
    names = {s.split(" of ")[1].split(" ")[0] for s in found("bit-flip", case) if "channel 1" in s}
    assert names == {"bias"}
    recorded = case.healthy.copy()
    recorded[:, 0] ^= 2
    every = [v.text for v in PAGES["bit-flip"].variants(small_case(d.small, recorded))]
    assert sum("scales of channel 0" in s for s in every) == 64


def test_no_bit_of_a_weight_of_a_matrix_product() -> None:
    """Its channels are those of its second input, which may be an activation."""
    rng = generator(4)
    x, w = rng.integers(-128, 128, (3, 6)).astype(np.int8), rng.integers(-128, 128, (6, 4)).astype(np.int8)
    small = Small("matmul", (-128, 127), ("int8", SY, ZY), (3, 4), x=(x, SX, 0), c_w=(w, 0.01, 4),
                  c_rq=(np.full(4, 0.002, np.float32),))  # fmt: skip
    recorded = small_case(small, np.zeros((3, 4), np.int8)).healthy.copy()
    recorded[:, 2] ^= 9
    assert not [s for s in found("bit-flip", small_case(small, recorded)) if "channel" in s or "weight" in s]


@pytest.mark.parametrize("at", [(0, 0, 0, 0), (7, 1, 2, 0), (9, 2, 2, 2), (4, 2, 1, 1)])
def test_a_bit_of_a_weight_of_one_group(at: tuple[int, ...]) -> None:
    c = Conv(group=2)
    w = c.w.copy()
    w[at] ^= 32
    every = found("bit-flip", case_of(c, c.out(c.acc(w=w))))
    assert [s for s in every if "of weight" in s] == [f"bit 5 of weight {at} is inverted"]


@pytest.mark.parametrize("at", [(0, 0, 0, 1), (2, 1, 0, 0)])
def test_a_bit_of_a_weight_of_a_line(at: tuple[int, ...]) -> None:
    """The convolution is over columns alone, with stride 2, dilation 2 and a padding of 1."""
    rng = generator(6)
    x, w = rng.integers(-128, 128, (2, 2, 11)).astype(np.int8), rng.integers(-128, 128, (3, 2, 1, 3)).astype(np.int8)
    rq = np.full(3, 0.002, np.float32)

    def out(w: Array) -> Array:
        wide = np.pad(x.astype(int) + 7, ((0, 0), (0, 0), (1, 1)))
        taps = np.stack([wide[..., k : k + 9 : 2] for k in (0, 2, 4)], -1)
        acc = np.einsum("nctk,ock->not", taps, w[:, :, 0].astype(int))
        return np.clip(np.rint(acc.astype(np.float32) * rq[0]) + ZY, -128, 127).astype(np.int8)

    small = Small(
        "conv", (1, 3, 1, 2, 0, 1, 0, 1, 1, 2, 1, -128, 127), ("int8", SY, ZY), (2, 3, 5),
        x=(x, SX, -7), c_w=(w, 0.01, 0), c_b=(np.zeros(3, np.int32),), c_rq=(rq,),
    )  # fmt: skip
    assert np.array_equal(small_case(small, out(w)).healthy, out(w))
    changed = w.copy()
    changed[at] = np.uint8(int(w[at]) % 256 ^ 64).view(np.int8)
    every = found("bit-flip", small_case(small, out(changed)))
    assert [s for s in every if "of weight" in s] == [f"bit 6 of weight {at} is inverted"]


def test_at_most_four_weights_are_named() -> None:
    """Many weights could saturate every element of a channel; weights of two bytes are not named at all."""
    d = Dense()
    d.small.graph.constants["c_rq"] = d.rq * np.float32(1000)
    recorded = small_case(d.small, d.out()).healthy.copy()
    recorded[:, 1] = -1 - recorded[:, 1]
    said = [s for s in found("bit-flip", small_case(d.small, recorded)) if "of weight" in s]
    assert len(said) <= 4
    small = Dense().small
    small.graph.constants["c_w"] = small.graph.constants["c_w"].astype(np.int16)
    small.graph.tensors["c_w"] = replace(small.graph.tensors["c_w"], dtype="int16")
    changed = Dense().w.copy()
    changed[1, 2] ^= 16
    assert not [s for s in found("bit-flip", small_case(small, Dense().out(changed))) if "of weight" in s]
