"""Faults of sums and their way to the output: bias, kernel, scales, clamp, sign, accumulator; as plain numpy makes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.model_bin.units import units
from qverify.triage.case import Case

from tests.plain.fault_units import Dense, among, case_of, check, found, small_case
from tests.plain.forensic_units import SX, SY, ZX, ZY, Conv

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
