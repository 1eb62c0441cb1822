"""Integers from the real values of a quantized tensor, as vendors' tools dump them."""

from __future__ import annotations

import numpy as np

from qverify.plural import count
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

NEAR = 2.0**-6  # distance from a whole step that text with few digits, or a product in float32, may leave
ROUNDOFF = 2.0**-22  # of the value itself, in float32


def restore_codes(values: Array, spec: TensorSpec) -> Array | str:
    """Returns the stored integers of a quantized tensor from its real values, or the reason why these are none: a value
    that is no whole step of the scale, beyond the type, or not finite."""
    limits, axis = np.iinfo(spec.dtype), spec.channel_axis
    along = [1] * values.ndim
    if len(spec.scale) > 1:
        along[axis] = -1
    scale, zero = (np.array(v, np.float64).reshape(along) for v in (spec.scale, spec.zero_point))
    with np.errstate(invalid="ignore", over="ignore"):
        steps = values.astype(np.float64) / scale + zero
        whole = np.rint(steps)
        near = np.abs(steps - whole) <= NEAR + ROUNDOFF * np.abs(steps - zero)
        fits = near & (whole >= limits.min) & (whole <= limits.max)
    if not fits.all():
        lost = count(int(np.count_nonzero(~fits)), "element", "is", "are")
        return f"{lost} no whole step of its scale {spec.scale[0]:g} within {spec.dtype}"
    return whole.astype(spec.numpy_dtype)
