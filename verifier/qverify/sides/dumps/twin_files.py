"""Finds further files of the tensors of a folder of arrays, with other values. Only one file of a tensor is compared, so
another one that contradicts it must not be overlooked: NAME.bin, NAME.txt, NAME.csv or an .npz beside NAME.npy, or a
folder below."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.errors import BadFileError
from qverify.sides.dumps.array_dump import find_arrays
from qverify.tensors.recording import Array, Recording
from qverify.vendor_files.array_files import StoredArray, npy, npz
from qverify.vendor_files.printed_numbers import Reals, count_numbers, numbers, printed_alike
from qverify.vendor_files.untrusted_files import MAX_DEPTH, UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import spelled_loosely

RAW = (".bin", ".raw", ".dat")  # suffixes of files of one tensor's bytes
TEXTS = (".txt", ".text", ".csv", ".tsv")  # suffixes of texts of numbers
MAX_TEXT_BYTES = 1 << 28
Agrees = Callable[[Array], bool]


def refuse_twins(path: str, recording: Recording, ending: str = ".npy") -> None:
    """Raises BadFileError if a file below the folder has other values of a tensor of its own files. ending: as for
    find_twins()."""
    for name, own, other in find_twins(path, recording, ending):
        raise BadFileError(
            f"{path}: {own} and {other} are files of one tensor, {name!r}, with different values; keep one of them"
        )


def is_undescribed(path: str) -> bool:
    """Returns whether this is a folder of .npy files in which nothing but their names states which tensor each has."""
    described = any(os.path.lexists(os.path.join(path, name)) for name in ("manifest.json", "about.txt"))
    if not os.path.isdir(path) or described:
        return False
    from qverify.capture.reader import is_capture

    return not is_capture(path) and bool(find_arrays(path))


def find_twins(path: str, recording: Recording, ending: str = ".npy") -> Iterator[tuple[str, str, str]]:
    """Yields each tensor of the folder's own files that another file contradicts, with the names of both files. ending: that
    of the files from which the recording was read. Real values of a quantized tensor are no contradiction."""
    folder = UntrustedFolder(path)
    files = folder.names(MAX_DEPTH)
    own = _OwnFiles([f for f in files if f.endswith(ending) and os.path.dirname(f) == ""], ending, recording)
    for file in files:
        stem, suffix = os.path.splitext(os.path.basename(file))
        if file in own.files or (suffix != ".npz" and own.find(stem) is None):
            continue
        for spelling, agrees in _readings(folder, file, stem, suffix):
            found = own.find(spelling)
            if found is not None and not any(map(agrees, _forms(recording, found[0]))):
                yield found[0], found[1], file


class _OwnFiles:
    """The files from which a recording was read. find(): the tensor and the file of a name, exact or in another spelling that
    only one of them has."""

    def __init__(self, files: list[str], ending: str, recording: Recording):
        self.files = frozenset(files)
        names = {spelled_loosely(name): name for name in recording.specs if name not in recording.missing}
        self._exact: dict[str, tuple[str, str]] = {}
        self._loose: dict[str, list[tuple[str, str]]] = {}
        for file in files:
            stem = file.removesuffix(ending)
            name = stem if stem in recording.specs else names.get(spelled_loosely(stem), "")
            if name and name not in recording.missing:
                self._exact[stem] = name, file
                self._loose.setdefault(spelled_loosely(stem), []).append((name, file))

    def find(self, spelling: str) -> tuple[str, str] | None:
        loose = self._loose.get(spelled_loosely(spelling), [])
        return self._exact.get(spelling) or (loose[0] if len(loose) == 1 else None)


def _forms(recording: Recording, name: str) -> Iterator[Array]:
    """Yields the stored values of a tensor and, if it is quantized, its real values."""
    value, spec = recording.tensors[name], recording.specs[name]
    yield value
    if spec.quantized and value.dtype.kind in "iu":
        yield spec.dequantized(value)


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
    elif suffix in TEXTS and (printed := list_printed(folder.file(file), suffix)):
        yield stem, lambda array: any(printed_alike(v, d, array.astype(np.float64).ravel()) for v, d in printed)


def _holds(stored: StoredArray, array: Array) -> bool:
    return _equal(stored.array(), array)


def _equal(other: Array, array: Array) -> bool:
    floats = other.dtype.kind == "f" and array.dtype.kind == "f"
    return other.size == array.size and bool(np.array_equal(other.ravel(), array.ravel(), equal_nan=floats))


def _has_bytes(file: UntrustedFile, array: Array) -> bool:
    return file.size_bytes == array.nbytes and file.whole() == np.ascontiguousarray(array).tobytes()


def list_printed(file: UntrustedFile, suffix: str) -> list[tuple[Reals, int | None]]:
    """Returns the values of a text and their known decimals, [] if it is not all numbers. A table may also have a first line
    of names, and a first column of numbers of its rows, without which it is read, too."""
    data = file.whole(MAX_TEXT_BYTES)
    texts = [data, *(_list_tables(data) if suffix in (".csv", ".tsv") else ())]
    return [printed for text in texts if (printed := _parse(text, file.path)) is not None]


def _list_tables(data: bytes) -> Iterator[bytes]:
    """Yields a table with semicolons or tabs between its columns, and without its first line, its first column, or both."""
    data = data.replace(b";", b",").replace(b"\t", b",")
    lines = [line for line in data.replace(b"\r", b"\n").split(b"\n") if line.strip()]
    for first in (0, 1):
        yield b"\n".join(lines[first:])
        yield b"\n".join(line.partition(b",")[2] for line in lines[first:])


def _parse(data: bytes, path: str) -> tuple[Reals, int | None] | None:
    """Returns the values of a text and their known decimals, or None if it is not all numbers."""
    try:
        return numbers(data, count_numbers(data), path) if data.strip() else None
    except BadFileError:
        return None
