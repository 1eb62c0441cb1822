"""Reads and writes files safely: only regular files are read, and files are written completely or not at all."""

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

from qverify.errors import BadFileError, OptionsError, UsageError

# For files of unknown origin: no text conversion, no waiting for a pipe, not inherited by child processes. A platform
# that lacks one of these flags does without it.
READ_FLAGS = os.O_RDONLY
for _name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOINHERIT", "O_BINARY"):
    READ_FLAGS |= getattr(os, _name, 0)
_NO_FOLLOW = getattr(
    os, "O_NOFOLLOW", 0
)  # 0 on Windows, where the opened file is compared with the one examined before


def open_regular(path: str, follow: bool = False) -> int:
    """Opens a regular file for reading, without blocking, and returns its descriptor. follow: follow a symbolic link.
    Raises BadFileError for pipes, devices, sockets and folders (which are not opened), for symbolic links unless
    `follow`, and for files that cannot be opened."""
    try:
        status = os.stat(path, follow_symlinks=follow)
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if stat.S_ISREG(status.st_mode):
            handle = os.open(path, READ_FLAGS | (0 if follow else _NO_FOLLOW))
            opened = os.fstat(handle)
            if stat.S_ISREG(opened.st_mode) and (follow or _NO_FOLLOW or os.path.samestat(opened, status)):
                return handle
            os.close(handle)  # another file took its place since os.stat
    except (OSError, ValueError) as error:
        raise BadFileError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    raise BadFileError(f"{path}: {'Is a directory' if stat.S_ISDIR(status.st_mode) else 'not a regular file'}")


def read_regular(path: str, limit: int, follow: bool = False) -> bytes:
    """Returns the first `limit` bytes of a regular file. Raises BadFileError as open_regular does, and if reading
    fails."""
    with os.fdopen(open_regular(path, follow), "rb") as file:
        try:
            return file.read(min(limit, os.fstat(file.fileno()).st_size + 1))
        except OSError as error:
            raise BadFileError(f"{path}: {error.strerror}") from error


def parse_json(text: str | bytes, where: str, parse_float: Callable[[str], float] = float) -> Any:
    """Returns the parsed JSON as plain values; numbers with a point or exponent as `parse_float` reads their text. Raises BadFileError, beginning with `where`, for text that is not JSON,
    is nested too deeply, repeats a key within an object, or contains half of a surrogate pair (which cannot be encoded,
    for example as a file name)."""
    try:
        value = parse_strict_json(text, parse_float)
        if b"\\ud" in (text if isinstance(text, bytes) else text.encode()).lower():
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{where}: not JSON: {' '.join(str(error).split())[:120]}") from error


def parse_strict_json(data: str | bytes, parse_float: Callable[[str], float] = float) -> Any:
    """Returns the parsed JSON as plain values. Raises ValueError for text that is not JSON or that repeats a key within
    an object (parsers differ in which of the two they use), RecursionError for text that is nested too deeply."""
    return json.loads(data, object_pairs_hook=make_object, parse_constant=_reject_constant, parse_float=parse_float)


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")


def make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object of JSON as a dict. Raises ValueError if it repeats a key."""
    values = dict(pairs)
    if len(values) != len(pairs):
        repeated_key = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {repeated_key[:60]!r} appears twice")
    return values


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Adds the path to an OSError raised in the `with` block that names no file. write() on a full disk raises such an
    error, and numpy's contains no reason either."""
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
    """Writes the bytes to a file, like write_pieces()."""
    write_pieces([data], path)


def write_pieces(pieces: Sequence[bytes | memoryview], path: str, check: Callable[[str], None] | None = None) -> None:
    """Writes the pieces, one after the other, to a temporary file beside the target, and renames that to the target. A
    symbolic link's target is replaced, not the link; a device or a pipe is written to directly. check: called with the
    path of the complete temporary file before the rename; if it raises, no file is left. Raises UsageError if the file
    cannot be written."""
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as device:
                device.writelines(pieces)
            return
        with replacing(target) as temporary:
            with open(temporary, "wb") as file:
                file.writelines(pieces)
            if check is not None:
                check(temporary)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def replacing(path: str, mode: int = 0o644) -> Iterator[str]:
    """Yields the path of a temporary file beside the target. At the end of the `with` block it replaces the target; on
    an exception it is removed, and the target stays as it was. A symbolic link's target is replaced, not the link.
    mode: the permissions of the new file. Raises UsageError if the target is a device, a pipe or a folder."""
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise UsageError(f"{path}: is no regular file; wanted a new file or a regular one")
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".qverify-")
    os.close(handle)
    try:
        yield temporary
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def require_writable(option: str, path: str, regular: bool = False) -> None:
    """Raises OptionsError, which names the option, for a file that could not be written, or an empty path. regular: also for a
    device or a pipe, which cannot be replaced as a whole."""
    if path == "":
        raise OptionsError(f"{option}: the path is empty (an unset shell variable?)")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise OptionsError(f"{option}: there is no folder {folder}; make it first")
    try:
        check_writable(path)
    except UsageError as error:
        raise OptionsError(f"{option.partition(' ')[0]} {error}") from error
    if regular and os.path.exists(path) and not os.path.isfile(path):
        raise OptionsError(f"{option} {path}: is no regular file; wanted a new file or a regular one")


def check_writable(path: str) -> None:
    """Raises UsageError if write_bytes() could not write this file now, for example because its folder does not exist
    or cannot be written, or because the path is a folder. It is called before a long job, and leaves no file behind."""
    target = os.path.realpath(path)
    try:
        if os.path.isdir(target):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if os.path.exists(target) and not os.path.isfile(target):
            if not os.access(target, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".qverify-")
        os.close(handle)
        os.unlink(temporary)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def check_folder_writable(path: str) -> None:
    """Raises UsageError if files could not be written in this folder now. The folder need not exist yet."""
    folder = os.path.realpath(path)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".qverify-"):
            pass
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
