"""Faults of layer norm, softmax, lrn, batch norm, means, float functions, quantize, dequantize and lookup, planted here in
plain numpy: their families give the very bytes; healthy bytes are given by none."""

from __future__ import annotations

from math import erf, exp, log
from typing import Any

import numpy as np
import pytest
from qverify.model_bin.float_functions import FUNCTIONS
from qverify.triage.case import element_bits

from tests.plain.fault_units import PAGES, small_case
from tests.plain.forensic_units import Small, generator

Array = Any
F = np.float32


def word(value: float) -> int:
    return int(np.array(value, F).view(np.int32))


def give(family: str, small: Small, recorded: Array) -> list[str]:
    """What the family's faults that give these bytes say."""
    case = small_case(small, np.asarray(recorded))
    assert np.array_equal(element_bits(case.healthy), element_bits(small.healthy))  # type: ignore[attr-defined]
    with np.errstate(all="ignore"):
        return [
            v.text
            for v in PAGES[family].variants(case)
            if np.array_equal(element_bits(v.make(case)), element_bits(case.recorded))
        ]


def check(family: str, small: Small, recorded: Array, *parts: str) -> None:
    """The family has a fault with these words that gives the bytes; none that differs gives bytes changed once more."""
    said = give(family, small, recorded)
    assert any(all(p in s for p in parts) for s in said), said
    near = np.array(recorded)
    place = near.reshape(-1)[-1:]
    place[:] = (
        place + 1
        if near.dtype.kind in "iu" and place[0] < 100
        else place - 1
        if near.dtype.kind in "iu"
        else np.nextafter(place, F(np.inf))
    )
    assert not any(all(p in s for p in parts) for s in give(family, small, near))


def small(
    op: str, words: tuple[int, ...], out: tuple[str, float, int], shape: tuple[int, ...], healthy: Array, **tensors: Any
) -> Small:
    made = Small(op, words, out, shape, **tensors)
    made.healthy = np.asarray(healthy, out[0]).reshape(shape)  # type: ignore[attr-defined]
    return made


def rows(*shape: int, seed: int = 7) -> Array:
    return generator(seed).normal(0.4, 2.0, shape).astype(F)


GAMMA, BETA = rows(13, seed=8), rows(13, seed=9)


def normed(x: Array, mean: Array, variance: Array, gamma: Array = GAMMA, beta: Array = BETA) -> Array:
    y = (x.astype(float) - mean) / np.sqrt(variance + float(F(1e-5)))
    return (y * gamma.astype(float) + beta.astype(float)).astype(F)


def mean_by_hand(x: Array) -> Array:
    return np.array([[sum(map(float, row)) / 13] for row in x])


def layer() -> tuple[Small, Array, Array, Array]:
    x = rows(5, 13)
    mean = mean_by_hand(x)
    variance = mean_by_hand((x.astype(float) - mean) ** 2)
    tensors = {"x": (x,), "c_g": (GAMMA,), "c_b": (BETA,)}
    return (
        small("layer_norm", (13, word(1e-5)), ("float32", 0, 0), (5, 13), normed(x, mean, variance), **tensors),
        x,
        mean,
        variance,
    )


def test_layer_norm() -> None:
    unit, x, mean, variance = layer()
    squares = (x.astype(float) - mean) ** 2
    tail = np.array([[sum(map(float, row[:8])) / 13] for row in squares])
    check(
        "layer-norm-sums",
        unit,
        normed(x, mean, tail),
        "for the variance",
        "the last 5 elements (depth mod 8)",
        "whole depth",
    )
    check("layer-norm-sums", unit, normed(x, mean, variance * 13 / 12), "depth - 1")
    half = np.array([[0.0]] * 5)
    for i, row in enumerate(x):
        total = np.float16(0)
        for v in row:
            total = np.float16(total + np.float16(v))
        half[i] = float(total) / 13
    around = mean_by_hand((x.astype(float) - half) ** 2)
    check("layer-norm-sums", unit, normed(x, half, around), "for the mean", "in float16")
    one_pass = mean_by_hand(x.astype(float) ** 2).astype(F).astype(float) - (mean * mean).astype(F).astype(float)
    check("layer-norm-variance", unit, normed(x, mean, one_pass), "one pass", "rounded to float32")
    check("layer-norm-variance", unit, normed(x, mean, variance + 9 * float(F(1e-5))), "epsilon is 10 times")
    check(
        "layer-norm-rows",
        unit,
        normed(x, np.append(mean[:4], mean[3:4], 0), np.append(variance[:4], variance[3:4], 0)),
        "row before",
        "last 1 rows only (rows mod 2)",
    )
    check(
        "layer-norm-output",
        unit,
        normed(x, mean, variance, np.roll(GAMMA, -1)),
        "gamma is that of",
        "the next channel, the last",
    )


@pytest.mark.parametrize("family", ["layer-norm-sums", "layer-norm-variance", "layer-norm-rows", "layer-norm-output"])
def test_a_healthy_layer_norm_has_no_fault_of_rows(family: str) -> None:
    unit, x, mean, variance = layer()
    noise = normed(x, mean, variance)
    noise[2, 3] = np.nextafter(noise[2, 3], F(9))
    assert not give(family, unit, noise)


def integer_softmax() -> tuple[Small, Array, Array]:
    q = generator(3).integers(-128, 128, (6, 11)).astype(np.int8)
    table = np.array([exp(0.03 * (k - 255)) for k in range(256)]).astype(F)
    e = table[q.astype(int) - q.max(1, keepdims=True) + 255]
    y = finished(e, total(e))
    unit = small(
        "softmax", (6, 11, 1, word(256.0)), ("int8", 1 / 256, -128), (6, 11), y, x=(q, 0.03, 4), c_table=(table,)
    )
    return unit, q, table


def total(e: Array, count: int = 11) -> Array:
    sums = np.zeros((len(e), 1), F)
    for i in range(count):
        sums[:, 0] += e[:, i]
    return sums


def finished(e: Array, sums: Array, rule: Any = np.rint) -> Array:
    return np.clip(rule(e * F(256) / sums) - 128, -128, 127).astype(np.int8)


def test_integer_softmax() -> None:
    unit, q, table = integer_softmax()
    below = q.astype(int) - q.max(1, keepdims=True)
    e = table[below + 255]
    check(
        "softmax-sums", unit, finished(e, total(e, 8)), "sum of exponentials", "the last 3 elements (depth mod 4 or 8)"
    )
    carried = table[q.astype(int) - np.maximum.accumulate(q.max(1).astype(int))[:, None] + 255]
    check("softmax-sums", unit, finished(carried, total(carried)), "largest of all rows so far")
    short = table[np.maximum(below, -128) + 255]
    check("softmax-exponential", unit, finished(short, total(short)), "saturates to -128")
    check("softmax-output", unit, finished(e, total(e), np.trunc), "rounded toward zero")
    forced = finished(e, total(e)).astype(int)
    for row, place in zip(forced, q.argmax(1), strict=True):
        row[place] += 256 - (row + 128).sum()
    check("softmax-output", unit, np.clip(forced, -128, 127).astype(np.int8), "add up to one", "first largest")


def test_float_softmax() -> None:
    x = rows(2, 7, 3)
    e = np.vectorize(exp)(x.astype(float) - x.max(1, keepdims=True).astype(float))
    sums = e[:, 0] + sum(e[:, i] for i in range(1, 7))
    unit = small(
        "softmax_float", (2, 7, 3), ("float32", 0, 0), (2, 7, 3), (e / e.sum(1, keepdims=True)).astype(F), x=(x,)
    )
    assert sums.shape == (2, 3)
    check("softmax-sums", unit, (e / e.sum(1)[:, :1, None]).astype(F), "sum of the first inner position")
    t = x.astype(float) - x.max(1, keepdims=True)
    trick = ((12102203.0 * t).astype(np.int32) + 1064866805).view(F).astype(float)
    check("exponential", unit, (trick / trick.sum(1, keepdims=True)).astype(F), "12102203*x + 1064866805")
    cut = np.where(t < -4, 0.0, e)
    check("exponential", unit, (cut / cut.sum(1, keepdims=True)).astype(F), "as 0 for arguments below -4")


def elementwise(name: str, healthy: Array, x: Array, y: Array | None = None, p: float = 0.0) -> Small:
    more = {} if y is None else {"c_other": (y,)}
    return small(
        "elementwise_float",
        (FUNCTIONS[name].number, word(p), 0),
        ("float32", 0, 0),
        healthy.shape,
        healthy,
        x=(x,),
        **more,
    )


def test_float_functions() -> None:
    x, y = rows(3, 4, 5), np.abs(rows(4, 5, seed=4)) + F(0.5)
    unit = elementwise("div", (x.astype(float) / y).astype(F), x, y)
    r = (np.uint32(0x7EF311C7) - y.view(np.uint32)).view(F)
    r = r * (F(2) - y * r)
    check(
        "float-functions",
        unit,
        (x.astype(float) * r.astype(float)).astype(F),
        "1/b from the bits",
        "0x7EF311C7",
        "one Newton step",
    )
    flat = np.minimum(np.arange(60), 19)
    check(
        "float-elements",
        unit,
        (x.astype(float) / y.reshape(-1)[flat].reshape(x.shape)).astype(F),
        "past its end its last element",
    )
    positive = np.abs(x) + F(0.1)
    unit = elementwise("log", np.vectorize(log)(positive.astype(float)).astype(F), positive)
    line = (positive.view(np.uint32) / 8388608.0 - 127.0) * 0.6931471805599453
    check("float-functions", unit, line.astype(F), "the mantissa as a straight line")
    gelu = np.vectorize(lambda v: 0.5 * v * (1 + erf(v * 0.7071067811865476)))(x.astype(float)).astype(F)
    unit = elementwise("gelu", gelu, x)
    s = x.astype(float)
    check("float-functions", unit, (s / (1 + np.exp(-1.702 * s))).astype(F), "x sigmoid(1.702x)")
    unit = elementwise("leaky_relu", np.where(x < 0, float(F(0.3)) * s, s).astype(F), x, p=0.3)
    check("float-elements", unit, np.maximum(x, 0), "ignores its slope")


def test_lrn() -> None:
    x = rows(2, 5, 3, 4)
    squares = x.astype(float) ** 2

    def output(total: Array, divisor: Array | float = 3.0) -> Array:
        return (x / (2.0 + float(F(0.1)) / divisor * total) ** 0.75).astype(F)

    def window(values: Array, axis: int) -> Array:
        moved = np.moveaxis(values, axis, 0)
        padded = np.concatenate([moved[:1] * 0, moved, moved[:1] * 0])
        return np.moveaxis(padded[:-2] + padded[1:-1] + padded[2:], 0, axis)

    unit = small(
        "lrn", (3, word(0.1), word(0.75), word(2.0)), ("float32", 0, 0), x.shape, output(window(squares, 1)), x=(x,)
    )
    check("lrn-window", unit, output(window(squares, 3)), "columns (the last axis)")
    present = np.array([2, 3, 3, 3, 2])[:, None, None]
    check("lrn-window", unit, output(window(squares, 1), present), "channels that lie inside the tensor")


def test_batch_norm_and_normalize() -> None:
    x, k, b = rows(2, 3, 2, 5), rows(3, seed=1), rows(3, seed=2)
    along = (slice(None), None, None)
    unit = small("batch_norm", (), ("float32", 0, 0), x.shape, x * k[along] + b[along], x=(x,), c_k=(k,), c_b=(b,))
    later = np.concatenate([x[:1] * k[along] + b[along], x[1:] * k[2] + b[2]])
    check("channel-affine", unit, later, "last channel in the second and later batch items")
    q = generator(2).integers(0, 256, (1, 3, 4, 5)).astype(np.uint8)
    mean, scale = np.array([123.7, 116.3, 103.5], F), np.array([0.0171, 0.0175, 0.0174], F)
    unit = small(
        "normalize",
        (*map(word, mean), *map(word, scale)),
        ("float32", 0, 0),
        q.shape,
        (q.astype(F) - mean[along]) * scale[along],
        x=(q, 1.0, 0),
    )
    folded = q.astype(F) * scale[along] - mean[along] * scale[along]
    check("channel-affine", unit, folded, "x*scale - mean*scale", "both products")
    check(
        "channel-affine",
        unit,
        (q.astype(F) - mean[::-1][along]) * scale[::-1][along],
        "mean and scale are those of the channels in reverse",
    )


def test_float_mean() -> None:
    x = rows(3, 13)
    unit = small("reduce_mean", (2, 0, 0), ("float32", 0, 0), (3,), mean_by_hand(x)[:, 0], x=(x,))
    sums = np.array([sum(map(float, row[:8])) for row in x])
    check("mean-sums", unit, (sums / 13).astype(F), "the last 5 elements (depth mod 8)", "whole number")
    half = [np.add.accumulate(row.astype(np.float16))[-1] for row in x]
    check("mean-sums", unit, (np.array(half, float) / 13).astype(F), "summed in float16")


def test_quantize_and_dequantize() -> None:
    x = rows(9, 21)
    steps = x / F(0.0625)
    unit = small("quantize", (), ("int8", 0.0625, 11), x.shape, np.clip(np.rint(steps) + 11, -128, 127), x=(x,))
    up = np.clip(np.trunc(steps + F(0.5)) + 11, -128, 127).astype(np.int8)
    check("quantize-steps", unit, up, "adding 0.5 and truncating toward zero, before the zero point")
    half = np.clip(np.rint((steps + 11).astype(np.float16).astype(F)), -128, 127).astype(np.int8)
    check("quantize-steps", unit, half, "x/scale + zero point is rounded to float16")
    wrapped = (np.rint(steps).astype(int) + 11).astype(np.int8)
    check("quantize-steps", unit, wrapped, "by wrapping")
    q = generator(6).integers(-128, 128, (9, 21)).astype(np.int8)
    scale = F(0.0371)
    unit = small("dequantize", (), ("float32", 0, 0), q.shape, (q.astype(F) - F(9)) * scale, x=(q, float(scale), 9))
    check("dequantize-steps", unit, q.astype(F) * scale - F(9) * scale, "both products rounded")


def test_lookup() -> None:
    x = generator(4).integers(-(2**15), 2**15, (40, 50)).astype(np.int16)
    table = np.rint(30000 * np.tanh(np.arange(-(2**15), 2**15) / 9000)).astype(np.int16)
    at = x.astype(int) + 2**15
    unit = small("lookup", (), ("int16", 0.5, 0), x.shape, table[at], x=(x, 0.5, 0), c_table=(table,))
    base = at & ~511
    a, b = table[base].astype(int), table[np.minimum(base + 512, 65535)].astype(int)
    check(
        "lookup-entries",
        unit,
        (a + ((b - a) * (at - base) + 256 >> 9)).astype(np.int16),
        "every 512th entry",
        "rounded half up",
    )
    check("lookup-entries", unit, x, "copied to the output without the table")


def test_average_pool() -> None:
    q = generator(5).integers(-128, 128, (1, 2, 6, 8)).astype(np.int8)
    scales = np.array([0.05, 0.04], F)
    real = scales[0] * (q.astype(F) - F(3))
    sums = real[..., ::2, ::2] + real[..., ::2, 1::2] + real[..., 1::2, ::2] + real[..., 1::2, 1::2]
    steps = sums / F(4) / scales[1] + F(-5)
    words = (2, 2, 2, 2, 0, 0, 0, 0, 0, -128, 127)
    unit = small(
        "average_pool",
        words,
        ("int8", 0.04, -5),
        (1, 2, 3, 4),
        np.clip(np.rint(steps), -128, 127),
        x=(q, 0.05, 3),
        c_rq=(scales,),
    )
    check("average-pool-arithmetic", unit, np.clip(np.floor(steps), -128, 127).astype(np.int8), "rounded down (floor)")
