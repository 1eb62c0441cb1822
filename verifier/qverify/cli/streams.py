"""Standard output and standard error of a command: closed, full or of another encoding, they change no verdict."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import Any

GONE = (errno.EPIPE, errno.EIO, errno.EBADF, errno.ENXIO)  # nobody reads it any more
OUT, ERR = 1, 2


class Patient(io.RawIOBase):
    """Writes to a descriptor that may refuse. The first refusal is kept, what follows it goes nowhere, nothing is raised.
    refused: that OSError, or None."""

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
            except BlockingIOError:  # somebody set the terminal to answer at once
                select.select([], [self._number], [])
            except OSError as error:
                self.refused = error
        return memoryview(data).nbytes

    @property
    def lost(self) -> str:
        """Why something that was to be read is not there; "" where all is, or where the reader went away by himself."""
        if self.refused is None or self.refused.errno in GONE:
            return ""
        return self.refused.strerror or str(self.refused)


class Streams:
    """The streams of a console's command, in the place of Python's own. status() is what the command ends with."""

    def __init__(self) -> None:
        for number in (0, OUT, ERR):
            _hold(number)
        if sys.stdin is None:
            sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (as long as the process)
        self._out, self._err = Patient(OUT), Patient(ERR)
        sys.stdout, sys.stderr = _text(self._out, sys.stdout), _text(self._err, sys.stderr)

    def status(self, status: int) -> int:
        """The command's own. 2 for a PASSED that a full disk swallowed: nobody could read what was compared."""
        sys.stdout.flush()
        if self._out.lost:
            print(f"qverify: standard output: {self._out.lost}; what was printed is not all there", file=sys.stderr)
        sys.stderr.flush()
        return 2 if self._out.lost and status == 0 else status


def _hold(number: int) -> None:
    """A closed descriptor leads nowhere; left free, the next file opened would take its number, and what is printed."""
    try:
        os.fstat(number)
    except OSError:
        nowhere = os.open(os.devnull, os.O_RDWR)
        if nowhere != number:
            os.dup2(nowhere, number)
            os.close(nowhere)


def _text(raw: Patient, before: Any) -> io.TextIOWrapper:
    """As Python would have it, but a character that the encoding lacks is shown as its escape."""
    encoding = getattr(before, "encoding", None) or "utf-8"
    lines = raw.isatty() or raw.fileno() == ERR
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=lines)
