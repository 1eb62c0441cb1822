"""Files from elsewhere: regular ones only, never waited for, never more than was asked."""

from __future__ import annotations

import os
import stat

from qverify.errors import BadFileError


def read_regular(path: str, limit: int, follow: bool = False) -> bytes:
    """The first `limit` bytes. BadFileError for pipes, devices, folders, for links unless they are to be followed, and for
    what cannot be read."""
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
