"""Checks that several files of one tensor in a vendor's dump contain the same values, since only one is compared."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError
from qverify.sides.dumps.vendor_axes import Unsettled
from qverify.sides.dumps.vendor_tensor import NARROW, SettledTensor
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.vendor_dump import ITEM, VendorTensor

Real = npt.NDArray[np.float64]
FLOAT32_ERROR = 4e-6  # relative to the largest value
AGREE = "in two files, which agree"
UP_TO_A_SCALE = "in two files, which agree up to an unknown scale and zero point (give -m)"


def check_forms_agree(chosen: SettledTensor, twin: VendorTensor, known: list[TensorSpec]) -> str:
    """Returns the report's note on a tensor with two files. known: its specs on the other side and in the model of -m,
    which may state the scale. Raises BadFileError, which names both files, if their values differ, and Unsettled if
    they cannot be compared."""
    chosen_name, twin_name = (os.path.basename(t.where) for t in (chosen.tensor, twin))
    chosen_real, readings = _real_values(chosen.value(), chosen.spec, known), list(_readings(chosen, twin))
    if not readings:
        raise Unsettled(
            f"{chosen_name} and {twin_name} are both files of it, and cannot be compared with each other; keep one of them"
        )
    for value in readings:
        spec = TensorSpec("", value.dtype.name, chosen.spec.shape, scale=twin.scale, zero_point=twin.zero_point)
        twin_real = _real_values(value, spec if len(twin.scale) == 1 else TensorSpec("", spec.dtype, spec.shape), known)
        tolerance = _largest_error(chosen.tensor, chosen.value()) + _largest_error(twin, value)
        if chosen_real is not None and twin_real is not None and _nearly_equal(chosen_real, twin_real, tolerance):
            return AGREE
        if twin_real is None and chosen_real is not None and _can_be_stored_form(value, chosen_real, tolerance):
            return UP_TO_A_SCALE if value.dtype.name in NARROW else AGREE
        if chosen_real is None and twin_real is not None and _can_be_stored_form(chosen.value(), twin_real, tolerance):
            return UP_TO_A_SCALE if chosen.spec.dtype in NARROW else AGREE
        if chosen_real is None and twin_real is None and np.array_equal(chosen.value(), value):
            return AGREE
    raise BadFileError(
        f"{os.path.dirname(twin.where)}: {chosen_name} and {twin_name} are files of one tensor, {chosen.spec.name!r}, with different values; "
        "remove the one that is wrong"
    )


def _readings(chosen: SettledTensor, twin: VendorTensor) -> Iterator[Array]:
    """Yields the twin's valid elements in the axis order of the chosen file, for every type that it may have."""
    valid = chosen.arrangement.cut
    if twin.shape not in (None, valid):
        return
    places = [twin.stored or twin.shape] if twin.shape is not None else list(dict.fromkeys([valid, chosen.stored]))
    for dtype in twin.dtypes:
        for stored in places:
            if int(np.prod(stored, dtype=object)) * ITEM[dtype] != twin.size_bytes:
                continue
            raw = np.dtype("uint16" if dtype == "bfloat16" else dtype).newbyteorder("<")
            whole = np.frombuffer(twin.read(), raw).reshape(stored)[tuple(slice(0, n) for n in valid)]
            if dtype == "bfloat16":
                whole = (whole.astype("<u4") << 16).view("<f4")
            yield whole.transpose(chosen.arrangement.order).reshape(chosen.spec.shape)


def _real_values(value: Array, spec: TensorSpec, known: list[TensorSpec]) -> Real | None:
    """Returns real values in float64, or None for stored integers without a known scale."""
    if value.dtype.kind not in "iu" or spec.scale:
        return spec.dequantized(value)
    for other in known:
        if other.quantized and (other.dtype, other.shape) == (value.dtype.name, value.shape):
            return other.dequantized(value)
    return None


def _largest_error(tensor: VendorTensor, value: Array) -> float:
    """Returns the largest error of the values, which comes from the decimals of a text or the digits of a scale."""
    text_error = 0.5 * 10.0**-tensor.decimals if tensor.decimals is not None else 0.0
    if tensor.is_exact or not tensor.scale_step or value.dtype.kind not in "iu" or not value.size:
        return text_error
    largest_zero_point = max((abs(z) for z in tensor.zero_point), default=0)
    return text_error + max(tensor.scale_step) * (float(np.abs(value.astype(np.float64)).max()) + largest_zero_point)


def _nearly_equal(a: Real, b: Real, tolerance: float) -> bool:
    with np.errstate(invalid="ignore"):
        finite = np.abs(np.where(np.isfinite(a), a, 0))
        tolerance += FLOAT32_ERROR * float(finite.max(initial=0.0))
        return bool(((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= tolerance)).all())


def _can_be_stored_form(stored_values: Array, real: Real, tolerance: float) -> bool:
    """Returns True if `stored_values` can be the stored form of `real`: for integers of 8 or 16 bits with any positive
    scale and integer zero point, for wider integers with scale 1."""
    as_float = stored_values.astype(np.float64)
    if stored_values.dtype.name not in NARROW:
        return _nearly_equal(real, as_float, tolerance)
    if not stored_values.size:
        return True
    if not np.isfinite(real).all():
        return False
    low, high = (
        np.unravel_index(at, stored_values.shape) for at in (int(stored_values.argmin()), int(stored_values.argmax()))
    )
    if stored_values[low] == stored_values[high]:
        return bool(np.abs(real - real[low]).max() <= tolerance + FLOAT32_ERROR * abs(float(real[low])))
    scale = float((real[high] - real[low]) / (as_float[high] - as_float[low]))
    if not scale > 0 or not _nearly_equal(real, (as_float - as_float[low]) * scale + real[low], tolerance):
        return False
    zero, limits = float(as_float[low] - real[low] / scale), np.iinfo(stored_values.dtype.name)
    zero_tolerance = 0.01 + tolerance / scale + FLOAT32_ERROR * float(np.abs(real).max()) / scale
    return (
        abs(zero - round(zero)) <= zero_tolerance and limits.min - zero_tolerance <= zero <= limits.max + zero_tolerance
    )
