"""Files of which the system reads what is used, when it is used."""

from __future__ import annotations

import mmap
import os
import stat
import threading
import time
import weakref
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError
from qverify.files import READ_FLAGS

Array = npt.NDArray[Any]
RESIDENT_BYTES = 1 << 28  # of mapped files that this process may have in memory before they are released
STATM = "/proc/self/statm"  # of Linux
CHECKED_S = 0.05  # seconds between two looks at that
_open = weakref.WeakSet[mmap.mmap]()
_watcher: threading.Thread | None = None


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
        _open.add(self._map)
        _watch()
        self._arrays = list[Array]()  # what is held (held_data.py) has to live as long as the file

    def array(self, kind: npt.DTypeLike, dims: tuple[int, ...], offset: int) -> Array:
        """Returns the elements at this offset, as a view wherever their alignment allows. The array lives as long as this
        file."""
        value = np.frombuffer(self.data, kind, prod(dims), offset).reshape(dims)
        self._arrays.append(value if value.flags.aligned else value.copy())
        return self._arrays[-1]

    def release(self) -> None:
        """Lets the system take back the memory of what was read; it is read again where it is used again."""
        _release(self._map)

    def check_unchanged(self) -> None:
        """Raises BadFileError if the file was changed since it was opened."""
        now, then = os.stat(self._path), self._state
        if (now.st_size, now.st_mtime_ns) != (then.st_size, then.st_mtime_ns):
            raise BadFileError(f"{self._path}: was changed while it was read; run again")


def _release(mapped: mmap.mmap) -> None:
    advice = getattr(mmap, "MADV_DONTNEED", None)  # not on Windows
    if advice is not None:
        getattr(mapped, "madvise")(advice)  # noqa: B009 - the name does not exist there


def _watch() -> None:
    """Starts the thread that releases mapped files, unless it runs."""
    global _watcher
    if (_watcher is None or not _watcher.is_alive()) and os.path.exists(STATM):
        _watcher = threading.Thread(target=_release_all, name="qverify-mapped-files", daemon=True)
        _watcher.start()


def _release_all() -> None:
    """Releases all mapped files whenever much of them is in memory, until there are none. Libraries read weights of any size
    in one call, and each weight once: what was read before is not needed in memory."""
    at_first = _resident_bytes()  # the libraries
    while maps := list(_open):
        if _resident_bytes() > at_first + RESIDENT_BYTES:
            for mapped in maps:
                _release(mapped)
        del maps
        time.sleep(CHECKED_S)


def _resident_bytes() -> int:
    """Returns the bytes of files that this process has in memory; 0 if the system does not say."""
    try:
        with open(STATM, "rb") as file:
            return int(file.read().split()[2]) * mmap.PAGESIZE
    except (OSError, ValueError, IndexError):
        return 0


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
