"""Files on this host: read only where they are regular ones, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from qverify.errors import BadFileError, UsageError


def open_regular(path: str, follow: bool = False) -> int:
    """A descriptor to read, never waited for. BadFileError for pipes, devices, sockets and folders, none of which is opened,
    for links unless they are to be followed, and for what cannot be opened."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        held = os.stat(path, follow_symlinks=follow)
        if stat.S_ISREG(held.st_mode) or stat.S_ISLNK(held.st_mode):  # of a link, open says what is wrong
            handle = os.open(path, flags)
            if stat.S_ISREG(os.fstat(handle).st_mode):
                return handle
            os.close(handle)  # changed meanwhile
    except (OSError, ValueError) as error:
        raise BadFileError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    raise BadFileError(f"{path}: {'Is a directory' if stat.S_ISDIR(held.st_mode) else 'not a regular file'}")


def read_regular(path: str, limit: int, follow: bool = False) -> bytes:
    """The first `limit` bytes of what open_regular opens."""
    with os.fdopen(open_regular(path, follow), "rb") as file:
        try:
            return file.read(min(limit, os.fstat(file.fileno()).st_size + 1))
        except OSError as error:
            raise BadFileError(f"{path}: {error.strerror}") from error


def json_of(text: str | bytes, where: str) -> Any:
    """Plain values. BadFileError for what is no JSON, lies too deep, names one key of an object twice, or holds half of a
    character, which no file can be called."""
    try:
        held = json_once(text)
        if b"\\ud" in (text if isinstance(text, bytes) else text.encode()).lower():
            json.dumps(held, ensure_ascii=False).encode()
        return held
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{where}: not JSON: {' '.join(str(error).split())[:120]}") from error


def json_once(data: str | bytes) -> Any:
    """JSON in which no object names a key twice, as readers differ in which of the two they take. ValueError for any other,
    RecursionError for what is nested too deeply."""
    return json.loads(data, object_pairs_hook=_once, parse_constant=_no_number)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{twice[:60]!r} stands in it twice")
    return found


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


def write_bytes(data: bytes | memoryview, path: str, check: Callable[[str], None] | None = None) -> None:
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
