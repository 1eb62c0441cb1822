"""Arranges values in the planes of a runtime format and packs them into aligned bytes, and back: INPUTS.md step 6."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UsageError
from qverify.inputs.description import Description
from qverify.inputs.formats import REAL, SIGNED, YUV420

Array = npt.NDArray[Any]


def count_valid_bytes(wanted: Description) -> int:
    """Returns the size of the valid elements alone, in bytes."""
    return sum(prod(p.shape) * np.dtype(p.dtype).itemsize for p in wanted.planes)


def split_dense(data: bytes, wanted: Description) -> list[Array]:
    """Returns every plane's valid elements, from bytes without padding."""
    planes, at = [], 0
    for plane in wanted.planes:
        dtype = np.dtype(plane.dtype).newbyteorder("<")
        planes.append(np.frombuffer(data, dtype, prod(plane.shape), at).reshape(plane.shape))
        at += planes[-1].nbytes
    return planes


def packed(parts: list[Array], wanted: Description) -> bytes:
    """Returns the buffer of every plane's valid elements, with zero padding."""
    whole = np.zeros(wanted.size_bytes, np.uint8)
    for plane, values in zip(wanted.planes, parts, strict=True):
        stored = whole[plane.offset : plane.offset + plane.size_bytes].view(np.dtype(plane.dtype).newbyteorder("<"))
        stored.reshape(plane.aligned_shape)[tuple(slice(0, n) for n in plane.shape)] = values
    return whole.tobytes()


def arrange_planes(values: list[Array], wanted: Description) -> list[Array]:
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
    """Returns the buffer as a viewable picture, uint8 (H, W, 3) or (H, W, 1); YUV is converted by OpenCV's or the same matrix."""
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
