"""Files of which the system reads what is used, when it is used."""

from __future__ import annotations

import mmap
import os
import stat
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError
from qverify.files import READ_FLAGS

Array = npt.NDArray[Any]


class MappedFile:
    """A file that is mapped for reading. Raises BadFileError if it cannot be."""

    def __init__(self, path: str, handle: int):
        """handle: the open regular file, which is closed. A file that another process cuts off while it is used ends this
        process, as the system has it for mapped files."""
        self._path, self._state = path, os.fstat(handle)
        try:
            self._map = mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise BadFileError(f"{path}: cannot be mapped: {error}") from error
        finally:
            os.close(handle)
        self.data = memoryview(self._map)

    def array(self, kind: npt.DTypeLike, dims: tuple[int, ...], offset: int) -> Array:
        """Returns the elements at this offset, as a view wherever their alignment allows."""
        value = np.frombuffer(self.data, kind, prod(dims), offset).reshape(dims)
        return value if value.flags.aligned else value.copy()

    def release(self) -> None:
        """Lets the system take back the memory of what was read; it is read again where it is used again."""
        if hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def check_unchanged(self) -> None:
        """Raises BadFileError if the file was changed since it was opened."""
        now, then = os.stat(self._path), self._state
        if (now.st_size, now.st_mtime_ns) != (then.st_size, then.st_mtime_ns):
            raise BadFileError(f"{self._path}: was changed while it was read; run again")


def map_file(path: str) -> MappedFile:
    """Returns the file, mapped. Raises BadFileError if it is no regular file, or cannot be read."""
    try:
        handle = os.open(path, READ_FLAGS)
    except OSError as error:
        raise BadFileError(f"{path}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise BadFileError(f"{path}: not a file")
    return MappedFile(path, handle)
