"""Checks several files of one tensor in a vendor's dump: one is compared, so the others must contain the same
values."""

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
ROUNDED = 4e-6  # rounding error of float32, relative to the largest value
AGREE = "in two files, which agree"
UP_TO_A_SCALE = "in two files, which agree up to an unknown scale and zero point (give -m)"


def check_forms_agree(chosen: SettledTensor, twin: VendorTensor, known: list[TensorSpec]) -> str:
    """Returns the report's note on a tensor with two files. known: its specs on the other side and in -m, for the
    scale. Raises BadFileError, which names both files, where their values differ; Unsettled where that is not known."""
    one, two = (os.path.basename(t.where) for t in (chosen.tensor, twin))
    mine, readings = _real(chosen.value(), chosen.spec, known), list(_readings(chosen, twin))
    if not readings:
        raise Unsettled(
            f"{one} and {two} are both files of it, and cannot be compared with each other; keep one of them"
        )
    for value in readings:
        spec = TensorSpec("", value.dtype.name, chosen.spec.shape, scale=twin.scale, zero_point=twin.zero_point)
        yours = _real(value, spec if len(twin.scale) == 1 else TensorSpec("", spec.dtype, spec.shape), known)
        near = _off(chosen.tensor, chosen.value()) + _off(twin, value)
        if mine is not None and yours is not None and _equal(mine, yours, near):
            return AGREE
        if yours is None and mine is not None and _stored(value, mine, near):
            return UP_TO_A_SCALE if value.dtype.name in NARROW else AGREE
        if mine is None and yours is not None and _stored(chosen.value(), yours, near):
            return UP_TO_A_SCALE if chosen.spec.dtype in NARROW else AGREE
        if mine is None and yours is None and np.array_equal(chosen.value(), value):
            return AGREE
    raise BadFileError(
        f"{os.path.dirname(twin.where)}: {one} and {two} are files of one tensor, {chosen.spec.name!r}, with different values; "
        "remove the one that is wrong"
    )


def _readings(chosen: SettledTensor, twin: VendorTensor) -> Iterator[Array]:
    """Yields the twin's valid elements in the axis order of the chosen file, once for every type it may have."""
    valid = chosen.way.cut
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
            yield whole.transpose(chosen.way.order).reshape(chosen.spec.shape)


def _real(value: Array, spec: TensorSpec, known: list[TensorSpec]) -> Real | None:
    """Returns real values in float64; None for stored integers without a known scale."""
    if value.dtype.kind not in "iu" or spec.scale:
        return spec.dequantized(value)
    for one in known:
        if one.quantized and (one.dtype, one.shape) == (value.dtype.name, value.shape):
            return one.dequantized(value)
    return None


def _off(tensor: VendorTensor, value: Array) -> float:
    """Returns the largest error of a value that was read from text of limited decimals, or with a scale of limited
    digits."""
    text = 0.5 * 10.0**-tensor.decimals if tensor.decimals is not None else 0.0
    if not tensor.scale_step or value.dtype.kind not in "iu" or not value.size:
        return text
    zero = max((abs(z) for z in tensor.zero_point), default=0)
    return text + max(tensor.scale_step) * (float(np.abs(value.astype(np.float64)).max()) + zero)


def _equal(a: Real, b: Real, near: float) -> bool:
    with np.errstate(invalid="ignore"):
        finite = np.abs(np.where(np.isfinite(a), a, 0))
        near += ROUNDED * float(finite.max(initial=0.0))
        return bool(((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= near)).all())


def _stored(q: Array, real: Real, near: float) -> bool:
    """Tells whether q can be the stored form of real: for 8 or 16 bits with some positive scale and integer zero point,
    for wider integers without a scale."""
    stored = q.astype(np.float64)
    if q.dtype.name not in NARROW:
        return _equal(real, stored, near)
    if not q.size:
        return True
    if not np.isfinite(real).all():
        return False
    low, high = (np.unravel_index(at, q.shape) for at in (int(q.argmin()), int(q.argmax())))
    if q[low] == q[high]:
        return bool(np.abs(real - real[low]).max() <= near + ROUNDED * abs(float(real[low])))
    scale = float((real[high] - real[low]) / (stored[high] - stored[low]))
    if not scale > 0 or not _equal(real, (stored - stored[low]) * scale + real[low], near):
        return False
    zero, limits = float(stored[low] - real[low] / scale), np.iinfo(q.dtype.name)
    wide = 0.01 + near / scale + ROUNDED * float(np.abs(real).max()) / scale
    return abs(zero - round(zero)) <= wide and limits.min - wide <= zero <= limits.max + wide
