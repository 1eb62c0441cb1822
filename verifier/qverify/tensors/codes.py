"""Integers from the real values of a quantized tensor, as vendors' tools dump them."""

from __future__ import annotations

import numpy as np

from qverify.plural import count
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

NEAR = 2.0**-6  # distance from a whole step that text with few digits, or a product in float32, may leave
ROUNDOFF = 2.0**-22  # of the value itself, in float32
FARTHEST = 0.25  # of a step, beyond which a value that was rounded to float16 shows no integer


def is_narrow(dtype: np.dtype[np.generic]) -> bool:
    """Returns whether a float type holds fewer digits than float32."""
    return dtype.kind == "f" and dtype.itemsize < 4


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
        if is_narrow(values.dtype):
            half_unit = np.spacing(np.abs(values)).astype(np.float64) / 2 / scale
            near = (np.abs(steps - whole) <= NEAR + half_unit) & (half_unit < FARTHEST)
        fits = near & (whole >= limits.min) & (whole <= limits.max)
    if not fits.all():
        lost = count(int(np.count_nonzero(~fits)), "element", "is", "are")
        return f"{lost} no whole step of its scale {spec.scale[0]:g} within {spec.dtype}"
    return whole.astype(spec.numpy_dtype)


def store_as(value: Array, own: TensorSpec | None, spec: TensorSpec) -> Array | str:
    """Returns a value of another type than that of the spec, and of its shape, as the spec stores it: the integers that
    real values stand for, also those of integers with a scale of their own; the real values of such integers; and
    unquantized values that the type holds, float64 rounded to float32. Returns the value itself if nothing shows what it stands for, and the reason if it cannot
    be stored. own: the spec of the value as its side states it."""
    if spec.quantized and spec.numpy_dtype.kind in "iu":
        if value.dtype.kind in "iu" and own is not None and own.quantized:
            value = own.dequantized(value)
        if value.dtype.kind != "f":
            return value
        codes = restore_codes(value, spec)
        return f"real values, of which {codes}" if isinstance(codes, str) else codes
    if spec.quantized or value.dtype.kind not in "iubf":
        return value
    if spec.numpy_dtype.kind == "f" and value.dtype.kind in "iu" and own is not None and own.quantized:
        value = own.dequantized(value)
    if is_narrow(value.dtype) and spec.numpy_dtype.kind == "f":
        return f"{value.dtype}, which does not hold {spec.dtype}"
    with np.errstate(invalid="ignore", over="ignore"):
        stored = value.astype(spec.numpy_dtype)
    rounded = spec.numpy_dtype.kind == value.dtype.kind == "f"
    return stored if rounded or np.array_equal(stored, value) else value
