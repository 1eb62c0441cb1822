"""Reads untrusted .npy files and members of .npz files: a header must match the size of the file."""

from __future__ import annotations

import io
import os
import struct
import tokenize
import warnings
import weakref
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError
from qverify.files import open_regular
from qverify.vendor_files.untrusted_files import MOST_BYTES, MOST_FILES, UntrustedFile
from qverify.vendor_files.vendor_dump import ITEM, count_elements

HEADER = 1 << 16
_ODD = (
    ValueError,
    SyntaxError,
    TypeError,
    KeyError,
    EOFError,
    RecursionError,
    MemoryError,
    tokenize.TokenError,
    OverflowError,
)
_ZIP = (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, OSError, struct.error, *_ODD)
_MOST_RATIO = 1100  # deflate packs no denser than 1032 to 1
_MOST_PACKED, _USUAL_RATIO = 1 << 30, 64  # bytes; an archive packed denser than real tensors may not be larger


@dataclass(frozen=True, slots=True)
class HeldArray:
    """An array that is read on access. dtype: a key of ITEM. read: returns its elements, dense, row-major,
    little-endian."""

    name: str
    where: str
    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], bytes]

    @property
    def size_bytes(self) -> int:
        return count_elements(self.shape, self.where) * ITEM[self.dtype]

    def array(self) -> npt.NDArray[Any]:
        """Reads and returns its elements."""
        return np.frombuffer(self.read(), np.dtype(self.dtype).newbyteorder("<")).reshape(self.shape)


def npy(file: UntrustedFile, name: str) -> HeldArray:
    """Opens a .npy file. Raises BadFileError where it is not one of numbers, or its size is not the one its header
    declares."""
    start = file.read(0, min(file.size_bytes, HEADER))
    return _array(name, file.path, start, file.size_bytes, file.read)


def npz(file: UntrustedFile) -> list[HeldArray]:
    """Returns every member, without unpacking it. Raises BadFileError as npy() does, for a duplicate member, or one
    that unpacks to too much."""
    arrays: list[HeldArray] = []
    try:
        members = _Members(file)
        _check_bounds(file, members.listed)
        if members.listed and (first := min(m.header_offset for m in members.listed)):
            raise BadFileError(f"{file.path}: {first} bytes before its first member; it begins with another file")
        for member in members.listed:
            where = f"{file.path}: {member.filename!r} at byte {member.header_offset}"
            if member.file_size > min(MOST_BYTES, member.compress_size * _MOST_RATIO + 1024):
                raise BadFileError(f"{where}: {member.compress_size} bytes that unpack to {member.file_size}")
            start = members.start(member)
            read = partial(members.read, member)
            arrays.append(_array(member.filename.removesuffix(".npy"), where, start, member.file_size, read))
    except _ZIP as error:
        raise BadFileError(f"{file.path}: not a readable .npz: {_short(error)}") from error
    return arrays


def _check_bounds(file: UntrustedFile, members: list[zipfile.ZipInfo]) -> None:
    """Raises BadFileError for too many members, too many bytes or a duplicate name, before anything is unpacked."""
    whole = sum(member.file_size for member in members)
    if len(members) > MOST_FILES or whole > 4 * MOST_BYTES:
        raise BadFileError(f"{file.path}: {len(members)} members; at most {4 * MOST_BYTES} bytes are unpacked")
    if whole > _MOST_PACKED and whole > _USUAL_RATIO * file.size_bytes:
        raise BadFileError(
            f"{file.path}: {file.size_bytes} bytes that unpack to {whole}; more than {_USUAL_RATIO} times as many are read "
            f"only up to {_MOST_PACKED} bytes; store it with numpy.savez, which does not compress"
        )
    seen: dict[str, str] = {}
    for member in members:
        name = member.filename.removesuffix(".npy")
        if name in seen:
            raise BadFileError(
                f"{file.path}: contains two arrays of one name, {name!r} (members {seen[name]!r} and {member.filename!r})"
            )
        seen[name] = member.filename


class _Members:
    """The members of an .npz, opened once and closed with the last of its arrays."""

    def __init__(self, file: UntrustedFile):
        self._path = file.path
        handle = os.fdopen(open_regular(file.path), "rb")
        weakref.finalize(self, handle.close)
        self._held = zipfile.ZipFile(handle)
        self.listed = self._held.infolist()

    def start(self, member: zipfile.ZipInfo) -> bytes:
        with self._held.open(member) as packed:
            return packed.read(min(member.file_size, HEADER))

    def read(self, member: zipfile.ZipInfo, offset: int, size: int) -> bytes:
        try:
            with self._held.open(member) as packed:
                packed.read(offset)
                data = packed.read(size)
                if packed.read(1) or len(data) != size:
                    raise ValueError(f"{len(data)} bytes, {size} declared")
                return data
        except _ZIP as error:
            raise BadFileError(f"{self._path}: {member.filename!r}: {_short(error)}") from error


def _array(name: str, where: str, start: bytes, size: int, read: Callable[[int, int], bytes]) -> HeldArray:
    shape, order, dtype, offset = _header(start, where)
    kind = dtype.name
    if kind not in ITEM or dtype.fields is not None:
        raise BadFileError(f"{where}: {str(dtype)[:40]}; only numbers of at most 64 bits can be compared")
    wanted = count_elements(shape, where) * dtype.itemsize
    if size - offset != wanted:
        raise BadFileError(f"{where}: byte {offset}: {size - offset} bytes, {kind}{list(shape)} has {wanted}")
    return HeldArray(name, where, kind, shape, partial(_dense, read, offset, wanted, dtype, shape, order))


def _header(start: bytes, where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Returns the shape, whether column-major, the dtype, and the offset of the elements."""
    stream = io.BytesIO(start)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(stream)
            if version not in ((1, 0), (2, 0), (3, 0)):
                raise ValueError(f"version {version}")
            take = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, order, dtype = take(stream, max_header_size=HEADER)
    except _ODD as error:
        raise BadFileError(f"{where}: byte 0: not the header of a .npy: {_short(error)}") from error
    if any(isinstance(d, bool) for d in shape):
        raise BadFileError(f"{where}: byte 0: a shape of {list(shape)[:16]}")
    return tuple(int(d) for d in shape), order, dtype, stream.tell()


def _dense(
    read: Callable[[int, int], bytes], offset: int, size: int, dtype: np.dtype[Any], shape: tuple[int, ...], order: bool
) -> bytes:
    data = read(offset, size)
    if not order and dtype.byteorder in "<|=":
        return data
    whole = np.frombuffer(data, dtype).reshape(shape[::-1] if order else shape)
    dense = whole.T if order else whole
    return np.ascontiguousarray(dense).astype(dtype.newbyteorder("<"), copy=False).tobytes()


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
