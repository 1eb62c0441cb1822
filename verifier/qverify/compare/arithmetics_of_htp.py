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

MOST_SHIFT, COARSE_BITS = 15, 8  # of the addition's multipliers; of its constant
ROWS, ELEMENTS = 8, 64  # windows with more of both are summed with more bits

_SUMS = Form.parse(HTP_SUMS)


def zero_in_sum(zero: int, scales: Reals) -> Array:
    """Returns a zero point in units of the sums, rounded to whole numbers in float32, halves away from zero; int64."""
    steps = np.float32(zero) / scales.astype(np.float32)
    return np.floor(steps.astype(np.float64) + 0.5).astype(np.int64)


def scale_with_zero(sums: Sums, scales: Reals, y: TensorSpec) -> Array:
    """Returns scaled sums before the zero point: it is counted from the lowest code, and added to the sum, of which the
    low bits are then dropped."""
    lowest = int(np.iinfo(y.dtype).min)
    zero = y.zero_point[0] - lowest
    rq = steps(_SUMS, scales).astype(np.int64)[:, sums.number]
    return apply_steps(sums.acc + zero_in_sum(zero, scales)[sums.number], rq) - zero


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


def is_tall(rows: int, columns: int) -> bool:
    """Returns whether the mean of a window is rounded exactly."""
    return rows > ROWS and rows * columns > ELEMENTS
