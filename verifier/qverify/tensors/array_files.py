""".npy files and members of .npz of somebody else: headers believed only where the file has the bytes they declare."""

from __future__ import annotations

import io
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from qverify.errors import BadFileError
from qverify.tensors.outside_folder import MOST_BYTES, MOST_FILES, OutsideFile
from qverify.tensors.vendor import ITEM, counted

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


@dataclass(frozen=True, slots=True)
class HeldArray:
    """dtype: a key of ITEM. read: its elements, dense, row-major, little-endian."""

    name: str
    where: str
    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], bytes]

    @property
    def size_bytes(self) -> int:
        return counted(self.shape, self.where) * ITEM[self.dtype]


def npy(file: OutsideFile, name: str) -> HeldArray:
    """BadFileError where it is no .npy of numbers, or has not exactly the bytes its header declares."""
    start = file.read(0, min(file.size_bytes, HEADER))
    return _array(name, file.path, start, file.size_bytes, file.read)


def npz(file: OutsideFile) -> list[HeldArray]:
    """Every member, none unpacked yet. BadFileError as npy; for a member twice, or one that unpacks to too much."""
    found: list[HeldArray] = []
    try:
        with _handle(file) as handle, zipfile.ZipFile(handle) as held:
            members = held.infolist()
            if len(members) > MOST_FILES or sum(m.file_size for m in members) > 4 * MOST_BYTES:
                raise BadFileError(f"{file.path}: {len(members)} members; at most {4 * MOST_BYTES} bytes are unpacked")
            for member in members:
                where = f"{file.path}: {member.filename!r} at byte {member.header_offset}"
                if member.file_size > min(MOST_BYTES, member.compress_size * _MOST_RATIO + 1024):
                    raise BadFileError(f"{where}: {member.compress_size} bytes that unpack to {member.file_size}")
                with held.open(member) as packed:
                    start = packed.read(min(member.file_size, HEADER))
                read = partial(_member, file, member.filename)
                found.append(_array(member.filename.removesuffix(".npy"), where, start, member.file_size, read))
    except _ZIP as error:
        raise BadFileError(f"{file.path}: not a readable .npz: {_short(error)}") from error
    if len({a.name for a in found}) != len(found):
        raise BadFileError(f"{file.path}: holds two arrays of one name")
    return found


def _handle(file: OutsideFile) -> io.BufferedReader:
    handle = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    return os.fdopen(handle, "rb")


def _member(file: OutsideFile, name: str, offset: int, size: int) -> bytes:
    try:
        with _handle(file) as handle, zipfile.ZipFile(handle) as held, held.open(name) as packed:
            packed.read(offset)
            data = packed.read(size)
            if packed.read(1) or len(data) != size:
                raise ValueError(f"{len(data)} bytes, {size} declared")
            return data
    except _ZIP as error:
        raise BadFileError(f"{file.path}: {name!r}: {_short(error)}") from error


def _array(name: str, where: str, start: bytes, size: int, read: Callable[[int, int], bytes]) -> HeldArray:
    shape, order, dtype, offset = _header(start, where)
    kind = dtype.name
    if kind not in ITEM or dtype.fields is not None:
        raise BadFileError(f"{where}: {str(dtype)[:40]}; only numbers of at most 64 bits can be compared")
    wanted = counted(shape, where) * dtype.itemsize
    if size - offset != wanted:
        raise BadFileError(f"{where}: byte {offset}: {size - offset} bytes, {kind}{list(shape)} has {wanted}")
    return HeldArray(name, where, kind, shape, partial(_dense, read, offset, wanted, dtype, shape, order))


def _header(start: bytes, where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether column-major, dtype, and where the elements begin."""
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
