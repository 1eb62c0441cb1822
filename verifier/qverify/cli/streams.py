"""Standard output and standard error of a command; that they are closed, full or of another encoding changes no
verdict."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import Any

GONE = {errno.EPIPE, errno.EIO, errno.EBADF, errno.ENXIO}  # nobody reads it any more
if sys.platform == "win32":
    GONE.add(errno.EINVAL)  # as Windows says it of a pipe
OUT, ERR = 1, 2


class Patient(io.RawIOBase):
    """A writer to a descriptor that may fail. The first error is kept in `refused` (None without one), later data is
    discarded, nothing is raised."""

    def __init__(self, number: int):
        self._number = number
        self.refused: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        while self.refused is None and view:
            try:
                view = view[os.write(self._number, view) :]
            except BlockingIOError:  # the terminal was set to non-blocking
                select.select([], [self._number], [])
            except OSError as error:
                self.refused = error
        return memoryview(data).nbytes

    @property
    def lost(self) -> str:
        """Why output was lost; "" where none was, or where the reader closed the stream."""
        if self.refused is None or self.refused.errno in GONE:
            return ""
        return self.refused.strerror or str(self.refused)


class Streams:
    """Replaces Python's standard streams for a command on the console."""

    def __init__(self) -> None:
        for number in (0, OUT, ERR):
            _reserve(number)
        if sys.stdin is None:
            sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (as long as the process)
        self._out, self._err = Patient(OUT), Patient(ERR)
        sys.stdout, sys.stderr = _text(self._out, sys.stdout), _text(self._err, sys.stderr)

    def status(self, status: int) -> int:
        """Returns the command's exit status, or 2 for a PASSED whose output was lost (a full disk), since nobody could
        read it."""
        sys.stdout.flush()
        if self._out.lost:
            print(f"qverify: standard output: {self._out.lost}; the output is incomplete", file=sys.stderr)
        sys.stderr.flush()
        return 2 if self._out.lost and status == 0 else status


def _reserve(number: int) -> None:
    """Opens a closed descriptor on the null device; left free, the next file opened would get its number, and the
    output."""
    try:
        os.fstat(number)
    except OSError:
        nowhere = os.open(os.devnull, os.O_RDWR)
        if nowhere != number:
            os.dup2(nowhere, number)
            os.close(nowhere)


def _text(raw: Patient, before: Any) -> io.TextIOWrapper:
    """Returns a text stream like Python's own, except that a character the encoding lacks is written as its escape."""
    encoding = getattr(before, "encoding", None) or "utf-8"
    lines = raw.isatty() or raw.fileno() == ERR
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=lines)


def one_stream() -> bool:
    """Tells whether stdout and stderr are one terminal, pipe or file, so that what both say is read twice."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return False
