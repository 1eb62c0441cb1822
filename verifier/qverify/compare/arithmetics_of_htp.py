"""The arithmetics of Qualcomm's HTP (Hexagon tensor processor), found by probes of its emulator (verifier/ARITHMETICS.md,
methods)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qverify.arithmetic.forms import Form, steps
from qverify.arithmetic.requantize import apply_steps, half_up
from qverify.compare.catalogue import HTP_SUMS
from qverify.compare.error_bounds.bounded_values import Array, Reals
from qverify.compare.scaled_sums import Sums
from qverify.tensors.spec import TensorSpec

BIAS_BITS = 28  # to which biases are rounded where each channel has its own scale
MOST_SHIFT, COARSE_BITS = 15, 8  # of the addition's multipliers; of its constant

_SUMS = Form.parse(HTP_SUMS)


def find_summands(zero: int, scales: Reals, biases: Array | None) -> Array:
    """Returns what is added to the sums of each scale, which have the biases, int64: the zero point in units of the sums,
    divided in float32 and rounded, halves up.

    Args:
        zero: the zero point, counted from the lowest code.
        scales: the scales.
        biases: those of the channels if each has its own scale. They are multiples of the largest magnitude / 2^28.
    """
    summand = np.float32(zero) / scales.astype(np.float32)
    if biases is None or len(scales) == 1 or not biases.any():
        return np.floor(summand.astype(np.float64) + 0.5).astype(np.int64)
    unit = float(np.abs(biases.astype(np.float64)).max()) / (1 << BIAS_BITS)
    total = (np.rint(biases / unit) * unit).astype(np.float32) + summand
    return np.floor(total.astype(np.float64) + 0.5).astype(np.int64) - biases.astype(np.int64)


def scale_with_zero(sums: Sums, scales: Reals, y: TensorSpec, biases: Array | None) -> Array:
    """Returns scaled sums before the zero point: it is counted from the lowest code, and added to the sum, of which the
    low bits are then dropped. biases: as in find_summands."""
    zero = y.zero_point[0] - int(np.iinfo(y.dtype).min)
    rq = steps(_SUMS, scales).astype(np.int64)[:, sums.number]
    return apply_steps(sums.acc + find_summands(zero, scales, biases)[sums.number], rq) - zero


def add_operands(
    centred: Callable[..., tuple[Array, Array]], real: Reals, x: tuple[TensorSpec, TensorSpec], y: TensorSpec
) -> Callable[..., Array]:
    """Returns the function that adds two operands, before clipping. centred: function that returns both without their zero
    points. real: their scales in LSB of the output, the second negative for a difference."""
    rising, falling = real[real > 0].sum(), -real[real < 0].sum()
    shift = min(14 - int(np.frexp(max(rising, falling))[1]), MOST_SHIFT)
    first, second = (int(np.sign(r) * np.floor(abs(r) * 2.0**shift + 0.5)) for r in real)
    zeros = [s.zero_point[0] - int(np.iinfo(s.dtype).min) for s in (*x, y)]
    constant = (zeros[2] << shift) - first * zeros[0] - second * zeros[1]
    unit = 1 << COARSE_BITS
    constant = -((unit // 2 - constant) // unit) * unit  # to the nearest multiple, halves down
    lowest = int(np.iinfo(y.dtype).min)

    def compute(at: object) -> Array:
        a, b = centred(at)
        total = (a + zeros[0]) * first + (b + zeros[1]) * second + constant
        return half_up(total, np.asarray(shift)) + lowest

    return compute
