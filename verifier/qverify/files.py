"""Files on this host: only regular files are read, and files are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from qverify.errors import BadFileError, UsageError

# Of a file that may be anybody's: bytes as they are, no waiting for a pipe, no child inherits it. Windows lacks some.
READ_FLAGS = os.O_RDONLY
for _name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOINHERIT", "O_BINARY"):
    READ_FLAGS |= getattr(os, _name, 0)
_NOT_A_LINK = getattr(os, "O_NOFOLLOW", 0)  # without it, the file opened is compared with the one looked at


def open_regular(path: str, follow: bool = False) -> int:
    """Returns a descriptor to read, without blocking. follow: follow a symbolic link. BadFileError for pipes, devices,
    sockets and folders (which are not opened), for links unless followed, and for files that cannot be opened."""
    try:
        status = os.stat(path, follow_symlinks=follow)
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if stat.S_ISREG(status.st_mode):
            handle = os.open(path, READ_FLAGS | (0 if follow else _NOT_A_LINK))
            now = os.fstat(handle)
            if stat.S_ISREG(now.st_mode) and (follow or _NOT_A_LINK or os.path.samestat(now, status)):
                return handle
            os.close(handle)  # changed meanwhile
    except (OSError, ValueError) as error:
        raise BadFileError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    raise BadFileError(f"{path}: {'Is a directory' if stat.S_ISDIR(status.st_mode) else 'not a regular file'}")


def read_regular(path: str, limit: int, follow: bool = False) -> bytes:
    """Returns the first `limit` bytes of a regular file. BadFileError as for open_regular, and where reading fails."""
    with os.fdopen(open_regular(path, follow), "rb") as file:
        try:
            return file.read(min(limit, os.fstat(file.fileno()).st_size + 1))
        except OSError as error:
            raise BadFileError(f"{path}: {error.strerror}") from error


def json_of(text: str | bytes, where: str) -> Any:
    """Returns the parsed JSON as plain values. BadFileError, naming `where`, for text that is not JSON, is nested too
    deeply, names a key of an object twice, or contains half of a surrogate pair (which no file name can)."""
    try:
        value = json_once(text)
        if b"\\ud" in (text if isinstance(text, bytes) else text.encode()).lower():
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{where}: not JSON: {' '.join(str(error).split())[:120]}") from error


def json_once(data: str | bytes) -> Any:
    """Returns the parsed JSON as plain values. ValueError for text that is not JSON or has an object that names a key
    twice (readers differ in which of the two they take), RecursionError for text that is nested too deeply."""
    return json.loads(data, object_pairs_hook=_check_keys, parse_constant=_reject_constant)


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")


def _check_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice[:60]!r} appears twice")
    return values


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Adds this file's name to an OSError from within that has none: write() (on a full disk) names no file, and numpy
    gives no reason either."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise OSError(error.errno, f"cannot be written: {error.strerror or error}", os.fspath(path)) from error
        raise


def write_text(text: str, path: str) -> None:
    """Writes the text in UTF-8, like write_bytes()."""
    write_bytes(text.encode(), path)


def write_bytes(data: bytes | memoryview, path: str) -> None:
    """Writes a file of these bytes, like write_pieces()."""
    write_pieces([data], path)


def write_pieces(pieces: Sequence[bytes | memoryview], path: str, check: Callable[[str], None] | None = None) -> None:
    """Writes the pieces one after the other: a temporary file beside the target, then renames it. A symbolic link's target is replaced, not the link; a
    device or a pipe is written to directly. check: called with the path of the whole file before the rename; if it
    raises, no file is left. UsageError when the file cannot be written."""
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as there:
                there.writelines(pieces)
            return
        with replacing(target) as part:
            with open(part, "wb") as file:
                file.writelines(pieces)
            if check is not None:
                check(part)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """Yields the path of a temporary file beside the target, which takes the target's place at the end; on an exception it is
    removed, and the target stays as it was. A symbolic link's target is replaced, not the link."""
    target = os.path.realpath(path)
    handle, part = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".qverify-")
    os.close(handle)
    try:
        yield part
        os.chmod(part, 0o644)
        os.replace(part, target)
    except BaseException:
        os.unlink(part)
        raise


def check_writable(path: str) -> None:
    """Raises UsageError where write_bytes() could not write this file now: no such folder, no permission, a folder. It is
    asked before what takes long, and leaves nothing behind."""
    target = os.path.realpath(path)
    try:
        if os.path.isdir(target):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if os.path.exists(target) and not os.path.isfile(target):
            if not os.access(target, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        handle, part = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".qverify-")
        os.close(handle)
        os.unlink(part)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def check_folder_writable(path: str) -> None:
    """Raises UsageError where files could not be written now in this folder, which need not exist yet."""
    folder = os.path.realpath(path)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".qverify-"):
            pass
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
