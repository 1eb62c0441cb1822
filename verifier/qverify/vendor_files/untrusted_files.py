"""Files of a dump that somebody else wrote: counted, sized before anything is allocated, and never outside their folder."""

from __future__ import annotations

import os
import re
import stat

from qverify.errors import BadFileError

MOST_FILES, MOST_BYTES = 200_000, 1 << 31
DEEPEST = 3
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
_UNFINISHED = re.compile(r"\.\d{4,}\.part\.npy")


def unfinished(name: str) -> bool:
    """A file that a killed or full qverify infer left half-written: no tensor of any dump."""
    return _UNFINISHED.fullmatch(name) is not None


class UntrustedFile:
    """A regular file read by position. size_bytes is that of the file when it was opened for the first time; a file that
    changed since is refused."""

    def __init__(self, path: str):
        self.path = path
        with _opened(path) as handle:
            self.size_bytes = os.fstat(handle.number).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Exactly size bytes. BadFileError where the file does not have them, before they are allocated."""
        if size < 0 or offset < 0 or offset + size > self.size_bytes:
            raise BadFileError(
                f"{self.path}: byte {offset}: {size} bytes declared, {max(self.size_bytes - offset, 0)} are left"
            )
        if size > MOST_BYTES:
            raise BadFileError(f"{self.path}: byte {offset}: {size} bytes declared, at most {MOST_BYTES} are read")
        with _opened(self.path) as handle:
            parts, at = [], offset
            while at < offset + size and (part := os.pread(handle.number, min(offset + size - at, 1 << 26), at)):
                parts.append(part)
                at += len(part)
        if at != offset + size:
            raise BadFileError(f"{self.path}: byte {at}: the file became shorter while it was read")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def whole(self, limit: int = MOST_BYTES) -> bytes:
        if self.size_bytes > limit:
            raise BadFileError(f"{self.path}: {self.size_bytes} bytes, at most {limit} are read")
        return self.read(0, self.size_bytes)

    def line(self, offset: int, limit: int = 4096) -> bytes:
        """From offset to the next newline, without it. BadFileError where it is longer than limit, or has no end."""
        held = self.read(offset, min(limit + 1, max(self.size_bytes - offset, 0)))
        end = held.find(b"\n")
        if end < 0:
            raise BadFileError(f"{self.path}: byte {offset}: a line that does not end within {limit} bytes")
        return held[:end]


class _opened:
    """A descriptor of a regular file, never waited for; the last part of the path may not be a link."""

    def __init__(self, path: str):
        try:
            regular = stat.S_ISREG(os.stat(path, follow_symlinks=False).st_mode)  # a device is not even opened
            self.number = os.open(path, _FLAGS) if regular else -1
        except (OSError, ValueError) as error:
            raise BadFileError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        if regular and not stat.S_ISREG(os.fstat(self.number).st_mode):  # changed meanwhile
            os.close(self.number)
            regular = False
        if not regular:
            raise BadFileError(f"{path}: not a regular file")

    def __enter__(self) -> _opened:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.number)


class UntrustedFolder:
    """A folder of a dump, or the one file that was named. Links are followed only to places inside the folder."""

    def __init__(self, path: str):
        self.path = path
        self._real = os.path.realpath(path)

    @property
    def is_file(self) -> bool:
        return not os.path.isdir(self._real)

    def names(self, deepest: int = 1) -> list[str]:
        """Files, by their path below the folder, in order; deepest: levels of folders, 1 for the folder's own files."""
        found: list[str] = []
        self._walk("", min(deepest, DEEPEST), found)
        return sorted(found)

    def folders(self) -> list[str]:
        return sorted(e.name for e in self._entries("") if e.is_dir(follow_symlinks=False))

    def file(self, name: str) -> UntrustedFile:
        """name: as of names(), or of a manifest. BadFileError for what leads out of the folder, be it by a link."""
        path = os.path.join(self.path, name)
        if "\0" in name:
            raise BadFileError(f"{path!r}: no name of a file")
        real = os.path.realpath(path)
        if os.path.isabs(name) or os.path.commonpath([real, self._real]) != self._real:
            raise BadFileError(f"{path}: leads out of the folder")
        return UntrustedFile(real)

    def only(self) -> UntrustedFile:
        """The one file that was named, wherever its link leads: the user named it."""
        return UntrustedFile(self._real)

    def _entries(self, below: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(os.path.join(self.path, below)) as entries:
                return list(entries)
        except OSError as error:
            raise BadFileError(f"{os.path.join(self.path, below)}: {error.strerror}") from error

    def _walk(self, below: str, deepest: int, found: list[str]) -> None:
        for entry in self._entries(below):
            name = os.path.join(below, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if deepest > 1:
                    self._walk(name, deepest - 1, found)
            elif not unfinished(entry.name):
                found.append(name)
            if len(found) > MOST_FILES:
                raise BadFileError(f"{self.path}: more than {MOST_FILES} files")
