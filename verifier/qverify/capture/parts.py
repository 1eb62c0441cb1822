"""Writes and reads parts.zst, which contains each distinct content once, as a zstd frame. Worker threads compress."""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import zstandard

from qverify.arithmetic.workers import core_count, submit
from qverify.errors import BadFileError
from qverify.tensors.digest import bytes_digest

LEVEL = 1  # of zstd
MAX_RAW_BYTES = 1 << 31  # uncompressed size of a part
_thread_local = threading.local()  # a compressor for each thread


@dataclass(frozen=True, slots=True)
class Part:
    """One content of parts.zst. offset, stored: position and size of its frame in the file, in bytes. raw: uncompressed
    size in bytes. digest: XXH64 of the uncompressed bytes, 16 hex digits."""

    offset: int
    stored: int
    raw: int
    digest: str


class PartWriter:
    """Writes parts.zst. parts: the contents that are in the file so far. add() and close() raise OSError if the file
    cannot be written, for example on a full disk."""

    def __init__(self, path: str):
        self._path = path
        self._file = open(path, "xb")  # noqa: SIM115 (closed by close)
        self._waiting: deque[tuple[int, str, Future[bytes]]] = deque()
        self._numbers: dict[tuple[str, int], int] = {}
        self.parts: list[Part] = []

    def known(self, digest: str, raw: int) -> int | None:
        """Returns the number of the content with this digest and size in bytes if it was added before, else None."""
        return self._numbers.get((digest, raw))

    def add(self, data: bytes | memoryview, digest: str = "") -> int:
        """Adds a content, unless the same was added before, and returns its number. digest: its XXH64, computed if
        ""."""
        view = memoryview(data).cast("B")
        digest = digest or bytes_digest(view)
        number = self._numbers.setdefault((digest, len(view)), len(self._numbers))
        if number == len(self.parts) + len(self._waiting):
            self._waiting.append((len(view), digest, submit(partial(_compress, view))))
            while len(self._waiting) > 2 * core_count():
                self._write_next()
        return number

    def _write_next(self) -> None:
        """Writes the content that has waited longest, once it is compressed."""
        raw, digest, compressed = self._waiting.popleft()
        data = compressed.result()
        offset = self._file.tell()
        try:
            self._file.write(data)
            self._file.flush()
        except OSError:
            self._waiting.clear()  # the numbers of later contents would be wrong
            raise
        self.parts.append(Part(offset, len(data), raw, digest))

    def close(self) -> None:
        """Writes the contents that still wait, and closes the file."""
        try:
            while self._waiting:
                self._write_next()
        finally:
            self._file.close()

    def shorten(self, size_bytes: int) -> bool:
        """Removes parts from the end of the closed file until at least `size_bytes` are freed. Returns False if there
        are no parts to remove."""
        if not self.parts:
            return False
        end = self.parts[-1].offset + self.parts[-1].stored
        while self.parts and end - self.parts[-1].offset < size_bytes:
            self.parts.pop()
        os.truncate(self._path, self.parts.pop().offset if self.parts else 0)
        return True


def _compress(view: memoryview) -> bytes:
    if not hasattr(_thread_local, "compressor"):
        _thread_local.compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False)
    return bytes(_thread_local.compressor.compress(view))


class PartReader:
    """Reads contents of parts.zst by number, and checks each. parts: the list in capture.json."""

    def __init__(self, path: str, parts: list[Part]):
        self.path, self.parts = path, parts
        try:
            self._size = os.path.getsize(path)
        except OSError:
            self._size = -1  # the file does not exist

    def read(self, number: int, size_bytes: int | None = None) -> bytes:
        """Returns a content. size_bytes: the size that it must have, None if that is not known; a part that claims
        another size is rejected before it is uncompressed. Raises BadFileError, which names the part, if it is missing,
        cut off or changed."""
        if not 0 <= number < len(self.parts):
            raise BadFileError(f"{self.path}: part {number} is not listed")
        part = self.parts[number]
        where = f"{self.path}: part {number} at byte {part.offset}"
        if self._size < 0:
            raise BadFileError(f"{self.path} does not exist")
        if part.offset + part.stored > self._size:
            raise BadFileError(f"{where} is cut off")
        if not 0 <= part.raw <= MAX_RAW_BYTES or part.raw != (part.raw if size_bytes is None else size_bytes):
            limit = f"at most {MAX_RAW_BYTES} are read" if size_bytes is None else f"wanted {size_bytes}"
            raise BadFileError(f"{where} claims {part.raw} bytes; {limit}")
        try:
            with open(self.path, "rb") as file:
                file.seek(part.offset)
                data = file.read(part.stored)
            if zstandard.get_frame_parameters(data).content_size != part.raw:  # else more might be uncompressed
                raise BadFileError(f"{where} was changed")
            raw = zstandard.ZstdDecompressor().decompress(data)
        except zstandard.ZstdError as error:
            raise BadFileError(f"{where} was changed: {error}") from error
        except (OSError, MemoryError) as error:
            raise BadFileError(f"{where} cannot be read: {error}") from error
        if bytes_digest(raw) != part.digest:
            raise BadFileError(f"{where} was changed")
        return bytes(raw)
