"""parts.zst: each distinct content once, as a zstd frame; other threads compress."""

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

LEVEL = 1
MOST_RAW = 1 << 31
_own = threading.local()


@dataclass(frozen=True, slots=True)
class Part:
    """One content. offset, stored: position and size of its frame in the file, in bytes. raw: uncompressed size in
    bytes. digest: XXH64 of the uncompressed bytes, 16 hex digits."""

    offset: int
    stored: int
    raw: int
    digest: str


class PartWriter:
    """Writes parts.zst. add() and close() raise OSError (disk full); everything in `parts` by then is in the file."""

    def __init__(self, path: str):
        self._path = path
        self._file = open(path, "xb")  # noqa: SIM115 (closed by close)
        self._waiting: deque[tuple[int, str, Future[bytes]]] = deque()
        self._numbers: dict[tuple[str, int], int] = {}
        self.parts: list[Part] = []

    def known(self, digest: str, raw: int) -> int | None:
        """Returns the number of a content that was added already, else None."""
        return self._numbers.get((digest, raw))

    def add(self, data: bytes | memoryview, digest: str = "") -> int:
        """Adds a content and returns its number. digest: its XXH64 if known."""
        view = memoryview(data).cast("B")
        digest = digest or bytes_digest(view)
        number = self._numbers.setdefault((digest, len(view)), len(self._numbers))
        if number == len(self.parts) + len(self._waiting):
            self._waiting.append((len(view), digest, submit(partial(_compressed, view))))
            while len(self._waiting) > 2 * core_count():
                self._write()
        return number

    def _write(self) -> None:
        raw, digest, compressed = self._waiting.popleft()
        data = compressed.result()
        offset = self._file.tell()
        try:
            self._file.write(data)
            self._file.flush()
        except OSError:
            self._waiting.clear()  # later contents would get other numbers
            raise
        self.parts.append(Part(offset, len(data), raw, digest))

    def close(self) -> None:
        """Writes what is left, and closes the file."""
        try:
            while self._waiting:
                self._write()
        finally:
            self._file.close()

    def shorten(self, wanted: int) -> bool:
        """Removes parts from the end of the closed file until so many bytes are free. Returns False where none are
        left."""
        if not self.parts:
            return False
        end = self.parts[-1].offset + self.parts[-1].stored
        while self.parts and end - self.parts[-1].offset < wanted:
            self.parts.pop()
        os.truncate(self._path, self.parts.pop().offset if self.parts else 0)
        return True


def _compressed(view: memoryview) -> bytes:
    if not hasattr(_own, "compressor"):
        _own.compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False)
    return bytes(_own.compressor.compress(view))


class PartReader:
    """Reads contents by number and checks each. read() raises BadFileError, which names the part and what is wrong with
    it."""

    def __init__(self, path: str, parts: list[Part]):
        self.path, self.parts = path, parts
        try:
            self._size = os.path.getsize(path)
        except OSError:
            self._size = -1

    def read(self, number: int, wanted: int | None = None) -> bytes:
        """Returns a content. wanted: its size in bytes; a part that claims another is rejected before it is
        uncompressed."""
        if not 0 <= number < len(self.parts):
            raise BadFileError(f"{self.path}: part {number} is not listed")
        part = self.parts[number]
        where = f"{self.path}: part {number} at byte {part.offset}"
        if self._size < 0:
            raise BadFileError(f"{self.path} does not exist")
        if part.offset + part.stored > self._size:
            raise BadFileError(f"{where} is cut off")
        if not 0 <= part.raw <= MOST_RAW or part.raw != (part.raw if wanted is None else wanted):
            most = f"at most {MOST_RAW} are read" if wanted is None else f"wanted {wanted}"
            raise BadFileError(f"{where} claims {part.raw} bytes; {most}")
        try:
            with open(self.path, "rb") as file:
                file.seek(part.offset)
                data = file.read(part.stored)
            if zstandard.get_frame_parameters(data).content_size != part.raw:  # never uncompress more than declared
                raise BadFileError(f"{where} was changed")
            raw = zstandard.ZstdDecompressor().decompress(data)
        except zstandard.ZstdError as error:
            raise BadFileError(f"{where} was changed: {error}") from error
        except (OSError, MemoryError) as error:
            raise BadFileError(f"{where} cannot be read: {error}") from error
        if bytes_digest(raw) != part.digest:
            raise BadFileError(f"{where} was changed")
        return bytes(raw)
