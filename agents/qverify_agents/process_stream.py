"""A subprocess' stdin and stdout as a byte stream; closing the stream ends the process and everything it started."""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO

from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable, LinkClosed
from qverify_agents.printable import first_reason
from qverify_agents.process_group import end_group, own_group
from qverify_agents.process_pipes import END_S, NEED_THREADS, ThreadedPipes, WaitedPipes
from qverify_agents.signals_held import signals_held


class ProcessStream:
    """A Link (capabilities.py) to a process. Raises BoardUnreachable if the program cannot be started, LinkClosed after
    close."""

    piece_bytes = 1_000_000
    patience_s = 4.0
    packs = False
    ahead = 2

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str] | None = None, threads: bool = NEED_THREADS):
        self._open = self._takes = False
        try:
            with signals_held():
                self._start(argv, {**os.environ, **(environment or {})}, threads)
        except OSError as error:
            raise BoardUnreachable(f"cannot start {argv[0]}: {error.strerror}") from error
        except BaseException:  # of a signal: nobody has this object yet
            self.close()
            raise

    def _start(self, argv: Sequence[str], environment: Mapping[str, str], threads: bool) -> None:
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            **own_group(),
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        assert self._process.stderr is not None
        self._errors = StderrExcerpt(self._process.stderr, threads)
        ends = self._process.stdin, self._process.stdout
        self._pipes: WaitedPipes | ThreadedPipes = ThreadedPipes(*ends) if threads else WaitedPipes(*ends)
        self._open = self._takes = True
        atexit.register(self.close)

    @property
    def process_id(self) -> int:
        return self._process.pid

    def read(self, deadline: Deadline) -> bytes:
        _check(self._open)
        return self._pipes.read(deadline.left)

    def write(self, data: bytes, deadline: Deadline) -> None:
        """Writes all data and reads what arrives meanwhile, so that two full pipes never wait for each other."""
        _check(self._takes)
        try:
            self._pipes.write(data, deadline.left)
        except OSError as error:
            raise LinkClosed(self.why_closed()) from error

    def end_of_input(self) -> None:
        """Closes the process' stdin."""
        self._takes = False
        self._pipes.end_of_input()

    def status(self, deadline: Deadline) -> int:
        """Waits for the exit status and returns it, negative for a signal."""
        while (status := self._process.poll()) is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(min(0.2, deadline.left()))
        return status

    def errors(self, last: bool = False) -> bytes:
        """Returns the first 2000 bytes that it wrote to stderr, or the last ones; none after close."""
        if not self._open:
            return b""
        return self._errors.text(last, ended=self._process.poll() is not None)

    def why_closed(self) -> str:
        """Returns how the process ended, with the first line it wrote to stderr, or the reason of a Python program."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.poll()
        if code is None:
            return "the agent closed its output"
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with status {code}"
        errors = self.errors()
        return f"the agent {how}{first_reason(self.errors(last=True) if errors.startswith(b'Traceback') else errors)}"

    def close(self) -> None:
        if not self._open:
            return
        self._open = self._takes = False
        atexit.unregister(self.close)
        end_group(self._process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._pipes.close()
        self._errors.close()


class StderrExcerpt:
    """The start and the end of what a process writes to its stderr, read by a thread, so that a process that writes
    more than a pipe buffers never waits for us."""

    MOST = 2000  # bytes of each

    def __init__(self, pipe: IO[bytes], threads: bool = NEED_THREADS):
        self._pipe, self._threads, self._first, self._last, self._lock = pipe, threads, b"", b"", threading.Lock()
        self._stopped, self._stop = os.pipe()  # closing the second ends the thread
        self._thread = threading.Thread(
            target=self._take_blocked if threads else self._take, name="qverify-stderr", daemon=True
        )
        self._thread.start()

    def _take(self) -> None:
        with self._pipe, selectors.DefaultSelector() as waiting:
            waiting.register(self._pipe, selectors.EVENT_READ)
            waiting.register(self._stopped, selectors.EVENT_READ)
            while all(key.fileobj is self._pipe for key, _ in waiting.select()):
                if not self._take_some():
                    return

    def _take_blocked(self) -> None:
        """Reads to the end of the pipe, for systems that cannot wait for two."""
        with self._pipe, contextlib.suppress(OSError):
            while self._take_some():
                pass

    def _take_some(self) -> bool:
        """Reads once; returns whether there was anything."""
        chunk = os.read(self._pipe.fileno(), 1 << 16)
        with self._lock:
            self._first += chunk[: self.MOST - len(self._first)]
            self._last = (self._last + chunk)[-self.MOST :]
        return bool(chunk)

    def text(self, last: bool, ended: bool) -> bytes:
        """Returns the start, or the end, of the text. ended: whether the process has ended; its last output is then
        waited for, but no longer than half a second, as a child may keep the pipe open."""
        if ended:
            self._thread.join(0.5)
        with self._lock:
            return self._last if last else self._first

    def close(self) -> None:
        """Ends the thread, also if a process that left the group (a master connection of ssh) still keeps the pipe
        open; a thread that cannot be ended so is left waiting after a second, with its pipe."""
        os.close(self._stop)
        try:
            self._thread.join(END_S if self._threads else None)
        finally:  # Ctrl-C, too
            self._thread.join(1.0)
            os.close(self._stopped)
            if not self._thread.is_alive():
                self._pipe.close()


def _check(still_open: bool) -> None:
    """Raises LinkClosed after close: a closed descriptor's number may belong to another file by now."""
    if not still_open:
        raise LinkClosed("the link to the agent is already closed on this side")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
