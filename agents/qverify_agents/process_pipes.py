"""The pipes to a subprocess, read and written within a time limit: by one selector for both, or by a thread for each
where the system cannot wait for pipes (Windows)."""

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
MAX_READ_BYTES, MAX_QUEUED_READS = 1 << 20, 16  # of one read; chunks read by the thread that nobody has taken yet
SLICE_S = 1.0  # longest wait without asking for the seconds left, which another thread may end
# A poll of two pipes opens no descriptor of its own.
SELECTOR = getattr(selectors, "PollSelector", selectors.DefaultSelector)
THREAD_END_S = 1.0  # seconds to wait for a thread, whose pipe a process outside the group may keep open


class WaitedPipes:
    """Both pipes, waited for by one selector. The argument `seconds_left` of the methods returns the seconds left for
    the call, or raises an exception if there are none."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]):
        self._pipes, self._received = (stdin, stdout), b""
        self._stdin, self._stdout = stdin.fileno(), stdout.fileno()
        if hasattr(os, "set_blocking"):
            os.set_blocking(self._stdin, False)
            os.set_blocking(self._stdout, False)

    def read(self, seconds_left: Callable[[], float]) -> bytes:
        """Returns the bytes that have arrived, waiting for the first, or b"" at the end of the output."""
        if self._received:
            data, self._received = self._received, b""
            return data
        with SELECTOR() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            while not selector.select(min(SLICE_S, seconds_left())):
                pass
        return os.read(self._stdout, MAX_READ_BYTES)

    def write(self, data: bytes, seconds_left: Callable[[], float]) -> None:
        """Writes all data and reads what arrives meanwhile, so that two full pipes never wait for each other. Raises
        OSError if the process has closed its end."""
        view = memoryview(data)
        with SELECTOR() as selector:
            selector.register(self._stdin, selectors.EVENT_WRITE)
            selector.register(self._stdout, selectors.EVENT_READ)
            while view:
                for key, _ in selector.select(min(SLICE_S, seconds_left())):
                    if key.fd == self._stdin:
                        with contextlib.suppress(BlockingIOError):
                            view = view[os.write(self._stdin, view) :]
                    elif received := os.read(self._stdout, MAX_READ_BYTES):
                        self._received += received
                    else:
                        selector.unregister(self._stdout)

    def end_of_input(self) -> None:
        self._pipes[0].close()

    def close(self) -> None:
        """Closes both pipes. Called after the process has been ended."""
        for pipe in self._pipes:
            pipe.close()


class ThreadedPipes:
    """Like WaitedPipes, but with a thread for each pipe. Only that thread reads or writes and closes the pipe: on
    Windows, closing a pipe that another thread waits for blocks."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]):
        self._stdin, self._stdout, self._received, self._ended = stdin, stdout, b"", False
        self._chunks = queue.Queue[bytes](MAX_QUEUED_READS)
        self._to_write = queue.SimpleQueue[bytes | None]()
        self._closed, self._idle, self._error = threading.Event(), threading.Event(), list[OSError]()
        self._idle.set()
        self._threads = [
            threading.Thread(target=target, name="qverify-pipe", daemon=True)
            for target in (self._read_stdout, self._write_stdin)
        ]
        for thread in self._threads:
            thread.start()

    def _read_stdout(self) -> None:
        chunk = b"-"
        with self._stdout:
            while chunk and not self._closed.is_set():
                try:
                    chunk = os.read(self._stdout.fileno(), MAX_READ_BYTES)
                except OSError:
                    chunk = b""
                while not self._closed.is_set():
                    with contextlib.suppress(queue.Full):
                        self._chunks.put(chunk, timeout=0.1)
                        break

    def _write_stdin(self) -> None:
        with contextlib.suppress(OSError), self._stdin:
            while (data := self._to_write.get()) is not None:
                view = memoryview(data)
                try:
                    while view:
                        view = view[os.write(self._stdin.fileno(), view) :]
                except OSError as error:
                    self._error.append(error)
                self._idle.set()

    def read(self, seconds_left: Callable[[], float]) -> bytes:
        """Returns the bytes that have arrived, waiting for the first, or b"" at the end of the output."""
        if self._received:
            data, self._received = self._received, b""
            return data
        while not self._ended:
            with contextlib.suppress(queue.Empty):
                data = self._chunks.get(timeout=min(SLICE_S, seconds_left()))
                self._ended = not data
                return data
        return b""

    def write(self, data: bytes, seconds_left: Callable[[], float]) -> None:
        """Writes all data and reads what arrives meanwhile. If the time runs out, the thread still writes the rest
        before any later data. Raises OSError if the process has closed its end."""
        self._wait_for_writer(seconds_left)
        self._idle.clear()
        self._to_write.put(bytes(data))
        self._wait_for_writer(seconds_left)

    def _wait_for_writer(self, seconds_left: Callable[[], float]) -> None:
        while not self._idle.wait(min(0.02, seconds_left())):
            with contextlib.suppress(queue.Empty):
                while not self._ended:
                    received = self._chunks.get_nowait()
                    self._received, self._ended = self._received + received, not received
        if self._error:
            raise self._error[0]

    def end_of_input(self) -> None:
        self._to_write.put(None)

    def close(self) -> None:
        """Lets both threads end. Called after the process has been ended."""
        self._closed.set()
        self._to_write.put(None)
        for thread in self._threads:
            thread.join(THREAD_END_S)
