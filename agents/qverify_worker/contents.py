"""Contents by SHA-256: models and inputs, in a folder that is kept or in memory."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from qverify_worker.errors import DAMAGED, NO_SPACE, NOT_FOUND, PROTOCOL, RequestError

LARGEST = (1 << 31) - 1
Pieces = dict[str, bytearray]


class Contents:
    """folder: where contents are kept; None: in memory. limit_bytes: of all contents; the least recently used are
    removed first, never those of this connection."""

    def __init__(self, folder: Path | None, limit_bytes: int):
        self._folder, self._limit = folder, limit_bytes
        self._partial: Pieces = {}
        self._whole = dict[str, bytes]()
        self._wanted = set[str]()
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def stored(self, sha256: str) -> int:
        """Returns how many bytes of a content are there."""
        self._wanted.add(sha256)
        if sha256 in self._partial or sha256 in self._whole:
            return len(self._partial.get(sha256, b"")) or len(self._whole.get(sha256, b""))
        if self._folder is not None:
            for path in (self._folder / sha256, self._folder / f"{sha256}.part"):
                with contextlib.suppress(OSError):
                    return path.stat().st_size
        return 0

    def put(self, sha256: str, total: int, offset: int, piece: bytes) -> int:
        """Stores a piece that follows what is there. Returns the bytes stored. Raises RequestError for a content that
        is too large, does not fit, or does not have this hash."""
        if total > LARGEST or offset + len(piece) > total:
            raise RequestError(PROTOCOL, f"a piece of {len(piece)} bytes at {offset} of {total}; at most {LARGEST}")
        self._drop_cut_off(sha256, total)
        present = self.stored(sha256)
        if present >= total and (total or sha256 in self._whole):
            return total
        if offset != present:
            return present
        return self._append(sha256, total, piece)

    def _drop_cut_off(self, sha256: str, total: int) -> None:
        """Removes a file of this content that has another size: a power failure cut it off, or a command changed it."""
        if self._folder is None:
            return
        path = self._folder / sha256
        with contextlib.suppress(OSError):
            if path.stat().st_size != total:
                path.unlink()

    def _append(self, sha256: str, total: int, piece: bytes) -> int:
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
        """Removes what was not used for longest until `size` more bytes are within the limit."""
        if self._folder is None:
            kept = sum(map(len, self._whole.values()))
        else:
            files = sorted((s.st_mtime, s.st_size, p) for p in self._folder.iterdir() for s in [p.stat()])
            kept = sum(size for _, size, _ in files)
            for _, old, path in files:
                if kept + size > self._limit and path.name.partition(".")[0] not in self._wanted:
                    path.unlink(missing_ok=True)
                    kept -= old
        if kept + size > self._limit:
            raise RequestError(NO_SPACE, f"a content of {size} bytes; {self._limit} are allowed, {kept} are in use")

    def read(self, sha256: str) -> bytes:
        """Returns a content. Raises RequestError where it is missing or has another hash."""
        self._wanted.add(sha256)
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
