"""Forensics: faults planted by plain numpy are named; what no hypothesis covers is unexplained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.plain.forensic_units import SX, SY, ZX, ZY, Conv, Small, families, generator

Array = Any


def _quantized_multiplier(real: Array, bits: int) -> tuple[Array, Array]:
    fraction, exponent = np.frexp(real)
    return np.floor(fraction * 2.0**bits + 0.5).astype(np.int64), exponent.astype(np.int64)


def gemmlowp(c: Conv) -> Array:
    m, e = _quantized_multiplier(SX * c.sw.astype(np.float64) / SY, 31)
    assert (e <= 0).all()
    high = np.stack(
        [[[_exact_srdhm(int(a), int(mm)) for a in row] for row in plane] for plane, mm in zip(c.acc(), m, strict=True)]
    )
    right = -e[:, None, None]
    mask = (1 << right) - 1
    return c.clipped((high >> right) + ((high & mask) > (mask >> 1) + (high < 0)))


def _exact_srdhm(a: int, m: int) -> int:
    nudged = a * m + (1 << 30 if a * m >= 0 else 1 - (1 << 30))
    return nudged >> 31 if nudged >= 0 else -(-nudged >> 31)


def multiplier(bits: int, half: bool) -> Callable[[Conv], Array]:
    def make(c: Conv) -> Array:
        m, e = _quantized_multiplier(SX * c.sw.astype(np.float64) / SY, bits)
        t = (bits - e)[:, None, None]
        return c.clipped((c.acc() * m[:, None, None] + (1 << (t - 1)) * half) >> t)

    return make


def saturated_steps(c: Conv) -> Array:
    acc = np.repeat(c.b.astype(np.int64), 99).reshape(10, 9, 11)
    for tap, weight in zip(c.columns(), c.w.reshape(10, -1).T.astype(np.int64), strict=True):
        acc = np.clip(acc + weight[:, None, None] * tap, -32768, 32767)
    return c.out(acc)


def wrapped16(c: Conv) -> Array:
    return c.out(c.acc().astype(np.int16).astype(np.int64))


def saturated_pairs_of_bytes(c: Conv) -> Array:
    """An x86 processor without VNNI: its first operand is unsigned (x + 128), and the sum of two products has 16 bits."""
    taps = c.columns(zero=0, pad=ZX).reshape(6, 3, 3, 9, 11).transpose(1, 2, 0, 3, 4).reshape(54, 9, 11) + 128
    weights = c.w.astype(np.int64).transpose(0, 2, 3, 1).reshape(10, 54)
    acc = np.zeros((10, 9, 11), np.int64)
    for k in range(0, 54, 2):
        pair = sum(weights[:, k + i, None, None] * taps[k + i] for i in (0, 1))
        acc += np.clip(pair, -32768, 32767)
    return c.out(acc + (c.b.astype(np.int64) - (128 + ZX) * weights.sum(1))[:, None, None])


FAULTS: dict[str, tuple[str, Callable[[Conv], Array]]] = {
    "8-bit multiplier": ("rounding", multiplier(8, True)),
    "floor": ("rounding", multiplier(31, False)),
    "16 bits saturate": ("accumulator", saturated_steps),
    "16 bits wrap": ("accumulator", wrapped16),
    "pairs of shifted bytes saturate": ("shifted-pairs", saturated_pairs_of_bytes),
    "no bias": ("bias", lambda c: c.out(c.acc(bias=np.zeros(10)))),
    "next channel's bias": ("bias", lambda c: c.out(c.acc(bias=np.roll(c.b, -1)))),
    "input zero point 0": ("zero-point", lambda c: c.out(c.acc(zero=0))),
    "input zero point 11": ("zero-point", lambda c: c.out(c.acc(zero=11))),
    "weight zero point 3": ("zero-point", lambda c: c.out(c.acc(w=c.w.astype(np.int64) - 3))),
    "output zero point 0": (
        "zero-point",
        lambda c: c.clipped(np.rint(c.acc().astype(np.float32) * c.rq[:, None, None]), zero=0),
    ),
    "one added, not saturated": ("zero-point", lambda c: (c.out().view(np.uint8) + np.uint8(1)).view(np.int8)),
    "nothing was written": ("dropped-or-repeated", lambda c: np.full_like(c.out(), 0x55)),
    "zeros as padding": ("pad-value", lambda c: c.out(c.acc(pad=0))),
    "77 as padding": ("pad-value", lambda c: c.out(c.acc(pad=77))),
    "next channel's scale": ("scales", lambda c: c.out(rq=np.roll(c.rq, -1))),
    "first scale for all": ("scales", lambda c: c.out(rq=np.full(10, c.rq[0]))),
    "shift one too large": ("scales", lambda c: c.out(rq=c.rq / 2)),
    "no clamp": ("clamp", lambda c: c.out(low=-128, high=127)),
    "extra Relu": ("clamp", lambda c: c.out(low=ZY)),
    "other clamp": ("clamp", lambda c: c.out(high=60)),
}


def _flipped_weight(c: Conv) -> Array:
    w = c.w.copy()
    w[7, 2, 1, 0] ^= 32
    return c.out(c.acc(w=w))


def _flipped_bias(c: Conv) -> Array:
    b = c.b.copy()
    b[4] ^= 1 << 12
    return c.out(c.acc(bias=b))


def _in_rows_of(y: Array, stride: int) -> Array:
    """Rows written at a distance of `stride`, read dense."""
    buffer = np.zeros(y.shape[1] * y.shape[2] * stride, np.int8)
    for i, row in enumerate(y.reshape(-1, y.shape[3])):
        buffer[i * stride : i * stride + len(row)] = row
    return buffer[: y.size].reshape(y.shape)


def _with(y: Array, where: Any, value: Any) -> Array:
    y[where] = value
    return y


def _dropped_row(y: Array) -> Array:
    y[:, :, 5:-1] = y[:, :, 6:].copy()
    return y


def _other_start(c: Conv) -> Array:
    """Padding below instead of above."""
    padded = np.pad(c.x[0].astype(np.int64) - ZX, ((0, 0), (0, 2), (1, 1)))
    taps = np.stack([padded[k, i : i + 9, j : j + 11] for k in range(6) for i in range(3) for j in range(3)])
    total = np.tensordot(c.w.reshape(10, -1).astype(np.int64), taps, 1)
    return c.out(total + c.b.astype(np.int64)[:, None, None])


FAULTS |= {
    "weights unsigned": ("signedness", lambda c: c.out(c.acc(w=c.w.view(np.uint8)))),
    "input unsigned": ("signedness", lambda c: c.out(c.acc(x=c.x.view(np.uint8)))),
    "output + 128": ("signedness", lambda c: (c.out().view(np.uint8) + np.uint8(128)).view(np.int8)),
    "input NHWC": ("layout", lambda c: c.out(c.acc(x=np.moveaxis(c.x, 1, 3).reshape(c.x.shape)))),
    "output NHWC": ("layout", lambda c: np.moveaxis(c.out(), 1, 3).reshape(1, 10, 9, 11)),
    "weights OHWI": ("layout", lambda c: c.out(c.acc(w=np.moveaxis(c.w, 1, 3).reshape(c.w.shape)))),
    "input channels reversed": ("channel-order", lambda c: c.out(c.acc(x=c.x[:, ::-1]))),
    "two channels exchanged": ("channel-order", lambda c: c.out()[:, [0, 1, 7, 3, 4, 5, 6, 2, 8, 9]]),
    "rows of 16": ("alignment", lambda c: _in_rows_of(c.out(), 16)),
    "a row is 0": ("dropped-or-repeated", lambda c: _with(c.out(), np.s_[:, :, 4], 0)),
    "a row repeats": ("dropped-or-repeated", lambda c: _with(c.out(), np.s_[:, :, 4], c.out()[:, :, 3])),
    "a channel is missing": ("dropped-or-repeated", lambda c: _with(c.out(), np.s_[:, 6], ZY)),
    "an input row is missing": ("dropped-input", lambda c: c.out(c.acc(x=_with(c.x.copy(), np.s_[:, :, 5], ZX)))),
    "an input column repeats": (
        "dropped-input",
        lambda c: c.out(c.acc(x=_with(c.x.copy(), np.s_[..., 5], c.x[..., 4]))),
    ),
    "an input channel is 0": ("dropped-input", lambda c: c.out(c.acc(x=_with(c.x.copy(), np.s_[:, 2], 0)))),
    "a tile repeats": ("dropped-or-repeated", lambda c: _with(c.out(), np.s_[:, :, 4:8, 4:8], c.out()[:, :, 4:8, 0:4])),
    "a row is dropped, the others move up": ("dropped-or-repeated", lambda c: _dropped_row(c.out())),
    "the end was not written": (
        "dropped-or-repeated",
        lambda c: _with(c.out().reshape(-1), np.s_[700:], 0).reshape(1, 10, 9, 11),
    ),
    "one row further": ("window", _other_start),
    "kernel rotated": ("kernel-order", lambda c: c.out(c.acc(w=c.w[:, :, ::-1, ::-1]))),
    "words reversed": ("byte-order", lambda c: _fours(c.out())),
    "one element late": ("element-offset", lambda c: np.roll(c.out().reshape(-1), 1).reshape(1, 10, 9, 11)),
    "a bit of one element": ("bit-flip", lambda c: _with(c.out(), (0, 3, 4, 5), c.out()[0, 3, 4, 5] ^ 16)),
    "a bit of all elements": ("bit-flip", lambda c: c.out() | np.int8(4)),
    "a bit of one weight": ("bit-flip", _flipped_weight),
    "a bit of one bias": ("bit-flip", _flipped_bias),
}


def _fours(y: Array) -> Array:
    flat = y.reshape(-1)
    whole = flat.size // 4 * 4
    return np.append(flat[:whole].reshape(-1, 4)[:, ::-1], flat[whole:]).reshape(y.shape)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(name: str):
    family, plant = FAULTS[name]
    c = Conv(low=-60, high=90)
    found = c.explained(plant(c))
    assert found.exact and family in families(found)[0], (found.exact, found.partial)
    assert not found.unexplained and len(found.kinds) <= 2


def test_gemmlowp_and_cmsis_are_told_from_the_rest():
    c = Conv(coarse=True)
    found = c.explained(gemmlowp(c))
    assert any("gemmlowp" in cause.said for cause in found.exact[0])


def test_the_plain_numpy_arithmetic_is_the_simulators():
    c = Conv(low=-60, high=90)
    found = c.explained(c.out())
    assert found.exact == [] and not found.unexplained and found.description.differing == 0


@pytest.mark.parametrize("seed", range(2))
def test_random_corruption_is_unexplained(seed: int):
    c, rng = Conv(), generator(seed)
    recorded = c.out()
    spoiled = rng.random(recorded.shape) < 0.3
    recorded[spoiled] = rng.integers(-128, 128, int(spoiled.sum()))
    found = c.explained(recorded)
    assert found.unexplained and not found.exact and not found.general


def test_what_is_left_of_the_frame_before():
    c, rng = Conv(), generator(1)
    old = rng.integers(-128, 128, (1, 10, 9, 11)).astype(np.int8)
    found = c.explained(old, previous=lambda n: old if n == "y" else None)
    assert families(found) == [{"stale-buffer"}]
    x = rng.integers(-128, 128, c.x.shape).astype(np.int8)
    found = c.explained(c.out(c.acc(x=x)), previous=lambda n: x if n == "x" else None)
    assert families(found) == [{"stale-buffer"}] and "x is read" in found.exact[0][0].said
    part = c.out()
    part[0, 3:7] = old[0, 3:7]
    found = c.explained(part, previous=lambda n: old if n == "y" else None)
    assert families(found) == [{"stale-buffer"}] and "297" in found.exact[0][0].said


def test_groups_of_a_grouped_convolution():
    c = Conv(group=2)
    found = c.explained(c.out(c.acc(x=np.roll(c.x, 3, 1))))
    assert "group-order" in families(found)[0]


def _add(
    order: tuple[int, int] = (0, 1), floor: bool = False, ratios: tuple[float, float] = (0.8123, 0.3077)
) -> tuple[Small, Array]:
    rng = generator(5)
    x = [rng.integers(-128, 128, (1, 5, 7, 11)).astype(np.int8) for _ in range(2)]
    small = Small(
        "add",
        (0, -128, 127),
        ("int8", 1.0, 3),
        x[0].shape,
        a=(x[0], ratios[0], 4),
        b=(x[1], ratios[1], -6),
        c_rq=(np.array(ratios),),
    )
    a, b = x[order[0]].astype(np.int64), x[order[1]].astype(np.int64)
    value = (a - 4) * ratios[0] + (b + 6) * ratios[1]
    return small, np.clip((np.floor if floor else np.rint)(value) + 3, -128, 127).astype(np.int8)


def test_an_addition():
    small, right = _add()
    assert small.explained(right).description.differing == 0
    small, exchanged = _add((1, 0))
    (group,) = small.explained(exchanged).exact
    assert group[0].family == "operand-order" and {c.family for c in group} == {"operand-order", "add-terms"}
    small, floored = _add(floor=True)
    assert "rounding" in families(small.explained(floored))[0]


def test_a_table():
    rng = generator(6)
    x, table = rng.integers(-128, 128, (1, 700)).astype(np.int8), np.sort(rng.integers(-128, 128, 256)).astype(np.int8)
    small = Small("lookup", (), ("int8", 0.1, 0), x.shape, x=(x, 0.1, 0), c_table=(table, 0.1, 0))
    for index in (x.view(np.uint8), np.minimum(x.astype(np.int64) + 129, 255), 127 - x.astype(np.int64)):
        assert families(small.explained(table[index]))[0] >= {"lookup-index"}
    spoiled = table.copy()
    spoiled[77] ^= 64
    assert families(small.explained(spoiled[x.astype(np.int64) + 128])) == [{"bit-flip"}]


def _pool(x: Array, start: int, size: int, way: Callable[..., Array]) -> Array:
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (4, 9), (4, 9)), constant_values=-np.inf)
    rows = [
        padded[:, :, 4 + start + i : 4 + start + i + 14 : 2, 4 + start + j : 4 + start + j + 18 : 2]
        for i in range(size)
        for j in range(size)
    ]
    return way(np.stack(rows), 0).astype(np.int8)


def test_a_pooling_window():
    x = generator(7).integers(-128, 128, (1, 4, 13, 17)).astype(np.int8)
    small = Small("max_pool", (3, 3, 2, 2, 1, 1, 1, 1, 1, 1), ("int8", 0.1, 9), (1, 4, 7, 9), x=(x, 0.1, 9))
    assert small.explained(_pool(x, -1, 3, np.max)).description.differing == 0
    assert families(small.explained(_pool(x, -1, 2, np.max))) == [{"window"}]
    assert families(small.explained(_pool(x, 0, 3, np.max))) == [{"window", "window-words"}]
    small.inputs["x"] = x = np.minimum(x, -20)
    padded = np.maximum(
        _pool(x, -1, 3, np.max), _pool(np.zeros_like(x) - 1, -1, 3, lambda r, a: np.isinf(r).any(a) * 128 - 128)
    )
    assert "pad-value" in families(small.explained(padded))[0]


def test_a_resize():
    x = generator(8).integers(0, 256, (1, 3, 5, 7)).astype(np.uint8)
    half = [np.clip(np.floor((np.arange(n * 2) + 0.5) / 2), 0, n - 1).astype(np.int32) for n in (5, 7)]
    index = np.concatenate([np.arange(1), np.arange(3), *half]).astype(np.int32)
    small = Small("resize_nearest", (), ("uint8", 0.1, 9), (1, 3, 10, 14), x=(x, 0.1, 9), c_index=(index,))
    rows, columns = (np.arange(n * 2) * (n - 1) // (2 * n - 1) for n in (5, 7))
    (group,) = small.explained(x[:, :, rows][:, :, :, columns]).exact
    assert {c.family for c in group} == {"resize-mode", "resize-nearest-source"}
    assert "resize: align_corners, floor" in [c.said for c in group]


def test_a_nan_that_is_scrubbed():
    x = generator(9).normal(0, 1, (1, 3, 5, 7)).astype(np.float32)
    x[0, 1, 2, 3:5] = np.nan
    small = Small("quantize", (), ("uint8", 0.02, 128), x.shape, x=(x,))
    recorded = np.clip(np.rint(np.nan_to_num(x) / np.float32(0.02)) + 128, 0, 255).astype(np.uint8)
    found = small.explained(recorded)
    assert families(found)[0] == {"nan-scrub"}


def test_big_endian_elements():
    x = generator(10).integers(-32768, 32768, (1, 3, 5, 7)).astype(np.int16)
    small = Small("transpose", (0, 1, 2, 3), ("int16", 0.02, 0), x.shape, x=(x, 0.02, 0))
    assert families(small.explained(x.byteswap()))[0] >= {"byte-order"}


@pytest.mark.parametrize("seed", range(1))
def test_a_fault_of_no_kind_is_unexplained(seed: int):
    c, rng = Conv(), generator(seed)
    y = c.out()
    noisy = np.clip(y.astype(int) + rng.integers(-1, 2, y.shape), -128, 127).astype(np.int8)
    shuffled = rng.permutation(y.reshape(-1)).reshape(y.shape)
    w = c.w.copy()
    w[3] = rng.integers(-128, 128, w[3].shape)
    few = y.copy()
    few.reshape(-1)[rng.choice(y.size, 5, replace=False)] = rng.integers(-128, 128, 5)
    block = y.copy()
    block[:, :, 2:5, 3:8] = rng.integers(-128, 128, (1, 10, 3, 5))
    for recorded in (noisy, shuffled, c.out(c.acc(w=w)), few, block):
        found = c.explained(recorded)
        assert found.unexplained, found.exact
