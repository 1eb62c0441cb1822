"""Faults of arithmetic and windows: each family's faults on a convolution, a pool or a resize, each as plain numpy makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil, floor
from typing import Any

import numpy as np
import pytest
from qverify.model_bin.units import units
from qverify.triage.case import Case
from qverify.triage.hypotheses.alignment import padded, skipped

from tests.plain.forensic_units import SX, SY, ZX, ZY, Conv, Small, generator
from tests.plain.test_hypotheses_of_order import PAGES, check, found

Array = Any


def case_of(c: Conv, recorded: Array | None = None, **more: Any) -> Case:
    graph = c.graph()
    return Case(graph, units(graph)[0], {"x": c.x}, "y", c.out() if recorded is None else recorded, **more)


def small_case(small: Small, recorded: Array) -> Case:
    return Case(small.graph, units(small.graph)[0], small.inputs, "y", recorded)


def among(family: str, case: Case, wanted: dict[str, Array], bits: float = 0.0) -> None:
    """These faults of the family, with these bits of choice."""
    variants = found(family, case)
    assert wanted.keys() <= variants.keys(), variants.keys()
    for said, value in wanted.items():
        assert np.array_equal(variants[said].make(case), value), said
        assert variants[said].bits == pytest.approx(bits), said


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


class Dense:
    """y [2, 3] of x [2, 5], w [3, 5] of zero point 4; ref-exact."""

    def __init__(self) -> None:
        rng = generator(4)
        self.x = rng.integers(-128, 128, (2, 5)).astype(np.int8)
        self.w = rng.integers(-128, 128, (3, 5)).astype(np.int8)
        self.b, self.rq = np.array([90, -700, 5], np.int32), np.array([0.004, 0.002, 0.003], np.float32)
        self.small = Small(
            "fully_connected", (-128, 127), ("int8", SY, ZY), (2, 3),
            x=(self.x, SX, ZX), c_w=(self.w, 0.01, 4), c_b=(self.b,), c_rq=(self.rq,),
        )  # fmt: skip

    def out(self, w: Array | None = None, zero: int = 4) -> Array:
        centred = (self.w if w is None else w).astype(np.int64) - zero
        acc = (self.x.astype(np.int64) - ZX) @ centred.T + self.b
        return np.clip(np.rint(acc.astype(np.float32) * self.rq) + ZY, -128, 127).astype(np.int8)


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


@pytest.mark.parametrize("mode", ["gemmlowp", "tflite-single", "mul31"])
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
    sign = 1 if mode == "gemmlowp" else -1
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


@pytest.mark.parametrize(("value", "bits"), [(77, 8.0), (0, 0.0), (127, 0.0), (-128, 0.0)])
def test_pad_value_of_a_convolution(value: int, bits: float) -> None:
    c = Conv()
    recorded = c.out(c.acc(pad=value))
    said = f"pad value {value} instead of the zero point"
    check("pad-value", case_of(c, recorded), {said: recorded}, {said: bits})


def pool(x: Array, kernel: Any, stride: Any, pads: Any, dilation: Any = (1, 1), fill: float = -np.inf) -> Array | None:
    """Largest of each window; None where the output is not 5 by 6. pads: top, left, bottom, right."""
    wide = np.pad(x[0].astype(float), ((0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=fill)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    sizes = [(n - r) // s + 1 for n, r, s in zip(wide.shape[1:], reach, stride, strict=True)]
    if sizes != [5, 6]:
        return None
    made = np.empty((len(wide), 5, 6))
    for i in range(5):
        for j in range(6):
            top, left = i * stride[0], j * stride[1]
            made[:, i, j] = wide[:, top : top + reach[0] : dilation[0], left : left + reach[1] : dilation[1]].max(
                (1, 2)
            )
    return made[None]


POOL = {"kernel": (3, 2), "stride": (2, 1), "pads": (1, 0, 0, 1), "dilation": (1, 1)}


def pooled() -> tuple[Small, Array]:
    x = generator(7).integers(-128, 128, (1, 3, 10, 6)).astype(np.int8)
    words = (3, 2, 2, 1, 1, 0, 0, 1, 1, 1)
    return Small("max_pool", words, ("int8", 0.1, 9), (1, 3, 5, 6), x=(x, 0.1, 9)), x


def test_window() -> None:
    small, x = pooled()
    case = small_case(small, pool(x, **POOL).astype(np.int8))
    assert case.differing.size == 0
    changes: dict[str, dict[str, Any]] = {
        "padding of the two row sides exchanged": {"pads": (0, 0, 1, 1)},
        "padding of the two column sides exchanged": {"pads": (1, 1, 0, 0)},
        "it starts one row earlier": {"pads": (0, 0, 1, 1)},
        "it starts one row further": {"pads": (2, 0, 0, 1)},
        "it starts one column further": {"pads": (1, 1, 0, 0)},
        "no padding of rows": {"pads": (0, 0, 0, 1)},
        "no padding of columns": {"pads": (1, 0, 0, 0)},
        "no padding": {"pads": (0, 0, 0, 0)},
        "stride 1x2 instead of 2x1": {"stride": (1, 2)},
        "stride 1": {"stride": (1, 1)},
        "stride_h 1 instead of 2": {"stride": (1, 1)},
        "stride 1 too large": {"stride": (3, 2)},
        "stride_h 3 instead of 2": {"stride": (3, 1)},
        "stride_w 2 instead of 1": {"stride": (2, 2)},
        "dilation 1 too large": {"dilation": (2, 2)},
        "dilation_h 2 instead of 1": {"dilation": (2, 1)},
        "dilation_w 2 instead of 1": {"dilation": (1, 2)},
        "kernel 2x3 instead of 3x2": {"kernel": (2, 3)},
        "kernel 1": {"kernel": (1, 1)},
        "kernel 1 too small": {"kernel": (2, 1)},
        "kernel_h 2 instead of 3": {"kernel": (2, 2)},
        "kernel_w 1 instead of 2": {"kernel": (3, 1)},
        "kernel 1 too large": {"kernel": (4, 3)},
        "kernel_h 4 instead of 3": {"kernel": (4, 2)},
        "kernel_w 3 instead of 2": {"kernel": (3, 3)},
    }
    variants = found("window", case)
    assert variants.keys() == {f"window: {said}" for said in changes}
    fitting = 0
    for said, change in changes.items():
        value = pool(x, **POOL | change)
        if value is not None and np.isfinite(value).all():
            fitting += 1
            assert np.array_equal(variants[f"window: {said}"].make(case), value), said
    assert fitting > 5


def test_pad_value_of_a_pool() -> None:
    small, x = pooled()
    small.inputs["x"] = x = np.minimum(x, -20).astype(np.int8)
    case = small_case(small, pool(x, **POOL).astype(np.int8))
    said = "pad value {} instead of the zero point"
    wanted = {said.format(v): pool(x, **POOL, fill=v).astype(np.int8) for v in range(-128, 128)}
    check("pad-value", case, wanted, {said.format(v): 8.0 for v in range(-127, 127) if v != 0})


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_pad_modes(mode: int) -> None:
    x = generator(2).integers(-128, 128, (3, 4)).astype(np.int8)
    names = {0: "constant", 1: "reflected", 2: "repeated edge"}
    ways = {0: {"mode": "constant", "constant_values": 9}, 1: {"mode": "reflect"}, 2: {"mode": "edge"}}
    made = {m: np.pad(x, ((1, 2), (2, 1)), **how) for m, how in ways.items()}
    small = Small("pad", (mode, 9, 1, 2), ("int8", 0.5, 0), (6, 7), x=(x, 0.5, 0))
    recorded = made[mode].copy()
    recorded[0, :2] = (5, 6)
    case = small_case(small, recorded)
    wanted = {f"pad mode {names[m]}": made[m] for m in names if m != mode}
    values = {f"pad value {v} instead of 9": np.pad(x, ((1, 2), (2, 1)), constant_values=v) for v in (5, 6)}
    check("pad-value", case, wanted | (values if mode == 0 else {}), dict.fromkeys(values, 8.0))


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
    every = [v for v in PAGES["zero-point"].variants(case) if v.said == "zero point of the output: 0 instead of 5"]
    for variant, wanted_value in zip(
        every, (c.clipped(steps, zero=0), moved), strict=True
    ):  # before and after the clamp
        assert np.array_equal(variant.make(case), wanted_value) and variant.bits == 0


def signed(v: Array, rounded: Callable[[Array], Array]) -> Array:
    return np.where(v < 0, -rounded(-v), rounded(v))


RULES: dict[str, Callable[[Array], Array]] = {
    "to the nearest, ties to even": lambda v: np.round(v),
    "to the nearest, ties away from zero": lambda v: signed(v, lambda u: (u + 0.5) // 1),
    "to the nearest, ties up": lambda v: (v + 0.5) // 1,
    "to the nearest, ties down": lambda v: -((0.5 - v) // 1),
    "to the nearest, ties toward zero": lambda v: signed(v, lambda u: -((0.5 - u) // 1)),
    "down (floor)": lambda v: v // 1,
    "toward zero": lambda v: signed(v, lambda u: u // 1),
    "up (ceiling)": lambda v: -(-v // 1),
    "away from zero": lambda v: signed(v, lambda u: -(-u // 1)),
}


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


@pytest.mark.parametrize("bits", [8, 15, 16])
def test_rounding_with_fewer_multiplier_bits(bits: int) -> None:
    c = Conv()
    fraction, exponent = np.frexp(SX * c.sw.astype(np.float64) / SY)
    m, t = np.floor(fraction * 2.0**bits + 0.5).astype(np.int64), (bits - exponent)[:, None, None]
    product = c.acc() * m[:, None, None]
    among("rounding", case_of(c), {f"rounding mul{bits}": c.clipped((product + (1 << (t - 1))) >> t)})


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


POSITIONS: dict[str, Callable[[int, int, int], float]] = {
    "half_pixel": lambda at, size, out: (at + 0.5) * size / out - 0.5,
    "asymmetric": lambda at, size, out: at * size / out,
    "align_corners": lambda at, size, out: at * (size - 1) / (out - 1) if out > 1 else 0.0,
    "half_pixel rounded to a source of its own (+0.5)": lambda at, size, out: (at + 0.5) * size / out,
}
MODES: dict[str, Callable[[float], int]] = {
    "floor": floor,
    "ceil": ceil,
    "round_prefer_floor": lambda p: ceil(p - 0.5),
    "round_prefer_ceil": lambda p: floor(p + 0.5),
}


def sources(size: int, out: int, position: Callable[..., float], mode: Callable[[float], int]) -> list[int]:
    return [min(max(mode(position(at, size, out)), 0), size - 1) for at in range(out)]


def test_resize_to_the_nearest() -> None:
    x = generator(8).permutation(105).astype(np.uint8).reshape(1, 3, 5, 7)
    own = [sources(n, m, POSITIONS["asymmetric"], floor) for n, m in ((5, 10), (7, 9))]
    index = np.array([0, 0, 1, 2, *own[0], *own[1]], np.int32)
    small = Small("resize_nearest", (), ("uint8", 0.1, 9), (1, 3, 10, 9), x=(x, 0.1, 9), c_index=(index,))
    wanted = {}
    for coordinates, position in POSITIONS.items():
        for name, mode in MODES.items():
            rows, columns = (sources(n, m, position, mode) for n, m in ((5, 10), (7, 9)))
            wanted[f"resize: {coordinates}, {name}"] = x[:, :, rows][..., columns]
    for by, said in ((-1, "early"), (1, "far")):
        rows, columns = ([min(max(i + by, 0), n - 1) for i in o] for o, n in zip(own, (5, 7), strict=True))
        wanted[f"resize: source 1 too {said}"] = x[:, :, rows][..., columns]
    case = small_case(small, x[:, :, own[0]][..., own[1]])
    assert case.differing.size == 0
    check("resize-mode", case, wanted)


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


@pytest.mark.parametrize(("run", "stride"), [(5, 8), (5, 6), (5, 4), (4, 4), (6, 1), (10, 16)])
def test_rows_of_another_stride(run: int, stride: int) -> None:
    """What is written at one stride and read at the other, element by element."""
    values = np.arange(1, 61, dtype=np.int8)
    written, read = [77] * 500, []
    for row in range(60 // run):
        for i in range(run):
            written[row * stride + i] = int(values[row * run + i])
    assert padded(values.reshape(3, 20), run, stride, 77).reshape(-1).tolist() == written[:60]
    for row in range(60 // run):
        for i in range(run):
            at = row * stride + i
            read.append(int(values[at]) if at < 60 else 77)
    assert skipped(values.reshape(3, 20), run, stride, 77).reshape(-1).tolist() == read


def test_alignment() -> None:
    x = generator(3).integers(1, 128, (1, 2, 3, 5)).astype(np.int8)
    small = Small("reshape", (), ("int8", 0.5, 9), (1, 2, 3, 5), x=(x, 0.5, 9))
    strides = [("rows", 5, s) for s in (6, 8, 16, 32, 64, 128, 4)]
    strides += [("planes", 15, s) for s in (16, 32, 64, 128, 14)]
    recorded = padded(x, 5, 8, 0)
    recorded.reshape(-1)[[5, 6]] = (50, 51)  # not one value everywhere
    wanted, free = {}, {}
    for place in ("the output", "the input"):
        for said, run, stride in strides:
            for move, a, b in ((padded, stride, run), (skipped, run, stride)):
                text = f"alignment: {place} is written with {said} of {a} elements and read with {b}"
                for value, what in ((0, "zeros"), (9, "the zero point")):
                    wanted[f"{text}; {what} where nothing was written"] = move(x, run, stride, value)
                if place == "the output":
                    mask = move(np.arange(1, 31).reshape(x.shape), run, stride, 0).reshape(-1) == 0
                    values = np.unique(recorded.reshape(-1)[mask])
                    if len(values) > 1:
                        garbage = f"{text}; {mask.sum()} elements are left from earlier memory contents"
                        wanted[garbage] = np.where(mask.reshape(x.shape), recorded, move(x, run, stride, 0))
                        free[garbage] = mask
                    elif len(values) == 1 and values[0] not in (0, 9):
                        wanted[f"{text}; {values[0]} where nothing was written"] = move(x, run, stride, values[0])
    case = small_case(small, recorded)
    check("alignment", case, wanted)
    variants = found("alignment", case)
    assert {said for said, v in variants.items() if v.copied} == free.keys()
    assert all(np.array_equal(variants[said].free, mask) for said, mask in free.items())


def test_padding_that_is_read_as_data() -> None:
    x = generator(3).integers(1, 128, (2, 5)).astype(np.int8)
    small = Small("reshape", (), ("int8", 0.5, 9), (2, 5), x=(x, 0.5, 9))
    small.graph.tensors["y"] = replace(small.graph.tensors["y"], aligned_shape=(2, 8))
    raw = bytes(range(100, 116))
    case = Case(small.graph, units(small.graph)[0], small.inputs, "y", x, raw=raw)
    variants = found("alignment", case)
    made = [*x[0], 105, 106, 107, *x[1][:2]]
    assert variants["alignment: the output's padding is read as data"].make(case).reshape(-1).tolist() == made
    assert not [s for s in found("alignment", small_case(small, x)) if "padding" in s]


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
    """Of a grouped convolution: those that the outputs that differ read."""
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
