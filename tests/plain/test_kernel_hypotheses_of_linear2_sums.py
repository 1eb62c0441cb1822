"""Kernel faults of convolutions that work in blocks, lanes and panels, planted in plain numpy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.plain.fault_units import PAGES, case_of
from tests.plain.forensic_units import ZX, Conv
from tests.plain.test_kernel_hypotheses_of_linear2 import planted, says

Array = Any
COARSE = Conv(coarse=True)


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
