"""Faults of sums and their way to the output: bias, kernel, scales, clamp, sign, accumulator; as plain numpy makes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.model_bin.units import units
from qverify.triage.case import Case

from tests.plain.fault_units import Dense, among, case_of, check, found, small_case
from tests.plain.forensic_units import SX, SY, ZX, ZY, Conv, Small, generator

Array = Any


def test_bias() -> None:
    c = Conv(bias=100_000)
    b = c.b.astype(np.int64)
    ways = {
        "left out": b * 0,
        "added twice": b + b,
        "subtracted": 0 - b,
        "of the next channel": b[[*range(1, 10), 0]],
        "of the previous channel": b[[9, *range(9)]],
        "of the first channel for all": np.array([b[0]] * 10),
        "in reverse order": b[[*range(9, -1, -1)]],
        "cut to 16 bits": (b + 32768) % 65536 - 32768,
        "saturated to 16 bits": np.minimum(np.maximum(b, -32768), 32767),
        "cut to 8 bits": (b + 128) % 256 - 128,
        "halved": b // 2,
    }
    check("bias", case_of(c), {f"bias {said}": c.out(c.acc(bias=v)) for said, v in ways.items()})


def without(c: Conv, part: Any) -> Array:
    w = c.w.copy()
    w[part] = 0
    return c.out(c.acc(w=w))


def test_kernel_order() -> None:
    c, s = Conv(), np.s_
    wanted = {
        "kernel rotated by 180 degrees": c.out(c.acc(w=np.rot90(c.w, 2, (2, 3)))),
        "kernel upside down": c.out(c.acc(w=np.flip(c.w, 2))),
        "kernel mirrored": c.out(c.acc(w=np.flip(c.w, 3))),
        "kernel transposed": c.out(c.acc(w=np.transpose(c.w, (0, 1, 3, 2)))),
    }
    parts = {
        "the last channel": s[:, 5],
        "the first channel": s[:, 0],
        "the channels after the last whole 4": s[:, 4:],
        "the first row": s[:, :, 0],
        "the last row": s[:, :, 2],
        "the first column": s[..., 0],
        "the last column": s[..., 2],
        "the last tap": s[:, :, 2, 2],
        "the first tap": s[:, :, 0, 0],
    }
    wanted |= {f"{said} of the weights left out of the sum": without(c, part) for said, part in parts.items()}
    check("kernel-order", case_of(c), wanted)


def test_what_is_left_out_of_a_dense_sum() -> None:
    d, wanted = Dense(), {}
    case = small_case(d.small, d.out())
    assert case.differing.size == 0
    parts = {
        "the last channel": [4],
        "the first channel": [0],
        "the channels after the last whole 2": [4],
        "the channels after the last whole 4": [4],
    }
    for said, places in parts.items():
        w = d.w.copy()
        w[:, places] = 4
        wanted[f"{said} of the weights left out of the sum"] = d.out(w)
    check("kernel-order", case, wanted)


def test_scales_of_channels() -> None:
    c = Conv()
    rq = c.rq
    ways = {
        "scales of the next channel": rq[[*range(1, 10), 0]],
        "scales of the previous channel": rq[[9, *range(9)]],
        "scales in reverse order": rq[::-1],
    }
    one = {"the first": rq[0], "the last": rq[9], "the largest": max(rq), "the smallest": min(rq)}
    ways |= {f"scales taken per tensor: {s} channel's for all": np.full(10, v, np.float32) for s, v in one.items()}
    ways |= {f"scales taken per tensor: their {s}": np.full(10, v, np.float32) for s, v in _means(rq).items()}
    for k in (-8, -4, -2, -1, 1, 2, 4, 8):
        said = f"scales 2^{k} times as large: the shift is {abs(k)} too {'small' if k > 0 else 'large'}"
        ways[said] = np.ldexp(rq, k)
    check("scales", case_of(c), {said: c.out(rq=v) for said, v in ways.items()})


def _means(rq: Array) -> dict[str, Array]:
    ordered = np.sort(rq)
    return {"mean": np.mean(rq), "median": np.float32((ordered[4] + ordered[5]) / np.float32(2))}


@pytest.mark.parametrize("mode", ["gemmlowp", "cmsis", "tflite-single", "mul31"])
def test_scales_of_integer_multipliers(mode: str) -> None:
    """Multipliers and shifts on their own, too; the shift's field counts the other way in two modes."""
    from qverify.arithmetic.multipliers import parameters
    from qverify.arithmetic.requantize import requantize

    c = Conv()
    rq = parameters(mode, SX * c.sw.astype(np.float64) / SY, False)
    graph = replace(c.graph(), rounding=mode)
    graph.constants["rq"] = rq

    def out(changed: Array) -> Array:
        return requantize(c.acc()[None], changed, ZY, -128, 127, "int8", mode, False, 1)

    case = Case(graph, units(graph)[0], {"x": c.x}, "y", out(rq))
    assert case.differing.size == 0
    order = {"of the next channel": [*range(1, 10), 0], "of the previous channel": [9, *range(9)]}
    order["in reverse order"] = [*range(9, -1, -1)]
    wanted = {f"scales {said}": rq[:, at] for said, at in order.items()}
    for row, name in enumerate(("multipliers", "shifts")):
        for said, at in order.items():
            changed = rq.copy()
            changed[row] = rq[row, at]
            wanted[f"{name} {said}"] = changed
    largest, smallest = int(np.argmax(c.sw)), int(np.argmin(c.sw))
    for said, at in (("the first", 0), ("the last", 9), ("the largest", largest), ("the smallest", smallest)):
        wanted[f"scales taken per tensor: {said} channel's for all"] = rq[:, [at] * 10]
    sign = 1 if mode in ("gemmlowp", "cmsis") else -1
    for k in (-2, 1, 2):
        said = f"scales 2^{k} times as large: the shift is {abs(k)} too {'small' if k > 0 else 'large'}"
        wanted[said] = rq + np.array([[0], [sign * k]], rq.dtype)
    among("scales", case, {said: out(v) for said, v in wanted.items()})
    assert not [said for said in found("scales", case) if "mean" in said or "median" in said]


def test_clamp() -> None:
    c = Conv(low=-60, high=90)
    limits = {
        "left out": (-128, 127), "left out at the lower end": (-128, 90), "left out at the upper end": (-60, 127),
        "an extra Relu": (5, 90), "an extra Relu6": (5, 90), "Relu instead": (5, 127), "Relu6 instead": (5, 110),
        "to the type of the other sign": (0, 90), "at zero instead of the zero point": (0, 90), "below zero": (-60, 5),
        "one below the upper limit (it is taken as exclusive)": (-60, 89),
        "one above the lower limit (it is taken as exclusive)": (-59, 90),
        "one inside both limits (they are taken as exclusive)": (-59, 89),
    }  # fmt: skip
    wanted = {f"clamp {s} ({a}..{b} instead of -60..90)": c.out(low=a, high=b) for s, (a, b) in limits.items()}
    check("clamp", case_of(c), wanted)
    for (low, high), more in {
        (-60, 40): {"clamp at 40 instead of 90 at the upper end": ((-60, 40), 8.0)},
        (-10, 90): {"clamp at -10 instead of -60 at the lower end": ((-10, 90), 8.0)},
        (-30, 40): {
            "clamp -30..40 instead of -60..90, 35 to each side of the zero point": ((-30, 40), 8.0),
            "clamp at -30 instead of -60 at the lower end": ((-30, 90), 8.0),
            "clamp at 40 instead of 90 at the upper end": ((-60, 40), 8.0),
        },
        (-20, 40): {
            "clamp -20..40 instead of -60..90": ((-20, 40), 16.0),
            "clamp at -20 instead of -60 at the lower end": ((-20, 90), 8.0),
            "clamp at 40 instead of 90 at the upper end": ((-60, 40), 8.0),
        },
    }.items():
        measured = {said: c.out(low=a, high=b) for said, ((a, b), _) in more.items()}
        bits = {said: b for said, (_, b) in more.items()}
        check("clamp", case_of(c, c.out(low=low, high=high)), wanted | measured, bits)


def test_clamp_of_a_whole_range() -> None:
    c = Conv()
    limits = {
        "an extra Relu": (5, 127), "an extra Relu6": (5, 110), "Relu instead": (5, 127), "Relu6 instead": (5, 110),
        "to the symmetric range": (-127, 127), "to the type of the other sign": (0, 127),
        "at zero instead of the zero point": (0, 127), "below zero": (-128, 5),
        "one below the upper limit (it is taken as exclusive)": (-128, 126),
        "one above the lower limit (it is taken as exclusive)": (-127, 127),
        "one inside both limits (they are taken as exclusive)": (-127, 126),
    }  # fmt: skip
    wanted = {f"clamp {s} ({a}..{b} instead of -128..127)": c.out(low=a, high=b) for s, (a, b) in limits.items()}
    check("clamp", case_of(c), wanted)


def test_signedness() -> None:
    c = Conv()
    steps = np.rint(c.acc().astype(np.float32) * c.rq[:, None, None]).astype(np.int64)[None] + ZY
    inverted = "signedness: the highest bit of {} is inverted (128 added)"
    wanted = {
        inverted.format("the output"): (c.out().view(np.uint8) ^ np.uint8(128)).view(np.int8),
        inverted.format("the input"): c.out(c.acc(x=(c.x.astype(np.int64) + 256) % 256 - 128)),
        inverted.format("the weights"): c.out(c.acc(w=(c.w.astype(np.int64) + 256) % 256 - 128)),
        "signedness: the output is clipped as uint8": np.clip(steps, 0, 255).astype(np.uint8).view(np.int8),
        "signedness: the output is wrapped, not clipped": ((steps + 128) % 256 - 128).astype(np.int8),
    }
    for said, zero in (("", 0), (", its zero point 128 further", 128), (", its zero point 128 less", -128)):
        unsigned = c.x.astype(np.int64) % 256
        wanted[f"signedness: the input is read as uint8{said}"] = c.out(
            c.acc(x=unsigned, zero=ZX + zero, pad=ZX + zero)
        )
        wanted[f"signedness: the weights is read as uint8{said}"] = c.out(c.acc(w=c.w.astype(np.int64) % 256 - zero))
    check("signedness", case_of(c), wanted)


def test_accumulators_that_are_too_narrow() -> None:
    c = Conv()
    acc, b = c.acc(), c.b.astype(np.int64)[:, None, None]
    wanted = {}
    for width in (8, 12, 14, 15, 16, 17, 18, 20, 22, 24, 26, 28, 30, 31, 32):
        half = 2 ** (width - 1)
        if acc.min() < -half or acc.max() >= half:
            wanted[f"accumulator of {width} bits that wraps"] = c.out(np.mod(acc + half, 2 * half) - half)
            limited = np.minimum(np.maximum(acc, -half), half - 1)
            wanted[f"accumulator saturated to {width} bits at the end"] = c.out(limited)
            before = np.minimum(np.maximum(acc - b, -half), half - 1) + b
            wanted[f"accumulator saturated to {width} bits before the bias"] = c.out(before)
    case = case_of(c)
    among("accumulator", case, wanted)
    orders = {"channels outermost": (6, 9), "channels innermost": (9, 6)}
    steps = {}
    for order in orders:
        places = range(54) if order == "channels outermost" else [ch * 9 + tap for tap in range(9) for ch in range(6)]
        columns, weights = c.columns().reshape(54, 9, 11), c.w.reshape(10, 54).astype(np.int64)
        for first in (True, False):
            total = np.repeat(c.b.astype(np.int64) * first, 99).reshape(10, 9, 11)
            for k in places:
                total = np.clip(total + weights[:, k, None, None] * columns[k], -32768, 32767)
            total = total if first else np.clip(total + b, -32768, 32767)
            steps[f"accumulator saturated to 16 bits at every step, {order}, bias {'first' if first else 'last'}"] = (
                c.out(total)
            )
        for zero, said in ((0, ""), (ZX, ", the input's zero point still in")):
            total = np.repeat(c.b.astype(np.int64), 99).reshape(10, 9, 11)
            total = total - zero * weights.sum(1)[:, None, None]
            order_list = list(places)
            for one, two in zip(order_list[::2], order_list[1::2], strict=True):
                pair = sum(weights[:, k, None, None] * (columns[k] + zero) for k in (one, two))
                total = total + np.clip(pair, -32768, 32767)
            steps[f"every two products saturated to 16 bits, {order}{said}"] = c.out(total)
    variants = found("accumulator", case)
    pairs = {said for said in variants if said.startswith("every two")}
    assert variants.keys() - pairs == wanted.keys() | {said for said in steps if "at every step" in said}
    among("accumulator", case, {said: v for said, v in steps.items() if said in variants})
    assert {f"every two products saturated to 16 bits, {order}" for order in orders} <= pairs


def of_kernel(*shape: int) -> Case:
    """A convolution of that kernel [O, I, H, W], each output of a size of 2 by 3."""
    x = generator(2).integers(-128, 128, (1, shape[1], shape[2] + 1, shape[3] + 2)).astype(np.int8)
    small = Small(
        "conv", (*shape[2:], 1, 1, 0, 0, 0, 0, 1, 1, 1, -128, 127), ("int8", SY, ZY), (1, shape[0], 2, 3),
        x=(x, SX, ZX), c_w=(np.zeros(shape, np.int8), 0.01, 4), c_b=(np.zeros(shape[0], np.int32),),
        c_rq=(np.ones(shape[0], np.float32),),
    )  # fmt: skip
    return small_case(small, np.zeros((1, shape[0], 2, 3), np.int8))


CHANNELS, ROWS, COLUMNS, TAPS = (
    {f"the {end} {part}" for end in ("first", "last")} for part in ("channel", "row", "column", "tap")
)
MIRRORED = {"rotated by 180 degrees", "upside down", "mirrored"}


@pytest.mark.parametrize(
    ("shape", "ways", "parts"),
    [
        ((2, 1, 1, 1), set(), set()),
        ((2, 2, 1, 1), set(), CHANNELS),
        ((2, 1, 1, 2), MIRRORED, COLUMNS | TAPS),
        ((2, 1, 2, 1), MIRRORED, ROWS | TAPS),
        ((2, 2, 2, 2), MIRRORED | {"transposed"}, CHANNELS | ROWS | COLUMNS | TAPS),
        ((2, 4, 1, 1), set(), CHANNELS),
        ((2, 6, 1, 1), set(), CHANNELS | {"the channels after the last whole 4"}),
        ((2, 67, 1, 1), set(), CHANNELS | {f"the channels after the last whole {m}" for m in (2, 4, 8, 16, 32, 64)}),
    ],
)
def test_what_a_kernel_can_lack(shape: tuple[int, ...], ways: set[str], parts: set[str]) -> None:
    wanted = {f"kernel {way}" for way in ways} | {f"{part} of the weights left out of the sum" for part in parts}
    assert found("kernel-order", of_kernel(*shape)).keys() == wanted


def spread(values: dict[int, int], zero: int = 3, dtype: str = "int8") -> Case:
    """A unit whose 40 elements are computed as 0; recorded: how many of each value, the others 0."""
    small = Small("reshape", (), (dtype, 1.0, zero), (40,), x=(np.zeros((5, 8), dtype), 1.0, zero))
    recorded = np.repeat([*values, 0], [*values.values(), 40 - sum(values.values())]).astype(dtype)
    return small_case(small, recorded)


@pytest.mark.parametrize(
    ("values", "measured"),
    [
        ({9: 1}, {"at 0 instead of -128 at the lower end": 8}),
        ({9: 2}, {"at 0 instead of -128 at the lower end": 8, "at 9 instead of 127 at the upper end": 8}),
        ({127: 2}, {"at 0 instead of -128 at the lower end": 8}),
        ({-7: 1}, {"at 0 instead of 127 at the upper end": 8}),
        ({-128: 2}, {"at 0 instead of 127 at the upper end": 8}),
        ({-7: 1, 9: 1}, {}),
        ({-7: 1, 8: 1, 9: 1}, {"-7..9 instead of -128..127": 16}),
        ({-3: 2, 9: 1}, {"-3..9 instead of -128..127, 6 to each side of the zero point": 8,
                         "at -3 instead of -128 at the lower end": 8}),
        ({-128: 1, 8: 1, 9: 1}, {}),
        ({-7: 1, 8: 1, 127: 1}, {}),
        ({7: 1, 8: 1, 9: 1}, {"at 0 instead of -128 at the lower end": 8}),
    ],
)  # fmt: skip
def test_a_clamp_is_measured_at_ends_that_occur_twice(values: dict[int, int], measured: dict[str, int]) -> None:
    variants = {said: v for said, v in found("clamp", spread(values)).items() if said.endswith("end") or v.bits}
    assert {said: v.bits for said, v in variants.items()} == {f"clamp {s}": b for s, b in measured.items()}


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("int8", 0, 127), ("uint8", 0, 127), ("int16", 0, 32767), ("uint16", 0, 32767)]
)
def test_a_clamp_to_the_type_of_the_other_sign(dtype: str, low: int, high: int) -> None:
    info = np.iinfo(dtype)
    said = f"clamp to the type of the other sign ({low}..{high} instead of {info.min}..{info.max})"
    assert said in found("clamp", spread({9: 1}, dtype=dtype))


def test_no_clamp_of_an_output_without_a_scale_or_with_several() -> None:
    for scale in ((), (1.0, 2.0)):
        case = spread({9: 2})
        case.graph.tensors["y"] = replace(case.spec, scale=scale, zero_point=(3,) * len(scale))
        assert found("clamp", case) == {}


def test_scales_of_two_inputs() -> None:
    """Only shifts: an addition's are no channels', and a product has one."""
    rng = generator(5)
    a, b = (rng.integers(-100, 100, (3, 4)).astype(np.int8) for _ in range(2))
    small = Small(
        "add", (0, -128, 127), ("int8", 1.0, 4), (3, 4),
        a=(a, 0.25, 4), b=(b, 0.5, -6), c_rq=(np.array([0.25, 0.5]),),
    )  # fmt: skip
    real = (a.astype(int) - 4) * 0.25 + (b.astype(int) + 6) * 0.5
    product = Small(
        "mul", (-128, 127), ("int8", 8.0, 4), (3, 4),
        a=(a, 0.25, 4), b=(b, 0.5, -6), c_rq=(np.array([1 / 64], np.float32),),
    )  # fmt: skip
    products = (a.astype(int) - 4) * (b.astype(int) + 6) / 64
    for unit, value in ((small, real), (product, products)):
        wanted = {}
        for k in (-8, -4, -2, -1, 1, 2, 4, 8):
            said = f"scales 2^{k} times as large: the shift is {abs(k)} too {'small' if k > 0 else 'large'}"
            wanted[said] = np.clip(np.rint(value * 2.0**k) + 4, -128, 127).astype(np.int8)
        check("scales", small_case(unit, np.clip(np.rint(value) + 4, -128, 127).astype(np.int8)), wanted)


def test_a_mean_is_no_sum_of_products() -> None:
    x = np.full((1, 2, 20, 20), 127, np.int8)
    small = Small("global_average_pool", (-128, 127), ("int8", 0.5, 4), (1, 2, 1, 1), x=(x, 0.5, 0),
                  c_rq=(np.array([1 / 400], np.float32),))  # fmt: skip
    said = list(found("accumulator", small_case(small, np.zeros((1, 2, 1, 1), np.int8))))
    assert said and not [s for s in said if "every" in s]
