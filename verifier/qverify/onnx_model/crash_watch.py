"""Prints one line if onnxruntime ends this process (abort, a segmentation fault): no code of Python runs then.

A shell waits for the end of the process. A byte that both share tells whether onnxruntime was running then, so that a call of
onnxruntime costs nothing more."""

from __future__ import annotations

import atexit
import contextlib
import mmap
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator

MESSAGE = (
    "qverify: ended while onnxruntime ran (a crash inside it, or killed: out of memory?), so there is no verdict; give another "
    "onnxruntime (qverify doctor shows this one), or --reference-engine onnxruntime --reference-python PYTHON, which runs it in "
    "a process of its own"
)
SCRIPT = 'read -r end; [ "$(cat "$1" 2>/dev/null)" = 1 ] && printf "%s\\n" "$2" >&2; rm -f "$1"'
RUNS, RESTS = b"1", b"0"


class _Watch:
    """The shell that waits, and the byte that it reads when this process has ended."""

    def __init__(self) -> None:
        self._pid, self._lock, self._inside = os.getpid(), threading.Lock(), 0
        file, self._path = tempfile.mkstemp(prefix="qverify-runs-")
        try:
            os.write(file, RESTS)
            self._state = mmap.mmap(file, 1)
        finally:
            os.close(file)
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", SCRIPT, "sh", self._path, MESSAGE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal is not for it
        )
        atexit.register(self.stop)

    def enter(self, by: int) -> None:
        """Counts a call of onnxruntime that begins (1) or ends (-1). A child that was forked counts none."""
        if os.getpid() == self._pid:
            with self._lock:
                self._inside += by
                self._state[:1] = RUNS if self._inside else RESTS

    def stop(self) -> None:
        """Ends the shell, which then prints nothing."""
        if os.getpid() == self._pid:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                assert self._shell.stdin is not None
                self._shell.stdin.close()
                self._shell.wait(1.0)


_armed = False
_watch: _Watch | None = None


def arm() -> None:
    """Has the process watched from its first call of onnxruntime on. It is for a process of the command line alone."""
    global _armed
    _armed = os.name == "posix"


def is_armed() -> bool:
    """Returns whether this is a process of the command line alone."""
    return _armed


@contextlib.contextmanager
def onnxruntime_runs() -> Iterator[None]:
    """A context in which onnxruntime runs, in any thread."""
    global _watch, _armed
    if _armed and _watch is None:
        try:
            _watch = _Watch()
        except OSError:  # no shell, or no room for a file: then there is no line
            _armed = False
    watch = _watch
    if watch is None:
        yield
        return
    watch.enter(1)
    try:
        yield
    finally:
        watch.enter(-1)
