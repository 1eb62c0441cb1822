"""Reads arrays from untrusted .npy and .npz files. A file is refused if its header declares more data than it
contains."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular
from qverify.tensors.npy_headers import HEADER_LOCK

Array = npt.NDArray[Any]
MAX_ARRAY_BYTES = 1 << 30
UNNAMED = "arr_0"  # name that numpy.savez chooses for an array without a name


def read_array_file(path: str, name: str = "") -> Array:
    """Returns the array in a .npy file, or in a .npz the array with this name. The only array of a .npz is returned
    under any name if it has none itself, or if `name` is ""."""
    if path.lower().endswith(".npy"):
        return parse_npy(read_regular(path, MAX_ARRAY_BYTES + 1, follow=True), path)
    with _readable(path), zipfile.ZipFile(path) as archive:
        return _pick_array(archive, name, path)


def parse_npy(data: bytes, path: str) -> Array:
    """Returns the array in the content of a .npy file. Raises UsageError for any other content."""
    with _readable(path):
        return read_npy(io.BytesIO(data), len(data), path)


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Converts the exceptions of zipfile, zlib and numpy, which have many types, to UsageError."""
    try:
        yield
    except (UsageError, BadFileError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{path}: not a readable {os.path.splitext(path)[1]}: {reason}") from error


def _pick_array(archive: zipfile.ZipFile, name: str, path: str) -> Array:
    """Returns the array with this name, or the only one if it has no name or none is requested."""
    listed = [n for n in archive.namelist() if n.endswith(".npy")]
    files = {n.removesuffix(".npy"): n for n in listed}
    if len(files) != len(listed):
        raise UsageError(f"{path}: contains two arrays of one name, {next(n for n in listed if listed.count(n) > 1)!r}")
    alone = len(files) == 1 and (not name or UNNAMED in files)
    chosen = name if name in files else next(iter(files)) if alone else None
    if chosen is None:
        raise UsageError(f"{path}: contains {', '.join(files) or 'no arrays'}; none is called {name!r}")
    size = archive.getinfo(files[chosen]).file_size
    with archive.open(files[chosen]) as file:
        return read_npy(file, size, f"{path}: {chosen}")


def read_npy(file: IO[bytes], size: int, where: str) -> Array:
    """Returns the array in an open .npy file. Raises UsageError if its header declares another size. size: size of the
    file in bytes."""
    if size > MAX_ARRAY_BYTES:
        raise UsageError(f"{where}: {size} bytes; arrays of at most {MAX_ARRAY_BYTES} bytes are read")
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with HEADER_LOCK:
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
