"""Forensics: faults planted by plain numpy are named; what no hypothesis covers is unexplained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.plain.forensic_units import SX, SY, ZY, Conv, families, generator

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


FAULTS: dict[str, tuple[str, Callable[[Conv], Array]]] = {
    "8-bit multiplier": ("rounding", multiplier(8, True)),
    "floor": ("rounding", multiplier(31, False)),
    "16 bits saturate": ("accumulator", saturated_steps),
    "16 bits wrap": ("accumulator", wrapped16),
    "no bias": ("bias", lambda c: c.out(c.acc(bias=np.zeros(10)))),
    "next channel's bias": ("bias", lambda c: c.out(c.acc(bias=np.roll(c.b, -1)))),
    "input zero point 0": ("zero-point", lambda c: c.out(c.acc(zero=0))),
    "input zero point 11": ("zero-point", lambda c: c.out(c.acc(zero=11))),
    "weight zero point 3": ("zero-point", lambda c: c.out(c.acc(w=c.w.astype(np.int64) - 3))),
    "output zero point 0": (
        "zero-point",
        lambda c: c.clipped(np.rint(c.acc().astype(np.float32) * c.rq[:, None, None]), zero=0),
    ),
    "zeros as padding": ("pad-value", lambda c: c.out(c.acc(pad=0))),
    "77 as padding": ("pad-value", lambda c: c.out(c.acc(pad=77))),
    "next channel's scale": ("scales", lambda c: c.out(rq=np.roll(c.rq, -1))),
    "first scale for all": ("scales", lambda c: c.out(rq=np.full(10, c.rq[0]))),
    "shift one too large": ("scales", lambda c: c.out(rq=c.rq / 2)),
    "no clamp": ("clamp", lambda c: c.out(low=-128, high=127)),
    "extra Relu": ("clamp", lambda c: c.out(low=ZY)),
    "other clamp": ("clamp", lambda c: c.out(high=60)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(name: str):
    family, plant = FAULTS[name]
    c = Conv(low=-60, high=90)
    found = c.explained(plant(c))
    assert found.exact and family in families(found)[0], (found.exact, found.partial)
    assert not found.unexplained and len(found.exact) <= 2


def test_gemmlowp_and_cmsis_are_told_from_the_rest():
    c = Conv(coarse=True)
    found = c.explained(gemmlowp(c))
    assert any("gemmlowp" in cause.said for cause in found.exact[0])


def test_the_plain_numpy_arithmetic_is_the_simulators():
    c = Conv(low=-60, high=90)
    found = c.explained(c.out())
    assert found.exact == [] and not found.unexplained and found.description.differing == 0


@pytest.mark.parametrize("seed", range(5))
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
    part = c.out()
    part[0, 3:7] = old[0, 3:7]
    found = c.explained(part, previous=lambda n: old if n == "y" else None)
    assert families(found) == [{"stale-buffer"}] and "297" in found.exact[0][0].said
