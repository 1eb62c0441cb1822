"""Arranges values in the planes of a runtime format and packs them into aligned bytes, and the reverse (INPUTS.md step
6)."""

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
    """Returns the size in bytes of the valid elements, without padding."""
    return sum(prod(p.shape) * np.dtype(p.dtype).itemsize for p in wanted.planes)


def split_dense(data: bytes, wanted: Description) -> list[Array]:
    """Returns the valid elements of every plane, from bytes without padding."""
    planes, at = [], 0
    for plane in wanted.planes:
        dtype = np.dtype(plane.dtype).newbyteorder("<")
        planes.append(np.frombuffer(data, dtype, prod(plane.shape), at).reshape(plane.shape))
        at += planes[-1].nbytes
    return planes


def pack(parts: list[Array], wanted: Description) -> bytes:
    """Returns the buffer for the valid elements of every plane, with zero padding."""
    whole = np.zeros(wanted.size_bytes, np.uint8)
    for plane, values in zip(wanted.planes, parts, strict=True):
        stored = whole[plane.offset : plane.offset + plane.size_bytes].view(np.dtype(plane.dtype).newbyteorder("<"))
        stored.reshape(plane.aligned_shape)[tuple(slice(0, n) for n in plane.shape)] = values
    return whole.tobytes()


def arrange_planes(values: list[Array], wanted: Description) -> list[Array]:
    """Returns the values that pixel_values.make_elements() computes in the planes and the layout of the format."""
    if wanted.format not in YUV420:
        return [values[0] if wanted.layout == "NHWC" else np.moveaxis(values[0], -1, 0)]
    y, u, v = values
    if wanted.format == "i420":
        return [y, u, v]
    return [y, np.stack([u, v] if wanted.format == "nv12" else [v, u], axis=-1)]


def unarrange_planes(values: list[Array], wanted: Description) -> list[Array]:
    """Returns the values as pixel_values.make_elements() computes them; the inverse of arrange_planes()."""
    if wanted.format not in YUV420:
        return [values[0] if wanted.layout == "NHWC" else np.moveaxis(values[0], 0, -1)]
    if wanted.format == "i420":
        return values
    y, first, second = values[0], values[1][..., 0], values[1][..., 1]
    return [y, first, second] if wanted.format == "nv12" else [y, second, first]


def unpack(data: bytes, wanted: Description) -> list[Array]:
    """Returns the valid elements of every plane in the stored order. Raises UsageError for bytes of another size."""
    if len(data) != wanted.size_bytes:
        raise UsageError(f"{len(data)} bytes, wanted {wanted.size_bytes} for {wanted.format} {_describe_size(wanted)}")
    planes = []
    for plane in wanted.planes:
        part = data[plane.offset : plane.offset + plane.size_bytes]
        whole = np.frombuffer(part, np.dtype(plane.dtype).newbyteorder("<")).reshape(plane.aligned_shape)
        planes.append(whole[tuple(slice(0, n) for n in plane.shape)])
    return planes


def random_bytes(wanted: Description, generator: np.random.Generator) -> bytes:
    """Returns a random buffer with zero padding. Values are uniform over the range of an integer type, or from -1 to 1
    for float32."""
    values: list[Array] = []
    for plane in wanted.planes:
        dtype = np.dtype(plane.dtype)
        if dtype.kind == "f":
            values.append(generator.uniform(-1, 1, plane.shape).astype(dtype))
        else:
            limits = np.iinfo(dtype)
            values.append(generator.integers(limits.min, limits.max, plane.shape, dtype, endpoint=True))
    return pack(values, wanted)


def padding_is_zero(data: bytes, wanted: Description) -> bool:
    """Returns whether every byte outside the valid elements is 0."""
    padding = bytearray(data)
    for plane in wanted.planes:
        whole = np.frombuffer(padding, np.dtype(plane.dtype), prod(plane.aligned_shape), plane.offset).reshape(
            plane.aligned_shape
        )
        whole[tuple(slice(0, n) for n in plane.shape)] = 0
    return not any(padding)


def _describe_size(wanted: Description) -> str:
    return f"{wanted.frame[0]}x{wanted.frame[1]}"


def make_picture(data: bytes, wanted: Description) -> Array:
    """Returns the buffer as a viewable picture, uint8 (H, W, 3) or (H, W, 1). YUV is converted back by the inverse of
    the description's conversion."""
    values = unarrange_planes(unpack(data, wanted), wanted)
    if wanted.format in YUV420:
        return _convert_420(values, wanted)
    image = values[0]
    if wanted.format in REAL:
        return _denormalize(image, wanted)
    base = wanted.format.removesuffix("_128")
    if wanted.format in SIGNED:
        image = (image.astype(np.int16) + 128).astype(np.uint8)
    if base == "yuv444":
        return wanted.colour.rgb(image)
    return image[..., :3][..., ::-1] if base.startswith("bgr") else image[..., :3]


def _convert_420(values: list[Array], wanted: Description) -> Array:
    y, u, v = values
    u, v = (np.repeat(np.repeat(p, 2, axis=0), 2, axis=1) for p in (u, v))
    return wanted.colour.rgb(np.stack([y, u, v], axis=-1), coarse=True)


def _denormalize(values: Array, wanted: Description) -> Array:
    """Returns the pixels (uint8, RGB or gray) whose normalized and quantized values these are."""
    real = values.astype(np.float64)
    if values.dtype.kind in "iu":
        step, zero = wanted.quantize or (1.0, 0)
        real = (real - zero) * step
    pixels = real / np.array(wanted.scale) + np.array(wanted.mean)
    if wanted.train == "bgr":
        pixels = pixels[..., ::-1]
    return np.rint(pixels).clip(0, 255).astype(np.uint8)
