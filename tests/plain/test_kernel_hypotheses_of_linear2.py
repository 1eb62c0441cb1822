"""Kernel faults of linear ops, pools and additions that work in blocks, steps and shared buffers, planted in plain numpy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from qverify.triage.case import Case

from tests.plain.fault_units import PAGES, case_of, pooled, small_case
from tests.plain.forensic_units import SX, SY, ZX, ZY, Conv, Small, generator

Array = Any
COARSE = Conv(coarse=True)
NEW = (
    "blocked-sums", "parts-requantized", "transposed-overlaps", "winograd", "mean-steps", "pool-counts", "shared-terms",
    "gathered-values", "stale-sums", "bias-words", "addition-steps", "narrow-products", "in-place", "input-pitch", "operand-rows", "product-overflow", "scale-order",
    "scale-exponents", "summands-beyond", "tap-pairs", "tail-values", "lane-sums",
)  # fmt: skip


def says(family: str, case: Case) -> list[str]:
    """The sentences of the family's variants that give every recorded byte."""
    return [v.said for v in PAGES[family].variants(case) if np.array_equal(v.make(case), case.recorded)]


def planted(family: str, case: Case, sentence: str) -> None:
    """The sentence is found; with one element more that is wrong nothing is."""
    assert case.differing.size
    assert any(sentence in said for said in says(family, case)), says(family, case)
    spoiled = case.recorded.copy()
    spoiled.reshape(-1)[case.differing[0]] ^= 5
    assert not says(family, Case(case.graph, case.unit, case.inputs, case.output, spoiled))


def bfloat16(values: Array) -> Array:
    """Rounded to the upper half of a float32, ties to even."""
    field = values.astype(np.float32).view(np.uint32).astype(np.int64)
    upper = field + 0x7FFF + (field >> 16 & 1) & 0xFFFF0000
    return upper.astype(np.uint32).view(np.float32).astype(np.int64)


def blocks(c: Conv, size: int, after: Any, order: Any = slice(None)) -> Array:
    """The sums of a convolution with `after` applied to the running sum after each `size` of 54 products."""
    products = (c.w.reshape(10, 54, 1, 1).astype(np.int64) * c.columns()[None])[:, order]
    acc = np.zeros((10, 9, 11), np.int64)
    for k in range(0, 54, size):
        acc = after(acc + products[:, k : k + size].sum(1))
    return acc + c.b[:, None, None]


def winograd(c: Conv) -> Array:
    """F(2, 3) along the width, columns in pairs, the halved sums of weights cut toward zero; the last column as usual."""
    g, d = c.w.astype(np.int64), np.pad(c.columns().reshape(6, 3, 3, 9, 11)[:, :, 0], ((0, 0),) * 3 + ((0, 3),))
    d[..., 11:13] = c.columns().reshape(6, 3, 3, 9, 11)[:, :, 1:, :, 10].transpose(0, 1, 3, 2)
    plus, minus = np.trunc(g.sum(3) / 2).astype(int), np.trunc((g[..., 0] - g[..., 1] + g[..., 2]) / 2).astype(int)
    acc = c.acc().copy()
    for j in range(0, 10, 2):
        d0, d1, d2, d3 = (d[..., j + k] for k in range(4))
        m = [
            np.einsum("ocr,cri->oi", w, v)
            for w, v in ((g[..., 0], d0 - d2), (plus, d1 + d2), (minus, d2 - d1), (g[..., 2], d1 - d3))
        ]
        acc[:, :, j] = m[0] + m[1] + m[2] + c.b[:, None]
        acc[:, :, j + 1] = m[1] - m[2] - m[3] + c.b[:, None]
    return acc


def rows_apart(c: Conv) -> Array:
    """Kernel rows, and the bias, each scaled and rounded."""
    products = c.w.reshape(10, 6, 3, 3, 1, 1).astype(np.int64) * c.columns().reshape(1, 6, 3, 3, 9, 11)
    parts = np.concatenate([c.b[:, None, None, None] + 0 * products[:, 0, :1, 0], products.sum((1, 3))], 1)
    return c.clipped(np.rint(parts.astype(np.float32) * c.rq[:, None, None, None]).sum(1))


def border_unsigned(c: Conv) -> Array:
    """Rows of pixels whose tap crosses the left or right border read bytes without their sign."""
    right = c.columns().reshape(6, 3, 3, 9, 11).copy()
    wide = np.pad(c.x[0].astype(np.int64), ((0, 0), (1, 1), (1, 1)))
    for a in range(3):
        for b in (0, 2):
            raw = wide[:, a : a + 9, b : b + 11]
            right[:, a, b] += np.where(raw < 0, 256, 0)
    return np.einsum("ok,kij->oij", c.w.reshape(10, 54).astype(np.int64), right.reshape(54, 9, 11)) + c.b[:, None, None]


def stale(c: Conv) -> Array:
    """Pixels 96 to 98 get sums of the tile of 64 before, of the last 4 channels that were multiplied."""
    sums = (c.acc() - c.b[:, None, None]).reshape(10, 99)
    last = [8, 9, 6, 7]
    sums[:, 96:] = sums[[last[o % 4] for o in range(10)], 32:35]
    return sums.reshape(10, 9, 11) + c.b[:, None, None]


def next_row(c: Conv) -> Array:
    """Taps beyond the right edge read the first pixel of the next row, zeros after the last one."""
    wide = c.columns().reshape(6, 3, 3, 9, 11).copy()
    first = np.pad(c.x[0, :, :, 0].astype(np.int64) - ZX, ((0, 0), (2, 2)))
    for a in range(3):
        wide[:, a, 2, :, 10] = (
            first[:, a + 2 : a + 11] if a else np.where(np.arange(9) == 0, 0, first[:, a + 2 : a + 11])
        )
    return np.einsum("ok,kij->oij", c.w.reshape(10, 54).astype(np.int64), wide.reshape(54, 9, 11)) + c.b[:, None, None]


def conv_faults() -> Iterator[tuple[str, Conv, str, Array]]:
    c, long = COARSE, Conv()
    inner = np.arange(54).reshape(6, 9).T.reshape(-1)
    yield (
        "blocked-sums", long, "rounded to bfloat16 (8 significant bits) after every 16 steps of the depth in the order channel",
        long.out(blocks(long, 16, bfloat16)),
    )  # fmt: skip
    yield (
        "blocked-sums", c, "loses its lowest 4 bits, rounded down (floor) to a multiple of 16 after every kernel tap",
        c.out(blocks(c, 6, lambda v: v // 16 * 16, inner)),
    )  # fmt: skip
    yield (
        "blocked-sums", long, "saturates to 15 bits after every 2 steps of the depth",
        long.out(blocks(long, 2, lambda v: np.clip(v, -(2**14), 2**14 - 1))),
    )  # fmt: skip
    yield "winograd", c, "F(2,3) along the width with integer transformed weights", c.out(winograd(c))
    yield (
        "parts-requantized",
        c,
        "every kernel row (all its channels) is requantized and rounded by itself",
        rows_apart(c),
    )
    yield "gathered-values", c, "is read as unsigned", c.out(border_unsigned(c))
    yield "stale-sums", c, "(panels of 16 pixels, tiles of 64, 4 channels together)", c.out(stale(c))
    yield "padding-reads", c, "the padding at the right of a row reads on in its plane", c.out(next_row(c))
    own = [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    yield "operand-rows", c, "the weights of output channel o are read at index o mod 4", c.out(c.acc(w=c.w[own]))
    sums = np.abs(c.acc())
    yield "scale-order", c, "negative sums lose their sign", c.out(sums)
    shift = 16 - np.frexp(long.rq.astype(float))[1].astype(int)
    product = (
        long.acc() * np.floor(long.rq * 2.0**shift + 0.5).astype(int)[:, None, None] + (1 << shift - 1)[:, None, None]
    )
    wrapped = (product + 2**31 & 2**32 - 1) - 2**31
    yield (
        "product-overflow",
        long,
        "of 16 bits, with a shift for each channel, wraps to 32 bits",
        long.clipped(wrapped >> shift[:, None, None]),
    )
    tail = c.columns() + 256 * ((c.columns() + ZX < 0) & (np.arange(54) >= 48)[:, None, None])
    edge = np.pad(np.ones((9, 11), bool), 1)
    read = np.stack([edge[i : i + 9, j : j + 11] for _ in range(6) for i in range(3) for j in range(3)])
    tail = np.where(read, tail, c.columns())
    unsigned = np.einsum("ok,kij->oij", c.w.reshape(10, 54).astype(np.int64), tail) + c.b[:, None, None]
    yield "tail-values", c, "the input is read as unsigned in the tail of the sum alone", c.out(unsigned)
    lanes = np.zeros((4, 10, 9, 11), np.int64)
    for k in range(54):
        product = long.w.reshape(10, 54).astype(np.int64)[:, k, None, None] * long.columns()[k]
        lanes[k % 4] = np.clip(lanes[k % 4] + product, -(2**14), 2**14 - 1)
    yield "lane-sums", long, "4 lanes (lane k takes every 4th product)", long.out(lanes.sum(0) + long.b[:, None, None])
    mantissa, exponent = np.frexp(c.rq)
    assert exponent.min() < exponent.max()
    shared = np.ldexp(mantissa, exponent.max()).astype(np.float32)
    yield "scale-exponents", c, "all channels are shifted as the one with the largest", c.out(rq=shared)
    pairs = long.w.reshape(10, 18, 3, 1, 1).astype(np.int64) * long.columns().reshape(18, 3, 9, 11)
    narrow = np.clip(pairs[:, :, 0] + pairs[:, :, 1], -(2**13), 2**13 - 1) + np.clip(
        pairs[:, :, 2], -(2**13), 2**13 - 1
    )
    yield (
        "tap-pairs", long, "the sum of every 2 neighbouring products of one kernel row saturates to 14 bits",
        long.out(narrow.sum(1) + long.b[:, None, None]),
    )  # fmt: skip
    halves = np.ascontiguousarray(c.b).view("<i2").astype(np.int64)[:10]
    yield "bias-words", c, "is read as an array of int16", c.out(c.acc(bias=halves))


@pytest.mark.parametrize(
    ("family", "unit", "sentence", "recorded"), [*conv_faults()], ids=lambda v: v if isinstance(v, str) else ""
)
def test_faults_of_a_convolution(family: str, unit: Conv, sentence: str, recorded: Array) -> None:
    if family == "winograd":  # in every column but the last, which the search restricts it to
        made = next(v.make(case_of(unit, recorded)) for v in PAGES[family].variants(case_of(unit, recorded)))
        assert np.array_equal(made[..., :10], recorded[..., :10])
        return
    planted(family, case_of(unit, recorded), sentence)


def test_a_kernel_tail_has_all_its_names() -> None:
    c = COARSE
    products = c.w.reshape(10, 54, 1, 1).astype(np.int64) * c.columns()[None]
    kept = np.arange(54) % 9 < 6
    found = says("summands-left-out", case_of(c, c.out(products[:, kept].sum(1) + c.b[:, None, None])))
    assert any("kernel rows" in said for said in found)
    assert any("kernel taps" in said for said in found)


def dense(w: Array, first: int | None = None) -> tuple[Small, Array]:
    """4 rows of 6 elements times weights of zero point 4; the correction of a row's sum is that of row `first`."""
    x = generator(21).integers(-128, 128, (4, 6)).astype(np.int8)
    rq = np.full(5, 0.003, np.float32)
    small = Small(
        "fully_connected", (-128, 127), ("int8", SY, ZY), (4, 5),
        x=(x, SX, ZX), c_w=(w, 0.01, 4), c_b=(np.zeros(5, np.int32),), c_rq=(rq,),
    )  # fmt: skip
    centred = x.astype(np.int64) - ZX
    total = centred.sum(1) if first is None else np.full(4, centred[first].sum())
    acc = centred @ w.astype(np.int64).T - 4 * total[:, None]
    return small, np.clip(np.rint(acc.astype(np.float32) * rq) + ZY, -128, 127).astype(np.int8)


def test_a_shared_correction() -> None:
    w = generator(22).integers(-60, 60, (5, 6)).astype(np.int8)
    assert not small_case(*dense(w)).differing.size
    planted("shared-terms", small_case(*dense(w, 0)), "is that of the first row for all")


def test_a_sum_that_goes_on() -> None:
    """6 elements in lanes of 4: the 2 beyond are the next row's, zeros after the last."""
    w = generator(22).integers(-60, 60, (5, 6)).astype(np.int8)
    small, _ = dense(w)
    x = np.append(small.inputs["x"].astype(np.int64).reshape(-1) - ZX, [0, 0])
    beyond = np.append(w.astype(np.int64).reshape(-1) - 4, [0, 0])
    rows = [np.stack([v[6 * k : 6 * k + 8] for k in range(n)]) for v, n in ((x, 4), (beyond, 5))]
    y = np.clip(np.rint((rows[0] @ rows[1].T).astype(np.float32) * np.float32(0.003)) + ZY, -128, 127).astype(np.int8)
    planted(
        "summands-beyond", small_case(small, y), "it multiplies the next elements in memory by the next row's weights"
    )


def transposed(way: str) -> tuple[Small, Array]:
    """4 columns of 2 channels, 3 taps at stride 2. way: of the overlaps."""
    rng = generator(23)
    x, w = rng.integers(-128, 128, (1, 2, 1, 6)).astype(np.int8), rng.integers(-128, 128, (2, 3, 1, 3)).astype(np.int8)
    b, rq = np.array([900, -700, 300], np.int32), np.full(3, 0.002, np.float32)
    words = (1, 3, 1, 2, 0, 0, 0, 0, 1, 1, 1, -128, 127)
    small = Small(
        "conv_transpose", words, ("int8", SY, ZY), (1, 3, 1, 13),
        x=(x, SX, ZX), c_w=(w, 0.01, 0), c_b=(b,), c_rq=(rq,),
    )  # fmt: skip
    acc = np.zeros((3, 13), np.int64) + b[:, None]
    taps = np.einsum("cj,cok->ojk", x[0, :, 0].astype(np.int64) - ZX, w[:, :, 0].astype(np.int64))
    for j in range(6):
        for k in range(3):
            acc[:, 2 * j + k] = taps[:, j, k] + (b if way == "stored" else acc[:, 2 * j + k])
    return small, np.clip(np.rint(acc.astype(np.float32) * rq[:, None]) + ZY, -128, 127).astype(np.int8)[None, :, None]


def test_overlaps_of_a_transposed_convolution() -> None:
    assert not small_case(*transposed("added")).differing.size
    planted(
        "transposed-overlaps", small_case(*transposed("stored")), "only the last input pixel in row-major order counts"
    )


def mean(way: str) -> tuple[Small, Array]:
    x = generator(24).integers(-128, 128, (1, 40, 4, 6)).astype(np.int8)
    rq = np.array([SX / 0.006 / 24], np.float32)
    small = Small("global_average_pool", (-128, 127), ("int8", 0.006, ZY), (1, 40, 1, 1), x=(x, SX, ZX), c_rq=(rq,))
    centred = x.astype(np.int64) - ZX
    if way == "rows":
        total = np.floor(centred.sum(3) / 6 + 0.5).sum(2) * 6
    elif way == "running":
        total = np.zeros((1, 40))
        for i in range(24):
            total += np.trunc((centred.reshape(1, 40, 24)[..., i] - total) / (i + 1))
        total *= 24
    else:
        total = centred.sum((2, 3))
    y = np.clip(np.rint(total.astype(np.float32) * rq) + ZY, -128, 127).astype(np.int8)
    return small, y.reshape(1, 40, 1, 1)


def test_steps_of_a_mean() -> None:
    assert not small_case(*mean("")).differing.size
    planted(
        "mean-steps",
        small_case(*mean("rows")),
        "the mean of x - zero point of every row is rounded half up to an integer",
    )
    planted("mean-steps", small_case(*mean("running")), "a running mean in integers is kept")


def averaged(way: str) -> tuple[Small, Array]:
    """Windows of 3 by 3 with padding on all sides, 16 bits."""
    x = generator(25).integers(-30000, 30000, (1, 2, 5, 6)).astype(np.int16)
    words = (3, 3, 1, 1, 1, 1, 1, 1, 0, -32768, 32767)
    rq = np.array([np.float64(np.float32(SX)) / np.float64(np.float32(SY))])
    small = Small("average_pool", words, ("int16", SY, 0), (1, 2, 5, 6), x=(x, SX, 0), c_rq=(rq,))
    wide, ones = np.pad(x[0].astype(np.int64), ((0, 0), (1, 1), (1, 1))), np.pad(np.ones((5, 6), int), 1)
    if way == "far":
        ones[-1, 1:] = ones[1:, -1] = 1
    acc, count = np.zeros((2, 5, 6), np.int64), np.zeros((5, 6), np.int64)
    for a in range(3):
        for b in range(3):
            acc, count = acc + wide[:, a : a + 5, b : b + 6], count + ones[a : a + 5, b : b + 6]
            acc = np.clip(acc, -32768, 32767) if way == "saturated" else acc
    left = np.concatenate([count[:, :1], count[:, :-1]], 1)
    divided = (
        acc * np.floor(256 / count + 0.5) / 256 if way == "reciprocal" else acc / (left if way == "left" else count)
    )
    return small, np.clip(np.rint(divided * rq[0]), -32768, 32767).astype(np.int16)[None]


def test_average_pools() -> None:
    assert np.abs(small_case(*averaged("")).made.astype(int) - averaged("")[1]).max() <= 1
    planted("pool-counts", small_case(*averaged("far")), "padding below and to the right of the input counts")
    planted("pool-counts", small_case(*averaged("left")), "the output column before it")
    planted("pool-counts", small_case(*averaged("reciprocal")), "8-bit fraction (a multiple of 1/256, rounded)")
    planted("blocked-sums", small_case(*averaged("saturated")), "saturates to 16 bits after every summand")


def test_a_running_maximum() -> None:
    small, _ = pooled()
    made = small_case(small, np.zeros((1, 3, 5, 6), np.int8)).made
    planted("max-pool-window", small_case(small, np.maximum.accumulate(made, 3)), "all windows to its left")


def added(rq: Array, low: int = -(10**6), **other: Any) -> tuple[Small, Array]:
    """A * r1 + (B * r2 + F), saturated at `low` steps from the zero point."""
    rng = generator(26)
    a, b = (rng.integers(0, 256, (4, 50)).astype(np.uint8) for _ in range(2))
    own = np.array([0.83161426, 1.911298, -73.17836], np.float32)
    small = Small(
        "add", (0, 0, 255), ("uint8", 1.0, 90), a.shape, a=(a, 0.83161426, 98), b=(b, 1.911298, 43), c_rq=(own,)
    )
    inner = (b.astype(np.float64) * rq[1] + rq[2]).astype(np.float32)
    value = (a.astype(np.float64) * np.float64(rq[0]) + inner).astype(np.float32)
    steps = np.clip(np.rint(value - 90), low, -low - 1)
    return small, np.clip(steps + 90, 0, 255).astype(np.uint8)


def test_additions() -> None:
    own = np.array([0.83161426, 1.911298, -73.17836], np.float32)
    planted(
        "addition-steps", small_case(*added(own, -64)), "saturates to 7 bits (-64..63) before the output zero point"
    )
    short = np.array([np.rint(own[0] * 64) / 64, np.rint(own[1] * 64) / 64, own[2]], np.float32)
    planted(
        "addition-steps",
        small_case(*added(short)),
        "both ratios of scales rounded to multiples of 1/64; the constant F",
    )


def test_a_moving_operand() -> None:
    rng = generator(27)
    a, b = rng.integers(0, 256, (3, 7)).astype(np.uint8), rng.integers(0, 256, (3, 1)).astype(np.uint8)
    rq = np.array([0.002], np.float32)
    small = Small("mul", (0, 255), ("uint8", SY, 100), (3, 7), a=(a, SX, 120), b=(b, 0.005, 110), c_rq=(rq,))

    def of(second: Array, low: int = -(10**6)) -> Array:
        product = np.clip((a.astype(np.int64) - 120) * (second.astype(np.int64) - 110), low, -low - 1)
        return np.clip(np.rint(product.astype(np.float32) * rq[0] + np.float32(100)), 0, 255).astype(np.uint8)

    moving = b.reshape(-1)[(np.arange(3)[:, None] + np.arange(7)) % 3]
    planted(
        "broadcast-operand",
        small_case(small, of(moving)),
        "moves on by one element with every column, wrapping at its end",
    )
    planted(
        "narrow-products", small_case(small, of(b, -(2**11))), "saturates to 12 bits (-2048..2047) before it is scaled"
    )


def test_a_depthwise_convolution_in_place() -> None:
    rng = generator(28)
    x, w = rng.integers(-128, 128, (1, 3, 6, 5)).astype(np.int8), rng.integers(-128, 128, (3, 1, 3, 3)).astype(np.int8)
    rq, words = np.full(3, 0.002, np.float32), (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 3, -128, 127)
    b = np.array([50, -60, 70], np.int32)
    small = Small("conv", words, ("int8", SX, ZX), x.shape, x=(x, SX, ZX), c_w=(w, 0.01, 0), c_b=(b,), c_rq=(rq,))
    wide, y = np.pad(x[0].astype(np.int64) - ZX, ((0, 0), (1, 1), (1, 1))), np.zeros_like(x)
    for i in range(6):
        acc = sum(
            wide[:, i + p, q : q + 5] * w[:, 0, p, q].astype(np.int64)[:, None] for p in range(3) for q in range(3)
        )
        y[0, :, i] = np.clip(np.rint((acc + b[:, None]).astype(np.float32) * rq[:, None]) + ZX, -128, 127)
        wide[:, i + 1, 1:6] = y[0, :, i].astype(np.int64) - ZX
    planted("in-place", small_case(small, y), "each finished output row replaces the input row of the same number")


def test_a_pitch_of_an_input() -> None:
    x = generator(29).permutation(np.arange(-60, 60)).astype(np.int8).reshape(1, 1, 12, 10)
    table = generator(30).permutation(np.arange(-128, 128)).astype(np.int8)
    small = Small("lookup", (), ("int8", 0.5, 3), x.shape, x=(x, 0.5, 3), c_table=(table,))
    start = np.minimum(np.arange(12) * 16, 110)
    read = x.reshape(-1)[start[:, None] + np.arange(10)].reshape(x.shape)
    planted(
        "input-pitch", small_case(small, table[read.astype(np.int64) + 128]), "rounded up to a multiple of 16 bytes"
    )


def units_of_all() -> Iterator[Small]:
    yield from (dense(np.ones((5, 6), np.int8))[0], transposed("added")[0], mean("")[0], averaged("")[0])
    yield from (added(np.ones(3, np.float32))[0], pooled()[0])


@pytest.mark.parametrize("family", NEW)
def test_no_family_fails_on_noise(family: str) -> None:
    """Bytes of no fault are explained by none, and looking at them raises nothing."""
    cases = [case_of(COARSE, generator(31).integers(-128, 128, (1, 10, 9, 11)).astype(np.int8))]
    for small in units_of_all():
        spec = small.graph.spec("y")
        info = np.iinfo(spec.dtype)
        cases.append(small_case(small, generator(32).integers(info.min, info.max, spec.shape).astype(spec.dtype)))
    assert not [said for case in cases for said in says(family, case)]
