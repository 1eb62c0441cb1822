"""Zero points, rounding, bits of constants and interpolation, all faults of each, on scales of powers of two where every sum is exact."""

from __future__ import annotations

from dataclasses import replace
from math import floor, log2
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.multipliers import parameters
from qverify.arithmetic.requantize import requantize
from qverify.model_bin.graph import ROUNDINGS
from qverify.model_bin.units import units
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.loss import Experiment, quantize_one_at_a_time
from qverify.triage.loudness import OutputStep

from tests.plain.forensic_units import SX, SY, ZY, Conv, Small, generator
from tests.plain.test_hypotheses_of_arithmetic import (
    MODES,
    POSITIONS,
    RULES,
    Dense,
    among,
    case_of,
    small_case,
    sources,
)
from tests.plain.test_hypotheses_of_order import PAGES, Table, found
from tests.plain.test_triage_parts import loss

Array = Any


class Sum:
    """y = a / 4 + b / 2, zero points 4, -6 and 3; swap: the parameters of b stand first."""

    def __init__(self, swap: int = 0, dtype: type = np.float32):
        rng = generator(5)
        self.a, self.b = (rng.integers(-128, 128, (3, 40)).astype(np.int8) for _ in range(2))
        ratios = [0.5, 0.25] if swap else [0.25, 0.5]
        rq = np.array([*ratios, 5.0], np.float32) if dtype is np.float32 else np.array(ratios)
        self.fused = dtype is np.float32  # the zero point is added before rounding
        self.small = Small(
            "add", (swap, -100, 120), ("int8", 1.0, 3), (3, 40),
            a=(self.a, 0.25, 4), b=(self.b, 0.5, -6), c_rq=(rq,),
        )  # fmt: skip

    def real(self, za: int = 4, zb: int = -6) -> Array:
        return (self.a.astype(int) - za) * 0.25 + (self.b.astype(int) - zb) * 0.5

    def made(self, za: int = 4, zb: int = -6, zero: int = 3) -> Array:
        """ref-exact in float32; in float64 the zero point is added to whole steps."""
        real = self.real(za, zb)
        return self.out(np.rint(real + zero), zero=0) if self.fused else self.out(np.rint(real), zero)

    def out(self, steps: Array, zero: int = 3, low: int = -100, high: int = 120) -> Array:
        return np.clip(steps + zero, low, high).astype(np.int8)


def zero_points(case: Any) -> list[FaultVariant]:
    return list(PAGES["zero-point"].variants(case))


@pytest.mark.parametrize(("swap", "dtype"), [(0, np.float32), (1, np.float32), (0, np.float64)])
def test_zero_points_of_an_addition(swap: int, dtype: type) -> None:
    s = Sum(swap, dtype)
    case = small_case(s.small, s.made(zero=5))
    assert np.array_equal(case.made, s.made())
    variants = zero_points(case)
    wanted: dict[str, tuple[Array, float]] = {}
    for name, own in (("a", 4), ("b", -6)):
        for zero in (z for z in range(-128, 129) if z != own):
            value = s.made(za=zero) if name == "a" else s.made(zb=zero)
            bits = 0.0 if zero == 0 or abs(zero - own) == 128 else 8.0
            wanted[f"zero point of the input {name}: {zero} instead of {own}"] = (value, bits)
    output = [v for v in variants if "output" in v.said]
    assert {v.said for v in variants} - {v.said for v in output} == wanted.keys()
    for variant in variants:
        if variant.said in wanted:
            value, bits = wanted[variant.said]
            assert variant.bits == bits, variant.said
            if any(f" {zero} instead" in variant.said for zero in (-128, -6, -5, 0, 4, 5, 77, 127, 128)):
                assert np.array_equal(variant.make(case), value), variant.said
    made = [v.make(case) for v in output]
    limited = np.clip(s.made().astype(int) + 2, -128, 127).astype(np.int8)
    assert [v.said for v in output] == ["zero point of the output: 5 instead of 3"] * 2 + [
        "zero point: 2 added to every element of the output, not saturated"
    ]
    assert np.array_equal(made[0], s.made(zero=5)) and np.array_equal(made[1], limited)


def test_zero_points_of_a_table_change_nothing() -> None:
    unit = Table(4, 10)
    variants = zero_points(unit.case(unit.y ^ np.int8(1)))
    inputs = [v for v in variants if "the input" in v.said]
    assert [v.said for v in inputs] == [
        f"zero point of the input: {z} instead of 3" for z in range(-128, 129) if z != 3
    ]
    assert all(np.array_equal(v.make(unit.case(unit.y)), unit.y) for v in inputs)


def test_the_usual_zero_points_of_a_large_unit() -> None:
    """Where every other would take too long."""
    unit = Table(400, 400)
    inputs = [v.said for v in zero_points(unit.case(unit.y ^ np.int8(1))) if "the input" in v.said]
    wanted = sorted({0, -128, 127, 128, 2, 4, -3})
    assert inputs == [f"zero point of the input: {z} instead of 3" for z in wanted]


EVERY_RULE = {*(f"rounding {r}" for r in RULES), *(f"rounding {r}, the zero point added before" for r in RULES)}


def by_mode(mode: str, value: Array) -> Array:
    if mode == "pow2-floor":
        return value // 1
    return RULES[
        "to the nearest, ties away from zero" if mode in ("gemmlowp", "pow2-half-away") else "to the nearest, ties up"
    ](value)


def test_rounding_of_an_addition() -> None:
    s = Sum()
    real = s.real()
    assert (real % 1 == 0.5).any() and (real < 0).any()
    wanted = {f"rounding {mode}": s.out(by_mode(mode, real)) for mode in ROUNDINGS[1:]}
    wanted["rounding: 30-bit multipliers, floor"] = s.out(real // 1)
    wanted["rounding by a float64 sum"] = s.out(np.rint(real))
    for rule, rounded in RULES.items():
        wanted[f"rounding {rule}"] = s.out(rounded(real))
        wanted[f"rounding {rule}, the zero point added before"] = s.out(rounded(real + 3), zero=0)
    case = small_case(s.small, s.out(np.rint(real)))
    assert found("rounding", case).keys() == wanted.keys()
    among("rounding", case, wanted)


def test_rounding_of_an_average() -> None:
    x = generator(4).integers(-128, 128, (1, 5, 8, 6)).astype(np.int8)
    small = Small(
        "average_pool", (2, 2, 2, 2, 0, 0, 0, 0, 0, -100, 90), ("int8", 1.0, 3), (1, 5, 4, 3),
        x=(x, 0.5, -7), c_rq=(np.array([0.5, 1.0], np.float32),),
    )  # fmt: skip
    real = (x.astype(int) + 7).reshape(1, 5, 4, 2, 3, 2).sum((3, 5)) / 8

    def out(steps: Array, zero: int = 3) -> Array:
        return np.clip(steps + zero, -100, 90).astype(np.int8)

    wanted = {"rounding by a float64 mean": out(np.rint(real)), "rounding pow2-floor": out(real // 1)}
    wanted |= {f"rounding {mode}": out(by_mode(mode, real)) for mode in ("pow2-half-up", "pow2-half-away")}
    for rule, rounded in RULES.items():
        wanted[f"rounding {rule}"] = out(rounded(real))
        wanted[f"rounding {rule}, the zero point added before"] = out(rounded(real + 3), zero=0)
    case = small_case(small, out(np.rint(real)))
    assert found("rounding", case).keys() == wanted.keys() | {f"rounding {m}" for m in ROUNDINGS[1:]}
    among("rounding", case, wanted)


@pytest.mark.parametrize("op", ["concat", "lookup"])
def test_rounding_of_what_rounds_in_no_way_of_its_own(op: str) -> None:
    if op == "lookup":
        unit = Table(4, 10)
        assert found("rounding", unit.case(unit.y)) == {}
        return
    a, b = (generator(at).integers(-100, 100, (3, 5)).astype(np.int8) for at in (1, 2))
    small = Small("concat", (1,), ("int8", 1.0, 3), (3, 10), a=(a, 0.25, 4), b=(b, 0.5, -6))
    real = np.concatenate([(a.astype(int) - 4) * 0.25, (b.astype(int) + 6) * 0.5], 1)
    wanted = {f"rounding {r}": np.clip(rounded(real) + 3, -128, 127).astype(np.int8) for r, rounded in RULES.items()}
    case = small_case(small, np.clip(np.rint(real) + 3, -128, 127).astype(np.int8))
    assert found("rounding", case).keys() == EVERY_RULE
    among("rounding", case, wanted)


def test_rounding_of_a_subtraction() -> None:
    """Its second parameter is negative, and stays so in every mode."""
    rng = generator(9)
    a, b = (rng.integers(-128, 128, (3, 40)).astype(np.int8) for _ in range(2))
    small = Small(
        "add", (0, -128, 127), ("int8", 2.0, 3), (3, 40),
        a=(a, 0.5, 4), b=(b, 1.0, -6), c_rq=(np.array([0.25, -0.5, -1.0], np.float32),),
    )  # fmt: skip
    real = (a.astype(int) - 4) * 0.25 - (b.astype(int) + 6) * 0.5
    wanted = {
        "rounding by a float64 sum": np.rint(real),
        "rounding pow2-floor": real // 1,
        "rounding down (floor)": real // 1,
    }
    case = small_case(small, np.clip(np.rint(real + 3), -128, 127).astype(np.int8))
    assert case.differing.size == 0
    among("rounding", case, {said: np.clip(v + 3, -128, 127).astype(np.int8) for said, v in wanted.items()})


@pytest.mark.parametrize("mode", ["gemmlowp", "mul31"])
def test_a_bit_of_a_multiplier_or_its_shift(mode: str) -> None:
    c = Conv()
    rq = parameters(mode, SX * c.sw.astype(np.float64) / SY, False)
    graph = replace(c.graph(), rounding=mode)
    graph.constants["rq"] = rq
    recorded = requantize(c.acc()[None], rq, ZY, -128, 127, "int8", mode, False, 1)
    recorded[0, 4, 2, 2:5] ^= 1
    case = Case(graph, units(graph)[0], {"x": c.x}, "y", recorded)
    every = [v for v in PAGES["bit-flip"].variants(case) if "scales of channel 4" in v.said]
    assert len(every) == 64 and all(v.bits == pytest.approx(log2(20 * 32)) for v in every)
    for row in (0, 1):
        for bit in (0, 1):
            changed = rq.copy()
            changed[row, 4] ^= 1 << bit
            value = requantize(c.acc()[None], changed, ZY, -128, 127, "int8", mode, False, 1)
            assert np.array_equal(every[32 * row + bit].make(case), value), (row, bit)


# Bits of constants


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


# Interpolation


def taps(size: int, out: int, position: Any) -> tuple[list[int], list[int], list[float]]:
    """First and second source, and the share of the second."""
    places = [min(max(position(at, size, out), 0), size - 1) for at in range(out)]
    first = [floor(p) for p in places]
    return first, [min(i + 1, size - 1) for i in first], [p - i for p, i in zip(places, first, strict=True)]


def linearly(x: Array, position: Any) -> Array:
    value = x.astype(np.float64)
    for axis, out in ((2, 6), (3, 8)):
        first, second, share = taps(x.shape[axis], out, position)
        share = np.array(share).reshape([-1 if i == axis else 1 for i in range(4)])
        value = value.take(first, axis) * (1 - share) + value.take(second, axis) * share
    return value


def test_resize_by_interpolation() -> None:
    x = generator(3).integers(-100, 100, (1, 2, 3, 4)).astype(np.int8)
    index, weight = [], []
    for size, out in ((3, 6), (4, 8)):
        first, second, share = taps(size, out, POSITIONS["half_pixel"])
        index += [first, second]
        weight += [[0.5 if a == b else 1 - s for a, b, s in zip(first, second, share, strict=True)],
                   [0.5 if a == b else s for a, b, s in zip(first, second, share, strict=True)]]  # fmt: skip
    small = Small(
        "resize_linear", (0,), ("int8", 1.0, 0), (1, 2, 6, 8), x=(x, 1.0, 0),
        c_index=(np.concatenate(index).astype(np.int32),), c_weight=(np.concatenate(weight).astype(np.float32),),
    )  # fmt: skip
    case = small_case(small, np.rint(linearly(x, POSITIONS["half_pixel"])).astype(np.int8))
    assert case.differing.size == 0
    variants = found("resize-mode", case)
    wanted = {"resize: cut off instead of rounded": np.trunc(linearly(x, POSITIONS["half_pixel"]))}
    for name, position in POSITIONS.items():
        if name != "align_corners":  # thirds are not exact in binary
            wanted[f"resize: {name}"] = np.rint(linearly(x, position))
        for mode, rounded in MODES.items():
            rows, columns = (sources(n, m, position, rounded) for n, m in ((3, 6), (4, 8)))
            wanted[f"resize: nearest ({name}, {mode}) instead of linear"] = x[:, :, rows][..., columns]
    assert variants.keys() == wanted.keys() | {"resize: align_corners"}
    for said, value in wanted.items():
        assert np.array_equal(variants[said].make(case), value.astype(np.int8)), said
    corners = variants["resize: align_corners"].make(case).astype(float)
    assert np.abs(corners - linearly(x, POSITIONS["align_corners"])).max() <= 0.501


# What one tensor alone costs


class Damaged:
    """A switched model of two outputs: each tensor that is on adds its own error to one of them."""

    def __init__(self, errors: dict[str, tuple[str, float]]):
        self.errors, self.asked = errors, list[frozenset[str]]()

    def run(self, feed: dict[str, Array], on: frozenset[str]) -> dict[str, Array]:
        self.asked.append(on)
        made = {"y": feed["x"].copy(), "z": feed["x"] * 2}
        for name in on:
            output, by = self.errors[name]
            made[output] = made[output] + np.float32([by, -by, by, -by])
        return made


FRAMES = [{"x": np.float32([1, 2, 3, 4])}, {"x": np.float32([-4, 0, 2, 8])}]


def cosine(a: Array, b: Array) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def test_the_outputs_of_some_tensors_quantized() -> None:
    model = Damaged({"t": ("y", 1.0), "u": ("z", 0.5), "n": ("z", np.nan)})
    experiment = Experiment(model, FRAMES)  # type: ignore[arg-type]
    x = np.concatenate([f["x"] for f in FRAMES]).astype(np.float64)
    error = np.tile([1.0, -1.0], 4)
    found_ = experiment.measure(["t"])
    at_y = cosine(x, x + error)
    assert (found_.worst, found_.cosine, found_.harm) == ("y", pytest.approx(at_y), pytest.approx(at_y))
    assert found_.mean == pytest.approx((at_y + 1) / 2) and found_.sqnr_db == pytest.approx(10 * np.log10(x @ x / 8))
    none = experiment.measure([])
    assert (none.worst, none.harm, none.mean) == ("y", pytest.approx(1.0), pytest.approx(1.0))
    broken = experiment.measure(["n"])
    assert (broken.worst, broken.cosine, broken.harm) == ("z", -1.0, -1.0)
    assert experiment.runs == len(model.asked) == 2 + 3 * 2


def test_an_output_that_cannot_be_judged_is_no_harm() -> None:
    """Of a step that its float never reaches; unless there is no other."""
    model = Damaged({"t": ("y", 9.0), "u": ("z", 0.5)})
    experiment = Experiment(model, FRAMES, {"y": OutputStep(100.0, 25500.0)})  # type: ignore[arg-type]
    x = np.concatenate([f["x"] for f in FRAMES]).astype(np.float64)
    found_ = experiment.measure(["t", "u"])
    at_z = cosine(2 * x, 2 * x + np.tile([0.5, -0.5], 4))
    assert (found_.worst, found_.harm, found_.mean) == ("z", pytest.approx(at_z), pytest.approx((at_z + 1) / 2))
    silent = Experiment(model, FRAMES, {n: OutputStep(100.0, 25500.0) for n in "yz"})  # type: ignore[arg-type]
    found_ = silent.measure(["t"])
    assert (found_.worst, found_.harm, found_.mean) == ("y", 1.0, 1.0) and found_.cosine < 0.5


def test_each_tensor_alone_is_ranked() -> None:
    model, told = Damaged({"t": ("y", 0.5), "u": ("y", 2.0), "v": ("z", 0.5), "w": ("y", 0.5)}), list[tuple[int, int]]()
    rows = [loss(n) for n in "wtuv"]
    quantize_one_at_a_time(Experiment(model, FRAMES), rows, lambda at, of: told.append((at, of)))  # type: ignore[arg-type]
    assert [r.tensor for r in rows] == ["u", "t", "w", "v"] and told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [r.single.worst_output for r in rows if r.single] == ["y", "y", "y", "z"]
    assert rows[0].single is not None and rows[0].single.cosine < rows[1].single.cosine
