"""Reads untrusted .npy files and members of .npz files. The size that a header declares must be that of the file."""

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
from qverify.tensors.npy_headers import HEADER_LOCK
from qverify.vendor_files.untrusted_files import MAX_FILE_BYTES, MAX_FILES, UntrustedFile
from qverify.vendor_files.vendor_dump import ITEM, count_elements

MAX_HEADER_BYTES = 1 << 16
_HEADER_ERRORS = (
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
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    zlib.error,
    OSError,
    struct.error,
    *_HEADER_ERRORS,
)
_MAX_RATIO = 1100  # the compression ratio of deflate is at most 1032
_MAX_DENSE_BYTES, _USUAL_RATIO = 1 << 30, 64  # unpacked size of archives with a higher ratio than real tensors have


@dataclass(frozen=True, slots=True)
class StoredArray:
    """An array in a file, which is read on access. where: file and member, for messages. dtype: a key of ITEM. read:
    returns the elements as bytes, dense, row-major and little-endian."""

    name: str
    where: str
    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], bytes]

    @property
    def size_bytes(self) -> int:
        return count_elements(self.shape, self.where) * ITEM[self.dtype]

    def array(self) -> npt.NDArray[Any]:
        """Reads and returns the elements."""
        return np.frombuffer(self.read(), np.dtype(self.dtype).newbyteorder("<")).reshape(self.shape)


def npy(file: UntrustedFile, name: str) -> StoredArray:
    """Opens a .npy file. Raises BadFileError if it is not one of numbers, or if its size differs from the declared
    one."""
    start = file.read(0, min(file.size_bytes, MAX_HEADER_BYTES))
    return _array(name, file.path, start, file.size_bytes, file.read)


def npy_in_memory(data: bytes, name: str, where: str) -> StoredArray:
    """Opens the bytes of a .npy file. Raises BadFileError like npy()."""
    return _array(name, where, data[:MAX_HEADER_BYTES], len(data), lambda offset, size: data[offset : offset + size])


def npz_text(file: UntrustedFile, name: str, most: int) -> bytes:
    """Returns the bytes of a member that is no array; b"" if the archive has none of this name. Raises BadFileError for
    more than `most` bytes."""
    try:
        members = _Members(file)
        member = next((m for m in members.listed if m.filename == name), None)
        if member is None:
            return b""
        if member.file_size > most:
            raise BadFileError(f"{file.path}: {name!r} has {member.file_size} bytes; at most {most} are read")
        return members.read(member, 0, member.file_size)
    except _ZIP_ERRORS as error:
        raise BadFileError(f"{file.path}: not a readable .npz: {_short(error)}") from error


def npz(file: UntrustedFile, no_array: str = "") -> list[StoredArray]:
    """Returns the arrays of all members but that called `no_array`, without unpacking them. Raises BadFileError like
    npy(), and for a duplicate member or one that unpacks to too many bytes."""
    arrays: list[StoredArray] = []
    try:
        members = _Members(file)
        _check_bounds(file, members.listed)
        if members.listed and (first := min(m.header_offset for m in members.listed)):
            raise BadFileError(f"{file.path}: {first} bytes before its first member; it begins with another file")
        for member in (m for m in members.listed if not no_array or m.filename != no_array):
            where = f"{file.path}: {member.filename!r} at byte {member.header_offset}"
            if member.file_size > min(MAX_FILE_BYTES, member.compress_size * _MAX_RATIO + 1024):
                raise BadFileError(f"{where}: {member.compress_size} bytes that unpack to {member.file_size}")
            start = members.start(member)
            read = partial(members.read, member)
            arrays.append(_array(member.filename.removesuffix(".npy"), where, start, member.file_size, read))
    except _ZIP_ERRORS as error:
        raise BadFileError(f"{file.path}: not a readable .npz: {_short(error)}") from error
    return arrays


def _check_bounds(file: UntrustedFile, members: list[zipfile.ZipInfo]) -> None:
    """Raises BadFileError for too many members, too many bytes or a duplicate name. Unpacks nothing."""
    unpacked_bytes = sum(member.file_size for member in members)
    if len(members) > MAX_FILES or unpacked_bytes > 4 * MAX_FILE_BYTES:
        raise BadFileError(f"{file.path}: {len(members)} members; at most {4 * MAX_FILE_BYTES} bytes are unpacked")
    if unpacked_bytes > _MAX_DENSE_BYTES and unpacked_bytes > _USUAL_RATIO * file.size_bytes:
        raise BadFileError(
            f"{file.path}: {file.size_bytes} bytes that unpack to {unpacked_bytes}; more than {_USUAL_RATIO} times as many are read "
            f"only up to {_MAX_DENSE_BYTES} bytes; store it with numpy.savez, which does not compress"
        )
    members_by_name: dict[str, str] = {}
    for member in members:
        name = member.filename.removesuffix(".npy")
        if name in members_by_name:
            raise BadFileError(
                f"{file.path}: contains two arrays of one name, {name!r} (members {members_by_name[name]!r} and {member.filename!r})"
            )
        members_by_name[name] = member.filename


class _Members:
    """The members of an .npz. The file is opened once, and closed when its last array is deleted."""

    def __init__(self, file: UntrustedFile):
        self._path = file.path
        handle = os.fdopen(open_regular(file.path), "rb")
        weakref.finalize(self, handle.close)
        self._zip = zipfile.ZipFile(handle)
        self.listed = self._zip.infolist()

    def start(self, member: zipfile.ZipInfo) -> bytes:
        with self._zip.open(member) as packed:
            return packed.read(min(member.file_size, MAX_HEADER_BYTES))

    def read(self, member: zipfile.ZipInfo, offset: int, size: int) -> bytes:
        try:
            with self._zip.open(member) as packed:
                packed.read(offset)
                data = packed.read(size)
                if packed.read(1) or len(data) != size:
                    raise ValueError(f"{len(data)} bytes, {size} declared")
                return data
        except _ZIP_ERRORS as error:
            raise BadFileError(f"{self._path}: {member.filename!r}: {_short(error)}") from error


def _array(name: str, where: str, start: bytes, size: int, read: Callable[[int, int], bytes]) -> StoredArray:
    shape, is_column_major, dtype, offset = _header(start, where)
    dtype_name = dtype.name
    if dtype_name not in ITEM or dtype.fields is not None:
        raise BadFileError(f"{where}: {str(dtype)[:40]}; only numbers of at most 64 bits can be compared")
    expected_bytes = count_elements(shape, where) * dtype.itemsize
    if size - offset != expected_bytes:
        raise BadFileError(
            f"{where}: byte {offset}: {size - offset} bytes, {dtype_name}{list(shape)} has {expected_bytes}"
        )
    return StoredArray(
        name, where, dtype_name, shape, partial(_dense, read, offset, expected_bytes, dtype, shape, is_column_major)
    )


def _header(start: bytes, where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Returns the shape, True for column-major order, the dtype, and the offset of the elements."""
    stream = io.BytesIO(start)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(stream)
            if version not in ((1, 0), (2, 0), (3, 0)):
                raise ValueError(f"version {version}")
            read_header = (
                np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            )
            with HEADER_LOCK:
                shape, is_column_major, dtype = read_header(stream, max_header_size=MAX_HEADER_BYTES)
    except _HEADER_ERRORS as error:
        raise BadFileError(f"{where}: byte 0: not the header of a .npy: {_short(error)}") from error
    if any(isinstance(d, bool) for d in shape):
        raise BadFileError(f"{where}: byte 0: a shape of {list(shape)[:16]}")
    return tuple(int(d) for d in shape), is_column_major, dtype, stream.tell()


def _dense(
    read: Callable[[int, int], bytes],
    offset: int,
    size: int,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    is_column_major: bool,
) -> bytes:
    data = read(offset, size)
    if not is_column_major and dtype.byteorder in "<|=":
        return data
    stored = np.frombuffer(data, dtype).reshape(shape[::-1] if is_column_major else shape)
    dense = stored.T if is_column_major else stored
    return np.ascontiguousarray(dense).astype(dtype.newbyteorder("<"), copy=False).tobytes()


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
