"""The pipes to a subprocess, read and written within a time limit: waited for together, or by threads where the system
cannot wait for pipes (Windows)."""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import sys
import threading
from collections.abc import Callable
from typing import IO

NEED_THREADS = sys.platform == "win32"
MOST_BYTES, MOST_WAITING = 1 << 20, 16  # of one reading; readings that wait in the process' output thread
END_S = 1.0  # a thread that a process outside of the group still holds is left after this


class WaitedPipes:
    """Both pipes by one selector. left: returns the seconds left, or raises."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]):
        self._pipes, self._came = (stdin, stdout), b""
        self._stdin, self._stdout = stdin.fileno(), stdout.fileno()
        if hasattr(os, "set_blocking"):
            os.set_blocking(self._stdin, False)
            os.set_blocking(self._stdout, False)

    def read(self, left: Callable[[], float]) -> bytes:
        """Returns what has come, b"" at the end."""
        if self._came:
            data, self._came = self._came, b""
            return data
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._stdout, selectors.EVENT_READ)
            while not waiting.select(left()):
                pass
        return os.read(self._stdout, MOST_BYTES)

    def write(self, data: bytes, left: Callable[[], float]) -> None:
        """Writes all data and reads what arrives meanwhile, so that two full pipes never wait for each other. Raises
        OSError if the process has closed its end."""
        view = memoryview(data)
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._stdin, selectors.EVENT_WRITE)
            waiting.register(self._stdout, selectors.EVENT_READ)
            while view:
                for key, _ in waiting.select(left()):
                    if key.fd == self._stdin:
                        with contextlib.suppress(BlockingIOError):
                            view = view[os.write(self._stdin, view) :]
                    elif received := os.read(self._stdout, MOST_BYTES):
                        self._came += received
                    else:
                        waiting.unregister(self._stdout)

    def end_of_input(self) -> None:
        self._pipes[0].close()

    def close(self) -> None:
        """Closes both; called once the process was ended."""
        for pipe in self._pipes:
            pipe.close()


class ThreadedPipes:
    """Like WaitedPipes, with a thread for each pipe, which alone reads or writes and closes it: closing a pipe that
    another thread waits for blocks on Windows."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]):
        self._stdin, self._stdout, self._came, self._ended = stdin, stdout, b"", False
        self._chunks = queue.Queue[bytes](MOST_WAITING)
        self._given = queue.SimpleQueue[bytes | None]()
        self._closed, self._idle, self._error = threading.Event(), threading.Event(), list[OSError]()
        self._idle.set()
        self._threads = [
            threading.Thread(target=one, name="qverify-pipe", daemon=True) for one in (self._take, self._give)
        ]
        for thread in self._threads:
            thread.start()

    def _take(self) -> None:
        chunk = b"-"
        with self._stdout:
            while chunk and not self._closed.is_set():
                try:
                    chunk = os.read(self._stdout.fileno(), MOST_BYTES)
                except OSError:
                    chunk = b""
                while not self._closed.is_set():
                    with contextlib.suppress(queue.Full):
                        self._chunks.put(chunk, timeout=0.1)
                        break

    def _give(self) -> None:
        with contextlib.suppress(OSError), self._stdin:
            while (data := self._given.get()) is not None:
                view = memoryview(data)
                try:
                    while view:
                        view = view[os.write(self._stdin.fileno(), view) :]
                except OSError as error:
                    self._error.append(error)
                self._idle.set()

    def read(self, left: Callable[[], float]) -> bytes:
        """Returns what has come, b"" at the end."""
        if self._came:
            data, self._came = self._came, b""
            return data
        while not self._ended:
            with contextlib.suppress(queue.Empty):
                data = self._chunks.get(timeout=left())
                self._ended = not data
                return data
        return b""

    def write(self, data: bytes, left: Callable[[], float]) -> None:
        """Writes all data and reads what arrives meanwhile; where the time runs out, what was given is still written
        first. Raises OSError if the process has closed its end."""
        self._wait_for_writer(left)
        self._idle.clear()
        self._given.put(bytes(data))
        self._wait_for_writer(left)

    def _wait_for_writer(self, left: Callable[[], float]) -> None:
        while not self._idle.wait(min(0.02, left())):
            with contextlib.suppress(queue.Empty):
                while not self._ended:
                    received = self._chunks.get_nowait()
                    self._came, self._ended = self._came + received, not received
        if self._error:
            raise self._error[0]

    def end_of_input(self) -> None:
        self._given.put(None)

    def close(self) -> None:
        """Lets both threads end; called once the process was ended."""
        self._closed.set()
        self._given.put(None)
        for thread in self._threads:
            thread.join(END_S)
