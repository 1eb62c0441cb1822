"""The logistic function and the hyperbolic tangent of 16 bits in straight segments, as LiteRT's reference kernels and TFLM
compute them (LITERT.md, Functions in segments)."""

from __future__ import annotations

import numpy as np

from qverify.arithmetic import functions64
from qverify.arithmetic.rounding_rules import Array

SEGMENTS, STEPS_OF_ONE = 255, 24  # segments from 0 on, and how many lie between 0 and 1
POSITION = 12  # fraction bits of the input that a multiplier of 3 turns into positions of 9 fraction bits
MOST_MULTIPLIER, MOST_SHIFT, MOST_POSITION = 32767, 30, 2.0**16
ONE = 1 << 16  # stands for 1 in the knots
OUTPUT_SCALE = 2.0**-15


def knots() -> Array:
    """Returns the logistic function at the ends of the segments in steps of 2^-16, int64 [256]. Each is raised by a
    sixteenth of the second difference, so that a segment is as far above the curve at its ends as below it between them."""
    x = np.arange(-1, SEGMENTS + 2) / STEPS_OF_ONE
    value = ONE / (1.0 + functions64.exp(-x))
    bent = value[2:] - 2.0 * value[1:-1] + value[:-2]
    made = np.floor(value[1:-1] - bent / 16.0 + 0.5).astype(np.int64)
    made[SEGMENTS] = ONE - 1
    return made


def positions(scale: float, codes: Array) -> Array:
    """Returns where stored integers (int64, zero point 0) lie, with a 512th of a segment of the logistic function as the
    unit. scale: of the input. Raises ValueError for one whose positions are beyond 32 bits."""
    real, shift = float(np.float32(scale)) * 2.0**POSITION * 3.0, 0
    while real <= MOST_MULTIPLIER / 2.0 and shift <= MOST_SHIFT:
        real, shift = 2.0 * real, shift + 1
    if real >= MOST_POSITION:
        raise ValueError(f"a scale of {scale:g} cannot be represented")
    multiplier = int(real)
    half = 1 << (shift - 1) if shift else 0
    return (codes * multiplier + half) >> shift


def logistic(scale: float, codes: Array) -> Array:
    """Returns the logistic function of stored integers in steps of 2^-15."""
    place = positions(scale, codes)
    value = _on_segments(np.abs(place), 9, 0x7FFF << 10)
    return (np.where(place >= 0, value + (1 << 9), (ONE << 9) - value + (1 << 9) - 1)) >> 10


def tanh(scale: float, codes: Array) -> Array:
    """Returns the hyperbolic tangent of stored integers in steps of 2^-15: twice the logistic function of twice the
    input, less 1."""
    place = positions(scale, codes)
    value = _on_segments(np.abs(place), 8, 0xFFFF << 8) - (ONE << 7)
    return (np.where(place >= 0, value + (1 << 7), -value + (1 << 7) - 1)) >> 8


def _on_segments(place: Array, bits: int, end: int) -> Array:
    """Returns values with `bits` more fraction bits than the knots; `end` beyond the last segment."""
    segment, part = place >> bits, place & ((1 << bits) - 1)
    knot = knots()
    low = np.minimum(segment, SEGMENTS - 1)
    value = (knot[low] << bits) + part * (knot[low + 1] - knot[low])
    return np.where(segment >= SEGMENTS, end, value)
