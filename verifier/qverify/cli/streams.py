"""Standard output and standard error of a command. That they are closed, full or of another encoding does not change a
verdict."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import Any

READER_GONE = {
    errno.EPIPE,
    errno.EIO,
    errno.EBADF,
    errno.ENXIO,
}  # errors that mean that nobody reads the stream any more
if sys.platform == "win32":
    READER_GONE.add(errno.EINVAL)  # that of a closed pipe on Windows
OUT, ERR = 1, 2  # descriptors of the standard streams


class SafeWriter(io.RawIOBase):
    """A writer to a descriptor that raises nothing. error: the first error of writing, None without one; later data are
    discarded."""

    def __init__(self, number: int):
        self._number = number
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        while self.error is None and view:
            try:
                view = view[os.write(self._number, view) :]
            except BlockingIOError:  # the terminal was set to non-blocking
                select.select([], [self._number], [])
            except OSError as error:
                self.error = error
        return memoryview(data).nbytes

    @property
    def why_lost(self) -> str:
        """The reason why output was lost; "" if none was, or if the reader closed the stream."""
        if self.error is None or self.error.errno in READER_GONE:
            return ""
        return self.error.strerror or str(self.error)


class Streams:
    """Replaces Python's standard streams for a command that runs as a program."""

    def __init__(self) -> None:
        for number in (0, OUT, ERR):
            _reserve(number)
        if sys.stdin is None:
            sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (open until the process ends)
        self._out, self._err = SafeWriter(OUT), SafeWriter(ERR)
        sys.stdout, sys.stderr = _text(self._out, sys.stdout), _text(self._err, sys.stderr)

    def status(self, status: int) -> int:
        """Returns the exit status of a command that ended with `status`: 2 instead of 0 if its output was lost (for
        example on a full disk)."""
        sys.stdout.flush()
        if why := self._out.why_lost:
            print(f"qverify: standard output: {why}; the output is incomplete", file=sys.stderr)
        sys.stderr.flush()
        return 2 if self._out.why_lost and status == 0 else status


def _reserve(number: int) -> None:
    """Opens a descriptor that is closed on the null device. Otherwise the next file that is opened would get its
    number, and with it the output."""
    try:
        os.fstat(number)
    except OSError:
        null_device = os.open(os.devnull, os.O_RDWR)
        if null_device != number:
            os.dup2(null_device, number)
            os.close(null_device)


def _text(raw: SafeWriter, before: Any) -> io.TextIOWrapper:
    """Returns a text stream like Python's own (`before`), but a character that the encoding lacks is written as its
    escape."""
    encoding = getattr(before, "encoding", None) or "utf-8"
    line_buffering = raw.isatty() or raw.fileno() == ERR
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=line_buffering)


def is_one_stream() -> bool:
    """Returns whether stdout and stderr are the same terminal, pipe or file, so that a text printed to both is seen
    twice."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return False
