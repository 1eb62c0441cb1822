"""Converts a file to the bytes of a description: pictures, .npy, .npz, .wav, and raw bytes, which are checked."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular
from qverify.inputs import buffers, picture, sound
from qverify.inputs.description import Description
from qverify.inputs.formats import FORMATS, REAL

Array = npt.NDArray[Any]
RAW = (".bin", ".raw", ".dat", ".yuv", *(f".{name}" for name in FORMATS))
MOST_ARRAY = 1 << 30  # bytes


def bytes_of(path: str, wanted: Description, name: str = "") -> bytes:
    """Returns the aligned buffer. name: that of the model input, for a .npz of several arrays. Raises UsageError, which
    says what does not fit."""
    if not os.path.isfile(path):
        raise UsageError(f"{path}: no such file")
    ending = os.path.splitext(path)[1].lower()
    if ending in (".npy", ".npz"):
        return from_array(array_of(path, name), wanted, path)
    if ending in RAW:
        return _raw(path, wanted)
    if ending == ".wav":
        if wanted.format not in REAL:
            raise UsageError(f"{path}: sound can be converted to {', '.join(REAL)}, not to {wanted.format}")
        return buffers.encoded(sound.fitted(sound.read(path), wanted, path), wanted)
    return _encode_pixels(picture.read(path, wanted.gray), wanted)


def _encode_pixels(pixels: Array, wanted: Description) -> bytes:
    if wanted.resize_order == "before-normalize":
        return buffers.encoded(picture.fitted(pixels, wanted), wanted)
    real = picture.fitted(buffers.normalized(pixels, wanted), replace(wanted, resize_dtype="float32"))
    return buffers.packed(buffers.arranged([buffers.quantized(real, wanted)], wanted), wanted)


def array_of(path: str, name: str = "") -> Array:
    """Returns the array of a .npy, or from a .npz the array of that name or its only one."""
    if path.lower().endswith(".npy"):
        return npy_of(read_regular(path, MOST_ARRAY + 1, follow=True), path)
    with _readable(path), zipfile.ZipFile(path) as archive:
        return _pick_array(archive, name, path)


def npy_of(data: bytes, path: str) -> Array:
    """Returns the array of a .npy's content. Raises UsageError for any other content."""
    with _readable(path):
        return npy_array(io.BytesIO(data), len(data), path)


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Turns the exceptions of zipfile, zlib and numpy, which are of many types, into UsageError."""
    try:
        yield
    except (UsageError, BadFileError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{path}: not a readable {os.path.splitext(path)[1]}: {reason}") from error


def _pick_array(archive: zipfile.ZipFile, name: str, path: str) -> Array:
    """Returns the array of that name, or the only one."""
    listed = [n for n in archive.namelist() if n.endswith(".npy")]
    files = {n.removesuffix(".npy"): n for n in listed}
    if len(files) != len(listed):
        raise UsageError(f"{path}: contains two arrays of one name, {next(n for n in listed if listed.count(n) > 1)!r}")
    chosen = name if name in files else next(iter(files)) if len(files) == 1 else None
    if chosen is None:
        raise UsageError(f"{path}: contains {', '.join(files) or 'no arrays'}; none is called {name!r}")
    size = archive.getinfo(files[chosen]).file_size
    with archive.open(files[chosen]) as file:
        return npy_array(file, size, f"{path}: {chosen}")


def npy_array(file: IO[bytes], size: int, where: str) -> Array:
    """Returns the array of a .npy. Raises UsageError where its header declares another size. size: that of the file in
    bytes."""
    if size > MOST_ARRAY:
        raise UsageError(f"{where}: {size} bytes; arrays of at most {MOST_ARRAY} bytes are read")
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    wanted, start = prod(shape) * dtype.itemsize, file.tell()
    if dtype.hasobject or not 0 <= wanted <= size:
        raise UsageError(f"{where}: {dtype}{list(shape)} does not fit into {size} bytes")
    data = file.read(wanted)
    if len(data) != wanted or file.read(1):
        wrong = "cut short" if len(data) != wanted else "bytes after its end"
        raise UsageError(f"{where}: {wrong}: {size - start} bytes of values, wanted {wanted}")
    flat = np.frombuffer(data, dtype)
    return flat.reshape(shape[::-1]).transpose() if fortran else flat.reshape(shape)


def array_pixels(path: str, wanted: Description) -> Array:
    """Returns the pixels of a .npy: uint8 (H, W, 3), or (H, W, 1) for a gray format. Raises UsageError for any other
    array."""
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
    """Returns the buffer of an array. uint8 (H, W, 3) and (H, W) are RGB or gray pixels, treated as a picture's. Any
    other array must have the shape, layout and type of the buffer's only plane; float32 values are quantized if the
    buffer has integers. Raises UsageError where it does not fit."""
    plane, channels = wanted.planes[0], 1 if wanted.gray else 3
    pixels = _as_pixels(array, channels)
    if pixels is not None:
        return _encode_pixels(pixels, wanted)
    values = array.astype(array.dtype.newbyteorder("="), copy=False)
    values = values[0] if values.ndim == len(plane.shape) + 1 and values.shape[0] == 1 else values
    one = len(wanted.planes) == 1
    if one and values.shape == plane.shape and values.dtype == np.float32 and np.dtype(plane.dtype).kind != "f":
        if wanted.format in REAL and wanted.quantize is not None:
            values = buffers.quantized(values, wanted)
    if not one or values.shape != plane.shape or values.dtype != plane.dtype:
        stored = f", or {plane.dtype}{list(plane.shape)} as stored ({wanted.layout})" if one else ""
        pixel = f"uint8 pixels of (height, width, {channels})"
        raise UsageError(f"{where}: {array.dtype}{list(array.shape)}, wanted {pixel}{stored}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise UsageError(f"{where}: contains NaN or infinite values")
    return buffers.packed([values], wanted)


def _raw(path: str, wanted: Description) -> bytes:
    """Returns the file's bytes, unchanged if they have the buffer's size; valid elements without padding are
    aligned."""
    whole, dense = wanted.size_bytes, buffers.valid_bytes(wanted)
    data = read_regular(path, max(whole, dense) + 1, follow=True)
    if len(data) == dense != whole:
        data = buffers.packed(buffers.dense_values(data, wanted), wanted)
    if len(data) != whole:
        raise UsageError(f"{path}: {os.path.getsize(path)} bytes, wanted {wanted_sizes(wanted)}")
    if any(v.dtype.kind == "f" and not np.isfinite(v).all() for v in buffers.stored(data, wanted)):
        raise UsageError(f"{path}: contains NaN or infinite values")
    return data


def wanted_sizes(wanted: Description) -> str:
    """Returns the possible sizes of a file of raw bytes, for a message."""
    whole, dense = wanted.size_bytes, buffers.valid_bytes(wanted)
    sizes = f"{whole}" if whole == dense else f"{whole} (aligned) or {dense} (valid elements alone)"
    width, height = wanted.frame
    return f"{sizes} for {wanted.format} {width}x{height} in {wanted.layout}"
