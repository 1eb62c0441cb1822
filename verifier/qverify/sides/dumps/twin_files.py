"""Finds further files of the tensors of a folder of arrays, with other values. Only one file of a tensor is compared, so
another one that contradicts it must not be overlooked: NAME.bin, NAME.txt or an .npz beside NAME.npy, or a folder below."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.capture.reader import is_capture
from qverify.errors import BadFileError
from qverify.sides.dumps.array_dump import find_arrays
from qverify.tensors.recording import Array, Recording
from qverify.vendor_files.array_files import StoredArray, npy, npz
from qverify.vendor_files.printed_numbers import Reals, count_numbers, numbers, printed_alike
from qverify.vendor_files.untrusted_files import MAX_DEPTH, UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import spelled_loosely

RAW = (".bin", ".raw", ".dat")  # suffixes of files of one tensor's bytes
MAX_TEXT_BYTES = 1 << 28
Agrees = Callable[[Array], bool]


def refuse_twins(path: str, recording: Recording) -> None:
    """Raises BadFileError if a file below the folder of .npy files has other values of one of their tensors."""
    for name, own, other in find_twins(path, recording):
        raise BadFileError(
            f"{path}: {own} and {other} are files of one tensor, {name!r}, with different values; keep one of them"
        )


def is_undescribed(path: str) -> bool:
    """Returns whether this is a folder of .npy files in which nothing but their names states which tensor each has."""
    described = any(os.path.lexists(os.path.join(path, name)) for name in ("manifest.json", "about.txt"))
    return os.path.isdir(path) and not described and not is_capture(path) and bool(find_arrays(path))


def find_twins(path: str, recording: Recording) -> Iterator[tuple[str, str, str]]:
    """Yields each tensor of the folder's .npy files that another file contradicts, with the names of both files."""
    own = {spelled_loosely(file.removesuffix(".npy")): file.removesuffix(".npy") for file in find_arrays(path)}
    own = {spelling: name for spelling, name in own.items() if name in recording.specs}
    folder = UntrustedFolder(path)
    for file in folder.names(MAX_DEPTH):
        stem, suffix = os.path.splitext(os.path.basename(file))
        is_own = os.path.dirname(file) == "" and suffix == ".npy"
        if is_own or (suffix != ".npz" and spelled_loosely(stem) not in own):
            continue
        for spelling, agrees in _readings(folder, file, stem, suffix):
            name = own.get(spelled_loosely(spelling))
            if name is not None and name not in recording.missing and not agrees(recording.tensors[name]):
                yield name, f"{name}.npy", file


def _readings(folder: UntrustedFolder, file: str, stem: str, suffix: str) -> Iterator[tuple[str, Agrees]]:
    """Yields the names of the tensors in a file, each with a function that tells whether an array has the same values. A text
    that is not all numbers, such as a log, is no file of a tensor."""
    if suffix == ".npy":
        yield stem, lambda array: _equal(npy(folder.file(file), stem).array(), array)
    elif suffix == ".npz":
        for stored in npz(folder.file(file)):
            yield stored.name, partial(_holds, stored)
    elif suffix in RAW:
        yield stem, lambda array: _has_bytes(folder.file(file), array)
    elif suffix == ".txt" and (printed := _printed(folder.file(file))) is not None:
        values, decimals = printed
        yield stem, lambda array: printed_alike(values, decimals, array.astype(np.float64).ravel())


def _holds(stored: StoredArray, array: Array) -> bool:
    return _equal(stored.array(), array)


def _equal(other: Array, array: Array) -> bool:
    floats = other.dtype.kind == "f" and array.dtype.kind == "f"
    return other.size == array.size and bool(np.array_equal(other.ravel(), array.ravel(), equal_nan=floats))


def _has_bytes(file: UntrustedFile, array: Array) -> bool:
    return file.size_bytes == array.nbytes and file.whole() == np.ascontiguousarray(array).tobytes()


def _printed(file: UntrustedFile) -> tuple[Reals, int | None] | None:
    """Returns the values of a text and their known decimals, or None if it is not all numbers."""
    data = file.whole(MAX_TEXT_BYTES)
    try:
        return numbers(data, count_numbers(data), file.path) if data.strip() else None
    except BadFileError:
        return None
