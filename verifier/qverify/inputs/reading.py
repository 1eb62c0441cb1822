"""Any file to the bytes a description asks for: pictures, .npy, .npz, .wav, and raw bytes that are checked."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UsageError
from qverify.inputs import buffers, picture, sound
from qverify.inputs.description import REAL, Description

Array = npt.NDArray[Any]
RAW = (".bin", ".raw", ".yuv", ".nv12", ".rgb", ".dat")


def bytes_of(path: str, wanted: Description, name: str = "") -> bytes:
    """The aligned buffer. name: of the model input, for a .npz of several arrays. UsageError says what does not fit."""
    if not os.path.isfile(path):
        raise UsageError(f"{path}: no such file")
    ending = os.path.splitext(path)[1].lower()
    if ending in (".npy", ".npz"):
        return from_array(array_of(path, name), wanted, path)
    if ending in RAW:
        return _raw(path, wanted)
    if ending == ".wav":
        if wanted.format not in REAL:
            raise UsageError(f"{path}: sound becomes {', '.join(REAL)}, not {wanted.format}")
        return buffers.encoded(sound.fitted(sound.read(path), wanted, path), wanted)
    return buffers.encoded(picture.fitted(picture.read(path, wanted.gray), wanted), wanted)


def array_of(path: str, name: str = "") -> Array:
    """Of a .npy, or of a .npz the array of that name, or its only one."""
    try:
        held = np.load(path, allow_pickle=False)
        if isinstance(held, np.ndarray):
            return held
        with held:
            chosen = name if name in held else held.files[0] if len(held.files) == 1 else None
            if chosen is None:
                raise UsageError(f"{path}: holds {', '.join(held.files) or 'nothing'}; none is called {name!r}")
            return np.asarray(held[chosen])
    except (OSError, ValueError, EOFError, KeyError, MemoryError) as error:
        raise UsageError(f"{path}: not a readable {os.path.splitext(path)[1]}: {error}") from error
    except Exception as error:  # zipfile raises its own, derived from Exception only
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{path}: not a readable .npz: {error}") from error


def array_pixels(path: str, wanted: Description) -> Array:
    """uint8 (H, W, 3), or (H, W, 1) of a gray format, of a .npy. UsageError for anything else."""
    array, channels = array_of(path), 1 if wanted.gray else 3
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


def from_array(array: Array, wanted: Description, where: str) -> bytes:
    """uint8 (H, W, 3) and (H, W): RGB or gray pixels, as a picture's. Otherwise the valid elements of the buffer's one
    plane, in its layout, of its type; float32 ones are quantized where the buffer holds integers."""
    plane, channels = buffers.planes(wanted)[0], 1 if wanted.gray else 3
    pixels = _as_pixels(array, channels)
    if pixels is not None:
        return buffers.encoded(picture.fitted(pixels, wanted), wanted)
    values = array.astype(array.dtype.newbyteorder("="), copy=False)
    values = values[0] if values.ndim == len(plane.shape) + 1 and values.shape[0] == 1 else values
    one = len(buffers.planes(wanted)) == 1
    if one and values.shape == plane.shape and values.dtype == np.float32 and np.dtype(plane.dtype).kind != "f":
        if wanted.format in REAL and wanted.quantize is not None:
            values = buffers.quantized(values, wanted)
    if not one or values.shape != plane.shape or values.dtype != plane.dtype:
        stored = f", or {plane.dtype}{list(plane.shape)} as stored ({wanted.layout})" if one else ""
        pixel = f"uint8 pixels of (height, width, {channels})"
        raise UsageError(f"{where}: {array.dtype}{list(array.shape)}, wanted {pixel}{stored}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise UsageError(f"{where}: holds NaN or infinite values")
    return buffers.packed([values], wanted)


def _raw(path: str, wanted: Description) -> bytes:
    """Bytes as they are when they have the buffer's size; the valid elements alone are aligned."""
    whole, dense = buffers.size_bytes(wanted), buffers.valid_bytes(wanted)
    with open(path, "rb") as file:
        data = file.read(max(whole, dense) + 1)
    if len(data) == whole:
        return data
    if len(data) == dense:
        return buffers.packed(buffers.dense_values(data, wanted), wanted)
    sizes = f"{whole}" if whole == dense else f"{whole} (aligned) or {dense} (valid elements alone)"
    width, height = wanted.frame
    raise UsageError(
        f"{path}: {os.path.getsize(path)} bytes, wanted {sizes} for {wanted.format} {width}x{height} in {wanted.layout}"
    )
