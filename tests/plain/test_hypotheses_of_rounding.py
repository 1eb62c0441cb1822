"""Faults of rounding and of zero points, on scales of powers of two where every sum is exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.multipliers import parameters
from qverify.model_bin.graph import ROUNDINGS
from qverify.model_bin.units import units
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant

from tests.plain.fault_units import PAGES, RULES, Table, among, case_of, found, small_case
from tests.plain.forensic_units import SX, SY, ZY, Conv, Small, generator

Array = Any


def test_zero_points() -> None:
    c = Conv()
    among(
        "zero-point",
        case_of(c, c.out(c.acc(zero=11))),
        {"zero point of the input: 11 instead of -7": c.out(c.acc(zero=11))},
        8.0,
    )
    usual = {f"zero point of the input: {z} instead of -7": c.out(c.acc(zero=z)) for z in (0, 121, -135)}
    usual |= {f"zero point of the weights: {z} instead of 0": c.out(c.acc(w=c.w.astype(int) - z)) for z in (128, -128)}
    among("zero-point", case_of(c, c.out(c.acc(zero=11))), usual)
    recorded = c.out(c.acc(w=c.w.astype(np.int64) - 3))
    among("zero-point", case_of(c, recorded), {"zero point of the weights: 3 instead of 0": recorded}, 8.0)
    steps = np.rint(c.acc().astype(np.float32) * c.rq[:, None, None])
    for by, said in ((4, "4 added to"), (-4, "4 taken from")):
        wrapped = ((c.out().astype(np.int64) + by + 128) % 256 - 128).astype(np.int8)
        wanted = {f"zero point: {said} every element of the output, not saturated": wrapped}
        among("zero-point", case_of(c, wrapped), wanted, 8.0)
    moved = np.clip(c.out().astype(int) - 5, -128, 127).astype(np.int8)
    case = case_of(c, moved)
    every = [v for v in PAGES["zero-point"].variants(case) if v.text == "zero point of the output: 0 instead of 5"]
    for variant, wanted_value in zip(
        every, (c.clipped(steps, zero=0), moved), strict=True
    ):  # before and after the clamp
        assert np.array_equal(variant.make(case), wanted_value) and variant.bits == 0


def test_rounding_rules() -> None:
    """On products of which a half are ties, of both signs."""
    c = Conv(coarse=True)
    c.rq = np.full(10, 0.5, np.float32)
    half = c.acc() * 0.5
    assert (half % 1 == 0.5).any() and (half < 0).any()
    wanted = {}
    for rule, rounded in RULES.items():
        for product in ("float32 product", "float64 product"):
            wanted[f"rounding {rule}, {product}"] = c.clipped(rounded(half))
        wanted[f"rounding {rule}"] = c.clipped(rounded(half))
        zeroed = np.clip(rounded(half + ZY), -128, 127).astype(np.int8)[None]
        wanted[f"rounding {rule}, the zero point added before"] = zeroed
    wanted["rounding by a float64 product"] = c.clipped(np.round(half))
    wanted["rounding: 31-bit multiplier, truncated (floor)"] = c.clipped(half // 1)
    case = case_of(c)
    among("rounding", case, wanted)
    from qverify.model_bin.graph import ROUNDINGS

    assert found("rounding", case).keys() == wanted.keys() | {f"rounding {m}" for m in ROUNDINGS[1:]}


@pytest.mark.parametrize("own", ["ref-exact", "mul31", "pow2-half-up"])
def test_rounding_in_another_mode(own: str) -> None:
    """Than the graph's; of halves, which these modes have an exact multiplier for."""
    c = Conv(coarse=True)
    c.rq, c.sw = np.full(10, 0.5, np.float32), np.full(10, 0.5 * SY / SX, np.float32)
    graph = replace(c.graph(), rounding=own)
    if own != "ref-exact":
        graph.constants["rq"] = parameters(own, np.full(10, 0.5), False)
    case = Case(graph, units(graph)[0], {"x": c.x}, "y", c.out())
    half = c.acc() * 0.5
    modes = {"pow2-floor", "pow2-half-up", "pow2-half-away", "mul8", "mul15"} - {own}
    wanted = {f"rounding {mode}": c.clipped(by_mode(mode, half)) for mode in modes}
    every = found("rounding", case)
    assert {s.removeprefix("rounding ") for s in every} >= {*ROUNDINGS} - {own} and f"rounding {own}" not in every
    among("rounding", case, wanted)


@pytest.mark.parametrize("bits", [8, 15, 16])
def test_rounding_with_fewer_multiplier_bits(bits: int) -> None:
    c = Conv()
    fraction, exponent = np.frexp(SX * c.sw.astype(np.float64) / SY)
    m, t = np.floor(fraction * 2.0**bits + 0.5).astype(np.int64), (bits - exponent)[:, None, None]
    product = c.acc() * m[:, None, None]
    among("rounding", case_of(c), {f"rounding mul{bits}": c.clipped((product + (1 << (t - 1))) >> t)})


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
    assert np.array_equal(case.healthy, s.made())
    variants = zero_points(case)
    wanted: dict[str, tuple[Array, float]] = {}
    for name, own in (("a", 4), ("b", -6)):
        for zero in (z for z in range(-128, 129) if z != own):
            value = s.made(za=zero) if name == "a" else s.made(zb=zero)
            bits = 0.0 if zero == 0 or abs(zero - own) == 128 else 8.0
            wanted[f"zero point of the input {name}: {zero} instead of {own}"] = (value, bits)
    output = [v for v in variants if "output" in v.text]
    assert {v.text for v in variants} - {v.text for v in output} == wanted.keys()
    for variant in variants:
        if variant.text in wanted:
            value, bits = wanted[variant.text]
            assert variant.bits == bits, variant.text
            if any(f" {zero} instead" in variant.text for zero in (-128, -6, -5, 0, 4, 5, 77, 127, 128)):
                assert np.array_equal(variant.make(case), value), variant.text
    made = [v.make(case) for v in output]
    limited = np.clip(s.made().astype(int) + 2, -128, 127).astype(np.int8)
    assert [v.text for v in output] == ["zero point of the output: 5 instead of 3"] * 2 + [
        "zero point: 2 added to every element of the output, not saturated"
    ]
    assert np.array_equal(made[0], s.made(zero=5)) and np.array_equal(made[1], limited)


def test_zero_points_of_a_table_change_nothing() -> None:
    unit = Table(4, 10)
    variants = zero_points(unit.case(unit.y ^ np.int8(1)))
    inputs = [v for v in variants if "the input" in v.text]
    assert [v.text for v in inputs] == [
        f"zero point of the input: {z} instead of 3" for z in range(-128, 129) if z != 3
    ]
    assert all(np.array_equal(v.make(unit.case(unit.y)), unit.y) for v in inputs)


def test_the_usual_zero_points_of_a_large_unit() -> None:
    """Where every other would take too long."""
    unit = Table(400, 400)
    inputs = [v.text for v in zero_points(unit.case(unit.y ^ np.int8(1))) if "the input" in v.text]
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
        "average_pool", (4, 2, 4, 2, 0, 0, 0, 0, 0, -100, 90), ("int8", 1.0, 3), (1, 5, 2, 3),
        x=(x, 0.5, -7), c_rq=(np.array([0.5, 1.0], np.float32),),
    )  # fmt: skip
    real = (x.astype(int) + 7).reshape(1, 5, 2, 4, 3, 2).sum((3, 5)) / 16

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


@pytest.mark.parametrize("zero", [3, 9])
def test_rounding_of_a_subtraction(zero: int) -> None:
    """Its second parameter is negative, and stays so in every mode."""
    rng = generator(9)
    a, b = (rng.integers(-128, 128, (3, 40)).astype(np.int8) for _ in range(2))
    small = Small(
        "add", (0, -128, 127), ("int8", 2.0, zero), (3, 40),
        a=(a, 0.5, 4), b=(b, 1.0, -6), c_rq=(np.array([0.25, -0.5, zero - 4], np.float32),),
    )  # fmt: skip
    real = (a.astype(int) - 4) * 0.25 - (b.astype(int) + 6) * 0.5
    wanted = {
        "rounding by a float64 sum": np.rint(real),
        "rounding pow2-floor": real // 1,
        "rounding down (floor)": real // 1,
    }
    case = small_case(small, np.clip(np.rint(real + zero), -128, 127).astype(np.int8))
    assert case.differing.size == 0
    among("rounding", case, {said: np.clip(v + zero, -128, 127).astype(np.int8) for said, v in wanted.items()})


def test_shifts_of_an_addition_of_integers() -> None:
    """(a + 2 b) / 2^shift, downward; the shift is the third parameter."""
    rng = generator(9)
    a, b = (rng.integers(-60, 60, (3, 8)).astype(np.int8) for _ in range(2))
    small = Small(
        "add", (0, -128, 127), ("int8", 1.0, 3), (3, 8),
        a=(a, 0.25, 4), b=(b, 0.5, -6), c_rq=(np.array([1, 2, 4], np.int32),),
    )  # fmt: skip
    small.graph.rounding = "pow2-floor"
    total = (a.astype(int) - 4) + 2 * (b.astype(int) + 6)
    case = small_case(small, np.clip(total // 16 + 3, -128, 127).astype(np.int8))
    assert case.differing.size == 0
    wanted = {}
    for k in (-2, -1, 1, 2):
        said = f"scales 2^{k} times as large: the shift is {abs(k)} too {'small' if k > 0 else 'large'}"
        wanted[said] = np.clip(total // 2 ** (4 - k) + 3, -128, 127).astype(np.int8)
    among("scales", case, wanted)


@pytest.mark.parametrize(
    ("made", "recorded", "zero"),
    [([120] * 6 + [0] * 4, [127] * 6 + [10] * 4, 13), ([120] * 6, [127] * 6, 10), ([0] * 4, [0, 2, 2, 3], 5),
     ([-120] * 6 + [0] * 4, [-128] * 6 + [-9] * 4, -6)],
)  # fmt: skip
def test_the_zero_point_of_the_output_is_told_by_what_is_not_saturated(
    made: list[int], recorded: list[int], zero: int
) -> None:
    """Unless all of it is."""
    x = np.array(made, np.int8)
    small = Small("reshape", (), ("int8", 0.5, 3), x.shape, x=(x, 0.5, 3))
    said = [v.text for v in zero_points(small_case(small, np.array(recorded, np.int8))) if "output" in v.text]
    assert said[:2] == [f"zero point of the output: {zero} instead of 3"] * 2


@pytest.mark.parametrize("scale", [0.5, 0])
def test_the_zero_point_of_the_output_is_a_usual_one(scale: float) -> None:
    """In a large unit; where the output has none, 0 is."""
    x = generator(2).integers(-128, 128, (400, 400)).astype(np.int8)
    table = generator(3).permutation(np.arange(-128, 128)).astype(np.int8)
    small = Small("lookup", (), ("int8", scale, 77 if scale else 0), x.shape, x=(x, 0.5, 9), c_table=(table,))
    recorded = small_case(small, x).healthy ^ np.int8(1)
    said = [v.text for v in zero_points(small_case(small, recorded)) if "the input" in v.text]
    wanted = sorted({0, -128, 127, 128, 8, 10, -9} | ({77} if scale else set()))
    assert said == [f"zero point of the input: {z} instead of 9" for z in wanted]
