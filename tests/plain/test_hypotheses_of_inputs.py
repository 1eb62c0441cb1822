"""Faults of what a unit reads, where the recorded elements tell which channel, row or scale it was; and how a search for causes ends."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from math import log2
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.multipliers import parameters
from qverify.model_bin.units import units
from qverify.triage.case import Case
from qverify.triage.forensics import explain_fault
from qverify.triage.hypotheses import HypothesisPage, pages, pages_of
from qverify.triage.linear_sums import linear

from tests.plain.fault_units import POOL, Table, among, case_of, check, found, pool, pooled, small_case
from tests.plain.forensic_units import SX, SY, ZX, ZY, Conv, Small, generator

Array = Any


def test_operands() -> None:
    rng = generator(5)
    a, b = (rng.integers(-100, 100, (3, 4)).astype(np.int8) for _ in range(2))
    small = Small(
        "add", (0, -128, 127), ("int8", 1.0, 3), (3, 4),
        a=(a, 0.25, 4), b=(b, 0.5, -6), c_rq=(np.array([0.25, 0.5]),),
    )  # fmt: skip

    def total(a: Array, b: Array) -> Array:
        return np.clip(np.rint((a.astype(int) - 4) * 0.25 + (b.astype(int) + 6) * 0.5) + 3, -128, 127).astype(np.int8)

    case = small_case(small, total(a, b))
    assert case.differing.size == 0
    wanted = {
        "b is read in place of a": total(b, b),
        "a is read in place of b": total(a, a),
        "a and b are exchanged": total(b, a),
    }
    check("operand-order", case, wanted)


def test_lines_of_what_is_read() -> None:
    """A row that only the places that differ read: left out, or another in its place."""
    c = Conv()
    x = c.x.copy()
    x[:, :, 5] = 0
    recorded = c.out(c.acc(x=x))
    every = found("dropped-input", case_of(c, recorded))
    variants = {said: v for said, v in every.items() if not said.startswith("channel")}
    wanted = {"row 5 of the input left out: 0 there": x}
    for value, other, said in (
        (ZX, None, "left out: -7 there"),
        (None, 4, "repeats row 4"),
        (None, 6, "repeats row 6"),
    ):
        changed = c.x.copy()
        changed[:, :, 5] = value if other is None else c.x[:, :, other]
        wanted[f"row 5 of the input {said}"] = changed
    assert set(variants) == wanted.keys()
    for said, changed in wanted.items():
        assert np.array_equal(variants[said].make(case_of(c)), c.out(c.acc(x=changed))), said
        assert variants[said].bits == pytest.approx(np.log2(9))


def test_channels_of_what_is_read() -> None:
    """In a grouped convolution these are the channels that the differing outputs read."""
    c = Conv(group=2)
    x = c.x.copy()
    x[:, 4, :, 3:9] = 0
    recorded = c.out(c.acc(x=x))
    variants = found("dropped-input", case_of(c, recorded))
    said = {s.split(" of the input")[0] for s in variants if s.startswith("channel")}
    assert said == {"channel 3", "channel 4", "channel 5"}
    whole = c.x.copy()
    whole[:, 4] = c.x[:, 3]
    made = variants["channel 4 of the input repeats channel 3"]
    assert np.array_equal(made.make(case_of(c)), c.out(c.acc(x=whole))) and made.bits == pytest.approx(np.log2(6))


class Wide:
    """A 3x3 convolution of 20 channels to 3, pads 1, weights of zero points 2, -3 and 5."""

    def __init__(self) -> None:
        rng = generator(12)
        self.x = rng.integers(-128, 128, (1, 20, 4, 5)).astype(np.int8)
        self.w = rng.integers(-128, 128, (3, 20, 3, 3)).astype(np.int8)
        self.b, self.rq = np.array([900, -70, 5], np.int32), np.array([31, 25, 40], np.float32) * np.float32(1e-5)
        self.small = Small(
            "conv", (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, -128, 127), ("int8", SY, ZY), (1, 3, 4, 5),
            x=(self.x, SX, ZX), c_w=(self.w, 0.01, 2), c_b=(self.b,), c_rq=(self.rq,),
        )  # fmt: skip
        specs = self.small.graph.tensors
        specs["c_w"] = replace(specs["c_w"], scale=(0.01,) * 3, zero_point=(2, -3, 5), channel_axis=0)

    def out(self, x: Array) -> Array:
        wide = np.pad(x[0].astype(np.int64) - ZX, ((0, 0), (1, 1), (1, 1)))
        taps = np.stack([wide[:, i : i + 4, j : j + 5] for i in range(3) for j in range(3)], 1)
        total = np.einsum("oct,cthw->ohw", self.w.reshape(3, 20, 9) - np.array([2, -3, 5])[:, None, None], taps)
        steps = np.rint((total + self.b[:, None, None]).astype(np.float32) * self.rq[:, None, None])
        return np.clip(steps + ZY, -128, 127).astype(np.int8)[None]


def channel(x: Array, at: int, value: Any) -> Array:
    changed = x.copy()
    changed[:, at] = value
    return changed


@pytest.mark.parametrize(
    ("at", "how"),
    [(at, how) for at in (0, 7, 19) for how in ("zero point", "zero", *["before"] * (at > 0), *["after"] * (at < 19))],
)
def test_one_channel_of_many_is_found_from_the_outputs(at: int, how: str) -> None:
    unit = Wide()
    x, ways = unit.x, {"zero point": ZX, "zero": 0}
    if at > 0:
        ways["before"] = unit.x[:, at - 1]
    if at < 19:
        ways["after"] = unit.x[:, at + 1]
    recorded = unit.out(channel(x, at, ways[how]))
    case = small_case(unit.small, recorded)
    assert np.array_equal(case.healthy, unit.out(x))
    texts = {"zero point": f"left out: {ZX} there", "zero": "left out: 0 there",
             "before": f"repeats channel {at - 1}", "after": f"repeats channel {at + 1}"}  # fmt: skip
    wanted = {f"channel {at} of the input {texts[w]}": unit.out(channel(x, at, v)) for w, v in ways.items()}
    check("dropped-input", case, wanted, dict.fromkeys(wanted, log2(20)))


def test_no_channel_where_none_explains_the_outputs() -> None:
    unit = Wide()
    recorded = unit.out(unit.x)
    recorded[0, 1] ^= 9
    assert not [s for s in found("dropped-input", small_case(unit.small, recorded)) if s.startswith("channel")]


def test_a_row_that_is_read_once() -> None:
    """For an operator without a window this is the row that contains all that differs."""
    unit = Table(1, 4, 6, 5)
    recorded = unit.y.copy()
    recorded[0, :, 2] ^= 1
    recorded[0, 1, 2, 3] ^= 1
    wanted, bits = {}, log2(6)
    for value in (0, 3):
        wanted[f"row 2 of the input left out: {value} there"] = value
    wanted |= {f"row 2 of the input repeats row {row}": unit.x[:, :, row] for row in (1, 3)}
    made = {}
    for said, value in wanted.items():
        changed = unit.x.copy()
        changed[:, :, 2] = value
        made[said] = unit.read(changed)
    check("dropped-input", unit.case(recorded), made, dict.fromkeys(made, bits))
    recorded[0, 0, 4, 0] ^= 1
    assert found("dropped-input", unit.case(recorded)) == {}


@pytest.mark.parametrize(
    ("rows", "lines"), [((2,), [3, 4, 5]), ((1, 2), [3]), ((0, 1, 2), []), ((0,), [0, 1]), ((4,), [7, 8, 9])]
)
def test_rows_that_a_window_reads(rows: tuple[int, ...], lines: list[int]) -> None:
    """Kernel 3, stride 2, one row of padding above: row 2 reads rows 3 to 5."""
    small, x = pooled()
    recorded = pool(x, **POOL).astype(np.int8)
    recorded[0, :, list(rows)] ^= 1
    every = found("dropped-input", small_case(small, recorded))
    assert sorted({int(s.split()[1]) for s in every if s.startswith("row")}) == lines
    assert not [s for s in every if s.startswith("channel")]


@pytest.mark.parametrize(("columns", "lines"), [((5,), [5]), ((0,), [0, 1]), ((2, 3), [3]), ((1, 3), [])])
def test_columns_that_a_window_reads(columns: tuple[int, ...], lines: list[int]) -> None:
    """Kernel 2, stride 1, one column of padding behind."""
    small, x = pooled()
    recorded = pool(x, **POOL).astype(np.int8)
    recorded[..., list(columns)] ^= 1
    every = found("dropped-input", small_case(small, recorded))
    assert sorted({int(s.split()[1]) for s in every if s.startswith("column")}) == lines


def quantized(real: Array, scale: float, zero: int) -> Array:
    return np.clip(np.rint(real / np.float32(scale)) + zero, -128, 127).astype(np.int8)


def test_an_input_taken_with_the_scale_of_another() -> None:
    rng = generator(5)
    a, b = (rng.integers(-60, 60, (2, 3)).astype(np.int8) for _ in range(2))
    specs = {"a": (0.5, 3), "b": (0.25, -7), "y": (1.0, 5)}
    small = Small("concat", (0,), ("int8", *specs["y"]), (4, 3), a=(a, *specs["a"]), b=(b, *specs["b"]))

    def out(of_a: tuple[float, int], of_b: tuple[float, int]) -> Array:
        parts = [(v.astype(np.float32) - z) * np.float32(s) for v, (s, z) in ((a, of_a), (b, of_b))]
        return quantized(np.concatenate(parts), *specs["y"])

    case = small_case(small, out(specs["a"], specs["b"]))
    assert case.differing.size == 0
    wanted = {"scales: no input is requantized": out(specs["y"], specs["y"])}
    for name, other in permutations(specs, 2):
        if name == "y":
            continue
        for said, zero in (
            ("is taken as if it had the scale and zero point of", specs[other][1]),
            ("with the scale of", specs[name][1]),
        ):
            given = specs | {name: (specs[other][0], zero)}
            wanted[f"scales: {name} {said} {other}"] = out(given["a"], given["b"])
    check("scales", case, wanted)
    orders = {
        "operands in the order b, a": np.concatenate([out(specs["a"], specs["b"])[2:], out(specs["a"], specs["b"])[:2]])
    }
    among("operand-order", case, orders)


@pytest.mark.parametrize(
    ("op", "words", "shape", "axes", "count"),
    [
        ("global_average_pool", (-128, 127), (2, 3, 1, 1), (2, 3), 20),
        ("reduce_mean", (0b1010, -100, 90), (2, 1, 4, 1), (1, 3), 15),
        ("reduce_mean", (0b0100, -100, 90), (2, 3, 1, 5), (2,), 4),
    ],
)
def test_the_accumulator_of_a_mean(op: str, words: Any, shape: Any, axes: Any, count: int) -> None:
    x = generator(8).integers(-128, 128, (2, 3, 4, 5)).astype(np.int8)
    rq = np.array([SX / SY / count], np.float32)
    small = Small(op, words, ("int8", SY, ZY), shape, x=(x, SX, ZX), c_rq=(rq,))
    acc = (x.astype(np.int64) - ZX).sum(axes, keepdims=True)
    steps = np.clip(np.rint(acc.astype(np.float32) * rq) + ZY, *words[-2:]).astype(np.int8)
    of = linear(small_case(small, steps))
    assert of is not None and np.array_equal(of.acc, acc) and of.real == pytest.approx(SX / SY / count, rel=1e-12)
    fields = (of.zero_point, of.low, of.high, of.dtype, of.rounding, of.wide)
    assert fields == (ZY, *words[-2:], "int8", "ref-exact", False)
    assert np.array_equal(of.output(), steps) and np.array_equal(of.finished(np.rint(acc * of.real)), steps)
    other = Small(op, words, ("int8", SY, ZY), shape, x=(x, SX, ZX), c_rq=(rq * np.float32(3),))
    assert linear(small_case(other, steps)).real == pytest.approx(3 * rq[0])  # a factor of the op's own


@pytest.mark.parametrize("mode", ["tflite-single", "gemmlowp", "cmsis", "mul15", "pow2-half-up"])
def test_the_real_scale_of_integer_multipliers(mode: str) -> None:
    """It is the one that the tensors' scales give, unless the multipliers give another."""
    c = Conv()
    real = SX * c.sw.astype(np.float64) / SY
    near = {"mul15": 2e-4, "pow2-half-up": 0.5}.get(mode)  # how near the multipliers themselves come
    for factor, within in ((1.0, near or 1e-12), (0.125, near or 1e-6)):
        graph = replace(c.graph(), rounding=mode)
        graph.constants["rq"] = parameters(mode, real * factor, False)
        of = linear(Case(graph, units(graph)[0], {"x": c.x}, "y", c.out()))
        assert of is not None and of.real == pytest.approx(real * factor, rel=within)
        assert np.array_equal(of.acc[0], c.acc())


@pytest.mark.parametrize(("apart", "own"), [(0.9e-5, False), (1.1e-5, True), (-0.9e-5, False), (-1.1e-5, True)])
def test_how_near_a_multiplier_must_be_to_the_scales(apart: float, own: bool) -> None:
    """In a matrix product, within a hundred-thousandth it is only the rounded quotient of these, else a factor of its own."""
    x, w = np.ones((2, 3), np.int8), np.ones((3, 4), np.int8)
    stored = np.array([SX * 0.01 / SY * (1 + apart)])
    small = Small("matmul", (-128, 127), ("int8", SY, ZY), (2, 4), x=(x, SX, 0), c_w=(w, 0.01, 0), c_rq=(stored,))
    of = linear(small_case(small, np.zeros((2, 4), np.int8)))
    assert of is not None and of.real == pytest.approx(stored if own else SX * 0.01 / SY, rel=1e-12)
    assert of.axis == -1 and of.along(np.arange(4)).shape == (1, 4)


def test_a_search_without_time_tries_nothing() -> None:
    c = Conv()
    result = explain_fault(case_of(c, c.out(low=20)), deadline_s=-1.0)
    assert result.not_tried == [f"{p.NAME}: the time limit was reached" for p in pages_of(case_of(c))]
    assert (result.tried, result.unexplained, result.exact, result.general, result.families) == (0, False, [], [], {})
    assert result.description.differing > 0


def _tried(page: HypothesisPage, case: Case) -> int:
    """The faults that a page yields, or those that it looked at where these are more."""
    return max(len(list(page.variants(case))), case.number_tried)


def test_a_search_says_which_family_it_tries() -> None:
    unit = Table(4, 10)
    told: list[tuple[str, int, int]] = []
    recorded = unit.y | np.int8(4)
    result = explain_fault(unit.case(recorded), watch=lambda *words: told.append(words))
    tried = pages_of(unit.case(recorded))
    assert told == [("known faults at y", at, len(tried)) for at, _ in enumerate(tried)]
    assert result.tried == sum(_tried(page, unit.case(recorded)) for page in pages())
    assert result.kinds == ["bit-flip"] and result.families["bit-flip"] == 1.0 and not result.unexplained
    (group,) = result.exact
    assert "bit 2 of every element is always 1" in [cause.said for cause in group]
    assert all(cause.taken == 0 and cause.bits <= group[0].bits + 10 for cause in group)


def test_equal_bytes_are_searched_for_nothing() -> None:
    unit = Table(4, 10)
    result = explain_fault(unit.case(unit.y))
    assert (result.tried, result.unexplained, result.description.differing, result.not_tried) == (0, False, 0, [])


def test_what_reproduces_a_part_is_partial() -> None:
    """Bit 2 always set but for one element, which is something else."""
    unit = Table(20, 50)
    recorded = unit.y | np.int8(4)
    recorded[3, 7] = unit.y[3, 7] ^ 91
    result = explain_fault(unit.case(recorded))
    assert result.unexplained and result.exact == result.general == []
    best = result.partial[0]
    differing = int((recorded != unit.y).sum())
    assert len(result.partial) <= 3 and best.of_all >= 0.99
    assert result.families["bit-flip"] < 1
    shares = [p.of_all for p in result.partial]
    assert shares == sorted(shares, reverse=True) and all(p.of_all > 1 - differing / 1000 for p in result.partial)


def test_causes_that_other_inputs_would_tell_apart_are_groups() -> None:
    """The last entry of the table is not read here: what stands after it is not known. The fewest bits come first."""
    unit = Table(20, 50)
    unit.x = np.minimum(unit.x, 100)
    result = explain_fault(unit.case(unit.read(unit.x + np.int8(1))))
    early = "offset: the table 1 element too early, "
    assert [[cause.said for cause in group] for group in result.exact] == [
        ["table index one too high", f"{early}the end repeated", "lookup: the table's index is 1 entries too high"],
        ["table index one too high, wrapping", f"{early}wrapped around"],
        [f"{early}0 there"],
    ]
    first = [group[0].bits for group in result.exact]
    assert first == sorted(first) and first[0] < first[-1]
