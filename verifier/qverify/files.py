"""Files on this host: read only where they are regular ones, written whole or not at all."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections import Counter
from typing import Any

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


def json_once(data: bytes) -> Any:
    """JSON in which no object names a key twice, as readers differ in which of the two they take. ValueError for any other,
    RecursionError for what is nested too deeply."""
    return json.loads(data, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{twice[:60]!r} stands there twice")
    return found


def write_text(text: str, path: str) -> None:
    """As write_bytes(), in UTF-8."""
    write_bytes(text.encode(), path)


def write_bytes(data: bytes, path: str) -> None:
    """A temporary file beside the target, then a rename. A symbolic link's target is replaced, not the link; a device or a
    pipe is written to as it is. UsageError when the file cannot be written."""
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
            os.chmod(part, 0o644)
            os.replace(part, target)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
