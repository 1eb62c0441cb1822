"""Fits a picture to the size that a description states: it is cut, cropped, resized or letterboxed (INPUTS.md step
2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UsageError
from qverify.extras import import_extra
from qverify.inputs.description import Description

Array = npt.NDArray[Any]


def fit_picture(pixels: Array, wanted: Description) -> Array:
    """Returns pixels (height, width, channels) in the size of the description's frame: uint8, or float32 if the
    description resizes in float32."""
    width, height = wanted.frame
    if wanted.roi is not None and wanted.source is None:
        pixels = _cut(pixels, wanted.roi)
    if wanted.fit == "crop":
        return _resize(_crop(pixels, width, height), width, height, wanted)
    if wanted.fit == "stretch":
        return _resize(pixels, width, height, wanted)
    ratio = min(width / pixels.shape[1], height / pixels.shape[0])
    inner = max(1, round(pixels.shape[1] * ratio)), max(1, round(pixels.shape[0] * ratio))
    small = _resize(pixels, *inner, wanted)
    whole = np.full((height, width, pixels.shape[2]), wanted.fill, small.dtype)
    centred = wanted.fit == "letterbox"
    top, left = ((height - inner[1]) // 2, (width - inner[0]) // 2) if centred else (0, 0)
    whole[top : top + inner[1], left : left + inner[0]] = small
    return whole


def _cut(pixels: Array, roi: tuple[int, int, int, int]) -> Array:
    left, top, width, height = roi
    if left + width > pixels.shape[1] or top + height > pixels.shape[0]:
        raise UsageError(
            f"roi {left},{top},{width},{height} is not inside the picture of {pixels.shape[1]}x{pixels.shape[0]}"
        )
    return pixels[top : top + height, left : left + width]


def _crop(pixels: Array, width: int, height: int) -> Array:
    """Returns the largest centred part with the aspect ratio width:height. Offsets are rounded down."""
    rows, columns = pixels.shape[:2]
    if columns * height > rows * width:
        columns = max(1, rows * width // height)
    else:
        rows = max(1, columns * height // width)
    top, left = (pixels.shape[0] - rows) // 2, (pixels.shape[1] - columns) // 2
    return pixels[top : top + rows, left : left + columns]


def _resize(pixels: Array, width: int, height: int, wanted: Description) -> Array:
    real = wanted.resize_dtype == "float32"
    if pixels.shape[:2] == (height, width):
        return pixels.astype(np.float32) if real else pixels
    resize = _by_cv2 if wanted.library == "cv2" else _by_pillow
    resized = resize(pixels, width, height, wanted.interpolation, real)
    return resized if resized.ndim == 3 else resized[..., None]


def _by_cv2(pixels: Array, width: int, height: int, interpolation: str, real: bool) -> Array:
    cv2 = import_extra("cv2", "resizing with library cv2")
    how = {"nearest": cv2.INTER_NEAREST, "linear": cv2.INTER_LINEAR, "cubic": cv2.INTER_CUBIC, "area": cv2.INTER_AREA}
    source = np.ascontiguousarray(pixels.astype(np.float32) if real else pixels)
    return np.asarray(cv2.resize(source, (width, height), interpolation=how[interpolation]))


def _by_pillow(pixels: Array, width: int, height: int, interpolation: str, real: bool) -> Array:
    images = import_extra("PIL.Image", "resizing with library pillow")
    how = {
        "nearest": images.Resampling.NEAREST,
        "linear": images.Resampling.BILINEAR,
        "cubic": images.Resampling.BICUBIC,
        "area": images.Resampling.BOX,
    }[interpolation]
    if not real:
        flat = pixels[..., 0] if pixels.shape[2] == 1 else pixels
        return np.asarray(images.fromarray(flat).resize((width, height), how))
    planes = [images.fromarray(p.astype(np.float32)).resize((width, height), how) for p in np.moveaxis(pixels, -1, 0)]
    return np.stack([np.asarray(p) for p in planes], axis=-1)
