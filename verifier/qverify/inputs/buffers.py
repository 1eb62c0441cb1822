"""Converts pixels to the aligned bytes of a runtime format, and back: INPUTS.md steps 3 to 6."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UsageError
from qverify.inputs.colour import ROUNDINGS
from qverify.inputs.description import Description
from qverify.inputs.formats import REAL, SIGNED, YUV420

Array = npt.NDArray[Any]


def valid_bytes(wanted: Description) -> int:
    """Returns the size of the valid elements alone, in bytes."""
    return sum(prod(p.shape) * np.dtype(p.dtype).itemsize for p in wanted.planes)


def dense_values(data: bytes, wanted: Description) -> list[Array]:
    """Returns every plane's valid elements, from bytes without padding."""
    planes, at = [], 0
    for plane in wanted.planes:
        dtype = np.dtype(plane.dtype).newbyteorder("<")
        planes.append(np.frombuffer(data, dtype, prod(plane.shape), at).reshape(plane.shape))
        at += planes[-1].nbytes
    return planes


def encoded(pixels: Array, wanted: Description) -> bytes:
    """Returns the buffer with zero padding. pixels: fitted, RGB or gray."""
    return packed(arranged(elements(pixels, wanted), wanted), wanted)


def packed(parts: list[Array], wanted: Description) -> bytes:
    """Returns the buffer of every plane's valid elements, with zero padding."""
    whole = np.zeros(wanted.size_bytes, np.uint8)
    for plane, values in zip(wanted.planes, parts, strict=True):
        stored = whole[plane.offset : plane.offset + plane.size_bytes].view(np.dtype(plane.dtype).newbyteorder("<"))
        stored.reshape(plane.aligned_shape)[tuple(slice(0, n) for n in plane.shape)] = values
    return whole.tobytes()


def elements(pixels: Array, wanted: Description) -> list[Array]:
    """Returns the values to store, before they are split into planes: y, u and v of a 4:2:0 format, one (H, W, C) of
    others."""
    if wanted.format in REAL:
        return [quantized(normalized(pixels, wanted), wanted)]
    rgb = _bytes(pixels)
    if wanted.format in YUV420:
        return list(wanted.colour.yuv420(rgb))
    base = wanted.format.removesuffix("_128")
    values = wanted.colour.yuv444(rgb) if base == "yuv444" else _ordered(rgb, base)
    return [(values.astype(np.int16) - 128).astype(np.int8) if wanted.format in SIGNED else values]


def arranged(values: list[Array], wanted: Description) -> list[Array]:
    """Returns the result of elements() in the format's planes and layout."""
    if wanted.format not in YUV420:
        return [values[0] if wanted.layout == "NHWC" else np.moveaxis(values[0], -1, 0)]
    y, u, v = values
    if wanted.format == "i420":
        return [y, u, v]
    return [y, np.stack([u, v] if wanted.format == "nv12" else [v, u], axis=-1)]


def gathered(values: list[Array], wanted: Description) -> list[Array]:
    """Returns the inverse of arranged(): the values as elements() gives them."""
    if wanted.format not in YUV420:
        return [values[0] if wanted.layout == "NHWC" else np.moveaxis(values[0], 0, -1)]
    if wanted.format == "i420":
        return values
    y, first, second = values[0], values[1][..., 0], values[1][..., 1]
    return [y, first, second] if wanted.format == "nv12" else [y, second, first]


def _bytes(pixels: Array) -> Array:
    """Returns uint8 pixels; those of a float32 resize are rounded half to even, as OpenCV's saturate_cast does."""
    return pixels if pixels.dtype == np.uint8 else np.rint(pixels).clip(0, 255).astype(np.uint8)


def _ordered(rgb: Array, base: str) -> Array:
    if base.startswith("bgr"):
        rgb = rgb[..., ::-1]
    if base in ("rgba", "bgra"):
        rgb = np.concatenate([rgb, np.full((*rgb.shape[:2], 1), 255, np.uint8)], axis=-1)
    return rgb


def normalized(pixels: Array, wanted: Description) -> Array:
    """Returns (x - mean) * scale in float32, in the training order."""
    ordered = pixels[..., ::-1] if wanted.train == "bgr" else pixels
    mean, scale = np.array(wanted.mean, np.float32), np.array(wanted.scale, np.float32)
    return np.asarray((ordered.astype(np.float32) - mean) * scale)


def quantized(real: Array, wanted: Description) -> Array:
    """Returns clip(round(x / scale) + zero point) as stored integers, raw_s16 within -32767..32767; floats are
    unchanged."""
    dtype = np.dtype(wanted.dtype)
    if dtype.kind == "f":
        return real
    step, zero = wanted.quantize or (1.0, 0)
    limits = np.iinfo(dtype)
    low = -limits.max if wanted.format == "raw_s16" else limits.min
    whole = ROUNDINGS[wanted.rounding](real.astype(np.float64) / step) + zero
    return np.asarray(whole.clip(low, limits.max).astype(dtype))


def stored(data: bytes, wanted: Description) -> list[Array]:
    """Returns the valid elements of every plane in the stored order. Raises UsageError for another size."""
    if len(data) != wanted.size_bytes:
        raise UsageError(f"{len(data)} bytes, wanted {wanted.size_bytes} for {wanted.format} {_by(wanted)}")
    planes = []
    for plane in wanted.planes:
        part = data[plane.offset : plane.offset + plane.size_bytes]
        whole = np.frombuffer(part, np.dtype(plane.dtype).newbyteorder("<")).reshape(plane.aligned_shape)
        planes.append(whole[tuple(slice(0, n) for n in plane.shape)])
    return planes


def random_bytes(wanted: Description, generator: np.random.Generator) -> bytes:
    """Returns a random buffer: uniform over the stored type, float32 from -1 to 1; zero padding."""
    values: list[Array] = []
    for plane in wanted.planes:
        dtype = np.dtype(plane.dtype)
        if dtype.kind == "f":
            values.append(generator.uniform(-1, 1, plane.shape).astype(dtype))
        else:
            limits = np.iinfo(dtype)
            values.append(generator.integers(limits.min, limits.max, plane.shape, dtype, endpoint=True))
    return packed(values, wanted)


def padding_is_zero(data: bytes, wanted: Description) -> bool:
    """Tells whether every byte outside the valid elements is 0."""
    rest = bytearray(data)
    for plane in wanted.planes:
        whole = np.frombuffer(rest, np.dtype(plane.dtype), prod(plane.aligned_shape), plane.offset).reshape(
            plane.aligned_shape
        )
        whole[tuple(slice(0, n) for n in plane.shape)] = 0
    return not any(rest)


def _by(wanted: Description) -> str:
    return f"{wanted.frame[0]}x{wanted.frame[1]}"


def shown(data: bytes, wanted: Description) -> Array:
    """Returns the buffer as a viewable picture, uint8 (H, W, 3) or (H, W, 1); YUV is converted by OpenCV's or the same
    matrix."""
    values = gathered(stored(data, wanted), wanted)
    if wanted.format in YUV420:
        return _from_420(values, wanted)
    image = values[0]
    if wanted.format in REAL:
        return _unreal(image, wanted)
    base = wanted.format.removesuffix("_128")
    if wanted.format in SIGNED:
        image = (image.astype(np.int16) + 128).astype(np.uint8)
    if base == "yuv444":
        return wanted.colour.rgb(image)
    return image[..., :3][..., ::-1] if base.startswith("bgr") else image[..., :3]


def _from_420(values: list[Array], wanted: Description) -> Array:
    y, u, v = values
    u, v = (np.repeat(np.repeat(p, 2, axis=0), 2, axis=1) for p in (u, v))
    return wanted.colour.rgb(np.stack([y, u, v], axis=-1), coarse=True)


def _unreal(values: Array, wanted: Description) -> Array:
    real = values.astype(np.float64)
    if values.dtype.kind in "iu":
        step, zero = wanted.quantize or (1.0, 0)
        real = (real - zero) * step
    pixels = real / np.array(wanted.scale) + np.array(wanted.mean)
    if wanted.train == "bgr":
        pixels = pixels[..., ::-1]
    return np.rint(pixels).clip(0, 255).astype(np.uint8)
