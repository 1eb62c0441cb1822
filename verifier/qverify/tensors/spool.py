"""Keeps tensors in an unnamed file instead of memory. This is used for the third copy of a dump, if all sides have
different bytes."""

from __future__ import annotations

import tempfile
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SMALL = 1 << 16  # bytes; smaller arrays stay in memory


class Spool:
    """An unnamed file of arrays. They stay readable after close(), which only closes the descriptor."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def keep(self, value: Array) -> Array:
        """Writes the array to the file and returns it as a read-only view of the file. Small arrays are returned
        unchanged. Raises OSError if the file cannot be written, for example because the disk is full."""
        if value.nbytes < SMALL:
            return value
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="qverify-")  # noqa: SIM115 (closed by close)
        try:
            offset = self._file.seek(0, 2)
            self._file.write(np.ascontiguousarray(value).data)
            self._file.flush()
        except OSError as error:
            where = f"a temporary file in {tempfile.gettempdir()}"
            raise OSError(error.errno, f"cannot be written: {error.strerror or error}", where) from error
        return np.memmap(self._file, value.dtype, "r", offset, value.shape)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
