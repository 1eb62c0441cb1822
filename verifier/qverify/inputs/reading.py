"""Converts a file to the bytes that a description states: pictures, .npy, .npz, .wav, and raw bytes, which are
checked."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UsageError
from qverify.files import read_regular
from qverify.inputs import arrays, buffers, encoding, picture, pixel_values, sound
from qverify.inputs.description import Description
from qverify.inputs.formats import FORMATS, REAL

Array = npt.NDArray[Any]
RAW = (".bin", ".raw", ".dat", ".yuv", *(f".{name}" for name in FORMATS))


def read_bytes(path: str, wanted: Description, name: str = "") -> bytes:
    """Returns the aligned buffer that is made from a file. name: name of the model input, by which the array of a .npz
    is chosen. Raises UsageError if the file does not fit."""
    if not os.path.isfile(path):
        raise UsageError(f"{path}: no such file")
    ending = os.path.splitext(path)[1].lower()
    if ending in (".npy", ".npz"):
        return encode_array(arrays.read_array_file(path, name), wanted, path)
    if ending in RAW:
        return _read_raw(path, wanted)
    if ending == ".wav":
        if wanted.format not in REAL:
            raise UsageError(f"{path}: sound can be converted to {', '.join(REAL)}, not to {wanted.format}")
        return encoding.encode_fitted(sound.fit_samples(sound.read(path), wanted, path), wanted)
    return encoding.encode_picture(picture.read(path, wanted.gray), wanted)


def array_pixels(path: str, wanted: Description) -> Array:
    """Returns the pixels in a .npy file: uint8 (H, W, 3), or (H, W, 1) for a gray format. Raises UsageError for any
    other array."""
    array, channels = arrays.read_array_file(path), 1 if wanted.gray else 3
    pixels = _as_pixels(array, channels)
    if pixels is None:
        raise UsageError(
            f"{path}: {array.dtype}{list(array.shape)}, wanted uint8 pixels of (height, width, {channels})"
        )
    return pixels


def _as_pixels(array: Array, channels: int) -> Array | None:
    pixels = array[..., None] if array.ndim == 2 and channels == 1 else array
    right = pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == channels and pixels.size
    return pixels if right else None


def encode_array(array: Array, wanted: Description, where: str) -> bytes:
    """Returns the buffer that is made from an array. uint8 arrays (H, W, 3) and (H, W) are RGB or gray pixels, which
    are treated like those of a picture. Any other array must have the shape, layout and type of the buffer's only
    plane; float32 values are quantized if the buffer contains integers. Raises UsageError if the array does not fit."""
    plane, channels = wanted.planes[0], 1 if wanted.gray else 3
    pixels = _as_pixels(array, channels)
    if pixels is not None:
        return encoding.encode_picture(pixels, wanted)
    values = array.astype(array.dtype.newbyteorder("="), copy=False)
    values = values[0] if values.ndim == len(plane.shape) + 1 and values.shape[0] == 1 else values
    one = len(wanted.planes) == 1
    if one and values.shape == plane.shape and values.dtype == np.float32 and np.dtype(plane.dtype).kind != "f":
        if wanted.format in REAL and wanted.quantize is not None:
            values = pixel_values.quantize(values, wanted)
    if not one or values.shape != plane.shape or values.dtype != plane.dtype:
        stored = f", or {plane.dtype}{list(plane.shape)} as stored ({wanted.layout})" if one else ""
        pixel = f"uint8 pixels of (height, width, {channels})"
        raise UsageError(f"{where}: {array.dtype}{list(array.shape)}, wanted {pixel}{stored}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise UsageError(f"{where}: contains NaN or infinite values")
    return buffers.pack([values], wanted)


def _read_raw(path: str, wanted: Description) -> bytes:
    """Returns the buffer in a file of raw bytes. The file contains the whole buffer, or the valid elements only, which
    are then padded."""
    whole, dense = wanted.size_bytes, buffers.count_valid_bytes(wanted)
    data = read_regular(path, max(whole, dense) + 1, follow=True)
    if len(data) == dense != whole:
        data = buffers.pack(buffers.split_dense(data, wanted), wanted)
    if len(data) != whole:
        raise UsageError(f"{path}: {os.path.getsize(path)} bytes, wanted {describe_sizes(wanted)}")
    if any(v.dtype.kind == "f" and not np.isfinite(v).all() for v in buffers.unpack(data, wanted)):
        raise UsageError(f"{path}: contains NaN or infinite values")
    return data


def describe_sizes(wanted: Description) -> str:
    """Returns the possible sizes of a file of raw bytes as text, for a message."""
    whole, dense = wanted.size_bytes, buffers.count_valid_bytes(wanted)
    sizes = f"{whole}" if whole == dense else f"{whole} (aligned) or {dense} (valid elements alone)"
    width, height = wanted.frame
    return f"{sizes} for {wanted.format} {width}x{height} in {wanted.layout}"
