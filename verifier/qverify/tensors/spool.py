"""Tensors kept in a file without a name instead of in memory: the third copy of a dump, when every side has bytes of its own."""

from __future__ import annotations

import tempfile
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SMALL = 1 << 16  # bytes; less stays in memory


class Spool:
    """Arrays stay after close(), which only gives up the descriptor. Raises OSError (disk full) from keep()."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def keep(self, value: Array) -> Array:
        """The same elements, read-only, in the file (small ones as they are)."""
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
