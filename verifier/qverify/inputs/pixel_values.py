"""Converts pixels to the values that are stored, before they are split into planes (INPUTS.md steps 3 to 5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.inputs.colour import ROUNDINGS
from qverify.inputs.description import Description
from qverify.inputs.formats import REAL, SIGNED, YUV420

Array = npt.NDArray[Any]


def make_elements(pixels: Array, wanted: Description) -> list[Array]:
    """Returns the values to store, before they are split into planes: y, u and v for a 4:2:0 format, one array (H, W,
    C) for others."""
    if wanted.format in REAL:
        return [quantize(normalize(pixels, wanted), wanted)]
    rgb = _round_to_bytes(pixels)
    if wanted.format in YUV420:
        return list(wanted.colour.yuv420(rgb))
    base = wanted.format.removesuffix("_128")
    values = wanted.colour.yuv444(rgb) if base == "yuv444" else _order_channels(rgb, base)
    return [(values.astype(np.int16) - 128).astype(np.int8) if wanted.format in SIGNED else values]


def _round_to_bytes(pixels: Array) -> Array:
    """Returns the pixels as uint8. Those of a float32 resize are rounded half to even, as OpenCV's saturate_cast
    does."""
    return pixels if pixels.dtype == np.uint8 else np.rint(pixels).clip(0, 255).astype(np.uint8)


def _order_channels(rgb: Array, base: str) -> Array:
    """Returns the pixels in the channels of the format, with alpha 255 if it has alpha."""
    if base.startswith("bgr"):
        rgb = rgb[..., ::-1]
    if base in ("rgba", "bgra"):
        rgb = np.concatenate([rgb, np.full((*rgb.shape[:2], 1), 255, np.uint8)], axis=-1)
    return rgb


def normalize(pixels: Array, wanted: Description) -> Array:
    """Returns (x - mean) * scale in float32, with the channels in the order of the training."""
    ordered = pixels[..., ::-1] if wanted.train == "bgr" else pixels
    mean, scale = np.array(wanted.mean, np.float32), np.array(wanted.scale, np.float32)
    return np.asarray((ordered.astype(np.float32) - mean) * scale)


def quantize(real: Array, wanted: Description) -> Array:
    """Returns clip(round(x / scale) + zero point) in the stored type, for raw_s16 within -32767..32767. Values that are
    stored as floats are returned unchanged."""
    dtype = np.dtype(wanted.dtype)
    if dtype.kind == "f":
        return real
    step, zero = wanted.quantize or (1.0, 0)
    limits = np.iinfo(dtype)
    low = -limits.max if wanted.format == "raw_s16" else limits.min
    whole = ROUNDINGS[wanted.rounding](real.astype(np.float64) / step) + zero
    return np.asarray(whole.clip(low, limits.max).astype(dtype))
