"""The store of contents (models and inputs), by SHA-256, in a folder or in memory."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from qverify_worker.errors import DAMAGED, NO_SPACE, NOT_FOUND, PROTOCOL, RequestError

MAX_CONTENT_BYTES = (1 << 31) - 1
Pieces = dict[str, bytearray]


class Contents:
    """The contents of a board. folder: the folder in which they are kept, or None for memory. limit_bytes: the most
    bytes of all contents. The least recently used ones are removed first, never those that this connection uses."""

    def __init__(self, folder: Path | None, limit_bytes: int):
        self._folder, self._limit = folder, limit_bytes
        self._partial: Pieces = {}
        self._whole = dict[str, bytes]()
        self._in_use = set[str]()
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def stored_bytes(self, sha256: str) -> int:
        """Returns the number of bytes of a content that are stored."""
        self._in_use.add(sha256)
        if sha256 in self._partial or sha256 in self._whole:
            return len(self._partial.get(sha256, b"")) or len(self._whole.get(sha256, b""))
        if self._folder is not None:
            for path in (self._folder / sha256, self._folder / f"{sha256}.part"):
                with contextlib.suppress(OSError):
                    return path.stat().st_size
        return 0

    def put(self, sha256: str, total: int, offset: int, piece: bytes) -> int:
        """Stores a piece if it follows the bytes that are stored, and returns the number of bytes then stored. Raises
        RequestError for a content that is too large, finds no space, or does not have this hash."""
        if total > MAX_CONTENT_BYTES or offset + len(piece) > total:
            raise RequestError(
                PROTOCOL, f"a piece of {len(piece)} bytes at {offset} of {total}; at most {MAX_CONTENT_BYTES}"
            )
        self._drop_wrong_size(sha256, total)
        present = self.stored_bytes(sha256)
        if present >= total and (total or sha256 in self._whole):
            return total
        if offset != present:
            return present
        return self._append_piece(sha256, total, piece)

    def _drop_wrong_size(self, sha256: str, total: int) -> None:
        """Removes a complete file of this content that has another size, after a power failure or a change by a
        command."""
        if self._folder is None:
            return
        path = self._folder / sha256
        with contextlib.suppress(OSError):
            if path.stat().st_size != total:
                path.unlink()

    def _append_piece(self, sha256: str, total: int, piece: bytes) -> int:
        partial = self._partial.setdefault(sha256, bytearray())
        part = self._folder / f"{sha256}.part" if self._folder is not None else None
        if part is not None and not partial:
            with contextlib.suppress(FileNotFoundError):
                partial += part.read_bytes()
        if not partial:
            self._make_room(total)
        partial += piece
        if len(partial) < total:
            if part is not None:
                self._write(part, piece, "ab")
            return len(partial)
        data = bytes(partial)
        del self._partial[sha256]
        if hashlib.sha256(data).hexdigest() != sha256:
            if part is not None:
                part.unlink(missing_ok=True)
            raise RequestError(DAMAGED, f"content {sha256[:16]}: its bytes have another hash; it was dropped")
        self._keep(sha256, data, part)
        return total

    def _keep(self, sha256: str, data: bytes, part: Path | None) -> None:
        if part is None or self._folder is None:
            self._whole[sha256] = data
            return
        self._write(part, data, "wb")
        part.replace(self._folder / sha256)

    def _write(self, path: Path, data: bytes, mode: str) -> None:
        try:
            with open(path, mode) as file:
                file.write(data)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise RequestError(NO_SPACE, f"{path.parent}: {error.strerror}") from error

    def _make_room(self, size: int) -> None:
        """Removes the least recently used contents until `size` more bytes are within the limit. Raises RequestError if
        that is not enough."""
        if self._folder is None:
            used = sum(map(len, self._whole.values()))
        else:
            files = sorted((s.st_mtime, s.st_size, p) for p in self._folder.iterdir() for s in [p.stat()])
            used = sum(size for _, size, _ in files)
            for _, file_size, path in files:
                if used + size > self._limit and path.name.partition(".")[0] not in self._in_use:
                    path.unlink(missing_ok=True)
                    used -= file_size
        if used + size > self._limit:
            raise RequestError(NO_SPACE, f"a content of {size} bytes; {self._limit} are allowed, {used} are in use")

    def read(self, sha256: str) -> bytes:
        """Returns a content. Raises RequestError if it is missing or has another hash."""
        self._in_use.add(sha256)
        data = self._whole.get(sha256)
        if data is None and self._folder is not None:
            path = self._folder / sha256
            with contextlib.suppress(OSError):
                data = path.read_bytes()
                os.utime(path)
            if data is not None and hashlib.sha256(data).hexdigest() != sha256:
                path.unlink(missing_ok=True)
                raise RequestError(DAMAGED, f"content {sha256[:16]}: its bytes have another hash; it was dropped")
        if data is None:
            raise RequestError(NOT_FOUND, f"content {sha256[:16]} is not there")
        return data
