"""Files on this host: read only where they are regular ones, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator

from qverify.errors import BadFileError, UsageError


def read_regular(path: str, limit: int, follow: bool = False) -> bytes:
    """The first `limit` bytes, never waited for. BadFileError for pipes, devices, folders, for links unless they are to be
    followed, and for what cannot be read."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags)
        with os.fdopen(handle, "rb") as file:
            held = os.fstat(handle)
            if not stat.S_ISREG(held.st_mode):
                raise BadFileError(f"{path}: not a regular file")
            return file.read(min(limit, held.st_size + 1))
    except (OSError, ValueError) as error:
        raise BadFileError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """An OSError from within names this file: those of write() (a full disk) name none, those of numpy give no reason either."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise OSError(error.errno, f"cannot be written: {error.strerror or error}", os.fspath(path)) from error
        raise


def write_text(text: str, path: str) -> None:
    """As write_bytes(), in UTF-8."""
    write_bytes(text.encode(), path)


def write_bytes(data: bytes, path: str, check: Callable[[str], None] | None = None) -> None:
    """A temporary file beside the target, then a rename. A symbolic link's target is replaced, not the link; a device or a
    pipe is written to as it is. check: sees the whole file before it takes its name; what it raises leaves no file.
    UsageError when the file cannot be written."""
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as there:
                there.write(data)
            return
        handle, part = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".qverify-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            if check is not None:
                check(part)
            os.chmod(part, 0o644)
            os.replace(part, target)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
