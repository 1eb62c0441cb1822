"""Opens untrusted files of a dump. Their number and sizes are limited before memory is allocated, and they must lie in
the dump's folder."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from qverify.errors import BadFileError
from qverify.files import open_regular

MAX_FILES, MAX_FILE_BYTES = 200_000, 1 << 31
MAX_DEPTH = 3  # levels of folders
_UNFINISHED = re.compile(r"\.\d{4,}\.part\.npy")


def unfinished(name: str) -> bool:
    """Returns True if the name is that of a temporary file of `qverify infer`, which remains after it was killed or the
    disk was full."""
    return _UNFINISHED.fullmatch(name) is not None


class UntrustedFile:
    """A regular file that is read by offset. size_bytes: its size when it was first opened. A file that became shorter
    since then is rejected."""

    def __init__(self, path: str):
        self.path = path
        with _opened(path) as handle:
            self.size_bytes = os.fstat(handle).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Returns exactly `size` bytes. Raises BadFileError, before memory is allocated, if the file does not have
        them."""
        if size < 0 or offset < 0 or offset + size > self.size_bytes:
            raise BadFileError(
                f"{self.path}: byte {offset}: {size} bytes declared, {max(self.size_bytes - offset, 0)} are left"
            )
        if size > MAX_FILE_BYTES:
            raise BadFileError(f"{self.path}: byte {offset}: {size} bytes declared, at most {MAX_FILE_BYTES} are read")
        with _opened(self.path) as handle:
            parts, at = [], os.lseek(handle, offset, os.SEEK_SET)
            while at < offset + size and (part := os.read(handle, min(offset + size - at, 1 << 26))):
                parts.append(part)
                at += len(part)
        if at != offset + size:
            raise BadFileError(f"{self.path}: byte {at}: the file became shorter while it was read")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def whole(self, limit: int = MAX_FILE_BYTES) -> bytes:
        """Returns the whole content. Raises BadFileError if it is longer than limit."""
        if self.size_bytes > limit:
            raise BadFileError(f"{self.path}: {self.size_bytes} bytes, at most {limit} are read")
        return self.read(0, self.size_bytes)

    def line(self, offset: int, limit: int = 4096) -> bytes:
        """Returns the bytes from offset to the next newline, without the newline. Raises BadFileError if the line is
        longer than limit, or does not end."""
        content = self.read(offset, min(limit + 1, max(self.size_bytes - offset, 0)))
        end = content.find(b"\n")
        if end < 0:
            raise BadFileError(f"{self.path}: byte {offset}: a line that does not end within {limit} bytes")
        return content[:end]


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    """Yields a descriptor of a regular file, opened without blocking. The last component of the path must not be a
    link."""
    handle = open_regular(path)
    try:
        yield handle
    finally:
        os.close(handle)


class UntrustedFolder:
    """A folder of a dump, or the single file that the user named. Links are followed only within the folder."""

    def __init__(self, path: str):
        self.path = path
        self._real = os.path.realpath(path)

    @property
    def is_file(self) -> bool:
        return not os.path.isdir(self._real)

    def names(self, max_depth: int = 1) -> list[str]:
        """Returns the paths of the files below the folder, sorted. max_depth: levels of folders; 1 stands for the
        folder's own files."""
        names: list[str] = []
        self._walk("", min(max_depth, MAX_DEPTH), names)
        return sorted(names)

    def folders(self) -> list[str]:
        """Returns the names of its folders, sorted."""
        return sorted(e.name for e in self._entries("") if e.is_dir(follow_symlinks=False))

    def file(self, name: str) -> UntrustedFile:
        """Opens a file. name: from names(), or from a manifest. Raises BadFileError if the path leads out of the
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

    def _walk(self, below: str, max_depth: int, files: list[str]) -> None:
        for entry in self._entries(below):
            name = os.path.join(below, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if max_depth > 1:
                    self._walk(name, max_depth - 1, files)
            elif not unfinished(entry.name):
                files.append(name)
            if len(files) > MAX_FILES:
                raise BadFileError(f"{self.path}: more than {MAX_FILES} files")
