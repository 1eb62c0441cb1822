"""The addition of Qualcomm's HTP (Hexagon tensor processor), found by probes of its emulator (verifier/ARITHMETICS.md,
methods)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qverify.arithmetic.methods import add_with_one_shift
from qverify.arithmetic.requantize import apply_steps
from qverify.compare.error_bounds.bounded_values import Array, Reals
from qverify.tensors.spec import TensorSpec


def add_operands(
    centred: Callable[..., tuple[Array, Array]], real: Reals, x: tuple[TensorSpec, TensorSpec], y: TensorSpec
) -> Callable[..., Array]:
    """Returns the function that adds two operands, before clipping. centred: function that returns both without their zero
    points. real: their scales in LSB of the output, the second negative for a difference."""
    first, second, out = (s.zero_point[0] - int(np.iinfo(s.dtype).min) for s in (*x, y))
    rq = add_with_one_shift((float(real[0]), float(real[1])), (first, second, out)).astype(np.int64)

    def compute(at: object) -> Array:
        a, b = centred(at)
        total = apply_steps(a, rq[0]) + apply_steps(b, rq[1]) + rq[3, 0]
        return apply_steps(total, rq[2], 0, True) + rq[3, 1] + y.zero_point[0]

    return compute
