"""Untrusted files of a dump: limited in number and size before anything is allocated, and never outside their
folder."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from qverify.errors import BadFileError
from qverify.files import open_regular

MOST_FILES, MOST_BYTES = 200_000, 1 << 31
DEEPEST = 3
_UNFINISHED = re.compile(r"\.\d{4,}\.part\.npy")


def unfinished(name: str) -> bool:
    """Tells whether a killed `qverify infer`, or a full disk, left this file half-written; it is not a tensor."""
    return _UNFINISHED.fullmatch(name) is not None


class UntrustedFile:
    """A regular file that is read by position. size_bytes: its size when first opened; a file that became shorter since
    is rejected."""

    def __init__(self, path: str):
        self.path = path
        with _opened(path) as handle:
            self.size_bytes = os.fstat(handle).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Returns exactly `size` bytes. Raises BadFileError, before allocating them, where the file does not have
        them."""
        if size < 0 or offset < 0 or offset + size > self.size_bytes:
            raise BadFileError(
                f"{self.path}: byte {offset}: {size} bytes declared, {max(self.size_bytes - offset, 0)} are left"
            )
        if size > MOST_BYTES:
            raise BadFileError(f"{self.path}: byte {offset}: {size} bytes declared, at most {MOST_BYTES} are read")
        with _opened(self.path) as handle:
            parts, at = [], os.lseek(handle, offset, os.SEEK_SET)
            while at < offset + size and (part := os.read(handle, min(offset + size - at, 1 << 26))):
                parts.append(part)
                at += len(part)
        if at != offset + size:
            raise BadFileError(f"{self.path}: byte {at}: the file became shorter while it was read")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def whole(self, limit: int = MOST_BYTES) -> bytes:
        """Returns the whole content. Raises BadFileError where it is longer than limit."""
        if self.size_bytes > limit:
            raise BadFileError(f"{self.path}: {self.size_bytes} bytes, at most {limit} are read")
        return self.read(0, self.size_bytes)

    def line(self, offset: int, limit: int = 4096) -> bytes:
        """Returns the bytes from offset to the next newline, without it. Raises BadFileError where the line is longer
        than limit, or has no end."""
        content = self.read(offset, min(limit + 1, max(self.size_bytes - offset, 0)))
        end = content.find(b"\n")
        if end < 0:
            raise BadFileError(f"{self.path}: byte {offset}: a line that does not end within {limit} bytes")
        return content[:end]


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    """Yields a descriptor of a regular file, opened without waiting; the last part of the path may not be a link."""
    handle = open_regular(path)
    try:
        yield handle
    finally:
        os.close(handle)


class UntrustedFolder:
    """A folder of a dump, or the single file that the user named. Links are followed only inside the folder."""

    def __init__(self, path: str):
        self.path = path
        self._real = os.path.realpath(path)

    @property
    def is_file(self) -> bool:
        return not os.path.isdir(self._real)

    def names(self, deepest: int = 1) -> list[str]:
        """Returns the paths of the files below the folder, sorted. deepest: levels of folders, 1 for the folder's own
        files."""
        names: list[str] = []
        self._walk("", min(deepest, DEEPEST), names)
        return sorted(names)

    def folders(self) -> list[str]:
        """Returns the names of its folders, sorted."""
        return sorted(e.name for e in self._entries("") if e.is_dir(follow_symlinks=False))

    def file(self, name: str) -> UntrustedFile:
        """Opens a file. name: from names(), or from a manifest. Raises BadFileError for a path that leads out of the
        folder, also by a link."""
        path = os.path.join(self.path, name)
        if "\0" in name:
            raise BadFileError(f"{path!r}: not a file name")
        real = os.path.realpath(path)
        if os.path.isabs(name) or os.path.commonpath([real, self._real]) != self._real:
            raise BadFileError(f"{path}: leads out of the folder")
        return UntrustedFile(real)

    def only(self) -> UntrustedFile:
        """Opens the single file that the user named, following links."""
        return UntrustedFile(self._real)

    def _entries(self, below: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(os.path.join(self.path, below)) as entries:
                return list(entries)
        except OSError as error:
            raise BadFileError(f"{os.path.join(self.path, below)}: {error.strerror}") from error

    def _walk(self, below: str, deepest: int, files: list[str]) -> None:
        for entry in self._entries(below):
            name = os.path.join(below, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if deepest > 1:
                    self._walk(name, deepest - 1, files)
            elif not unfinished(entry.name):
                files.append(name)
            if len(files) > MOST_FILES:
                raise BadFileError(f"{self.path}: more than {MOST_FILES} files")
