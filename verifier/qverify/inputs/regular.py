"""Files from elsewhere: regular ones only, never waited for, never more than was asked."""

from __future__ import annotations

import os
import stat

from qverify.errors import BadFileError


def read_regular(path: str, limit: int) -> bytes:
    """The first `limit` bytes. BadFileError for links, pipes, devices, folders, and what cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise BadFileError(f"{path}: not a regular file")
            return file.read(limit)
    except OSError as error:
        raise BadFileError(f"{path}: {error.strerror}") from error
