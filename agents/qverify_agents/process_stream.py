"""A byte stream to the standard input and output of a subprocess. Closing it ends the process and all that it
started."""

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
from qverify_agents.process_group import kill_group, new_group_arguments
from qverify_agents.process_pipes import NEED_THREADS, THREAD_END_S, ThreadedPipes, WaitedPipes
from qverify_agents.signals_held import signals_held


class ProcessStream:
    """A Link (interfaces.py) to a subprocess. Raises BoardUnreachable if the program cannot be started, LinkClosed if
    it is used after close()."""

    piece_bytes = 1_000_000
    patience_s = 4.0
    packs = False
    ahead = 2

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str] | None = None, threads: bool = NEED_THREADS):
        self._open = self._accepts_input = False
        try:
            with signals_held():
                self._start(argv, {**os.environ, **(environment or {})}, threads)
        except OSError as error:
            raise BoardUnreachable(f"cannot start {argv[0]}: {error.strerror}") from error
        except BaseException:  # raised by a signal's handler; the caller has no reference to this object yet
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
            **new_group_arguments(),
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        assert self._process.stderr is not None
        self._errors = StderrExcerpt(self._process.stderr, threads)
        ends = self._process.stdin, self._process.stdout
        self._pipes: WaitedPipes | ThreadedPipes = ThreadedPipes(*ends) if threads else WaitedPipes(*ends)
        self._open = self._accepts_input = True
        atexit.register(self.close)

    @property
    def process_id(self) -> int:
        return self._process.pid

    def read(self, deadline: Deadline) -> bytes:
        _check_open(self._open)
        return self._pipes.read(deadline.left)

    def write(self, data: bytes, deadline: Deadline) -> None:
        """Writes all data and reads what arrives meanwhile, so that two full pipes never wait for each other."""
        _check_open(self._accepts_input)
        try:
            self._pipes.write(data, deadline.left)
        except OSError as error:
            raise LinkClosed(self.why_closed()) from error

    def end_of_input(self) -> None:
        """Closes the standard input of the process."""
        self._accepts_input = False
        self._pipes.end_of_input()

    def status(self, deadline: Deadline) -> int:
        """Waits for the exit status and returns it; the negative number of the signal if one ended the process."""
        while (status := self._process.poll()) is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(min(0.2, deadline.left()))
        return status

    def errors(self, last: bool = False) -> bytes:
        """Returns the first 2000 bytes of the process' standard error, or with `last` the last 2000; b"" after
        close()."""
        if not self._open:
            return b""
        return self._errors.text(last, ended=self._process.poll() is not None)

    def why_closed(self) -> str:
        """Returns how the process ended, with the first line of its standard error (the last line of a Python
        traceback)."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.poll()
        if code is None:
            return "the agent closed its output"
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with status {code}"
        errors = self.errors()
        return f"the agent {how}{first_reason(self.errors(last=True) if errors.startswith(b'Traceback') else errors)}"

    def close(self, grace_s: float = 0.0) -> None:
        """Ends the process and all that it started. grace_s: seconds that it has to end by itself when its input ends."""
        if not self._open:
            return
        self._open = self._accepts_input = False
        atexit.unregister(self.close)
        if grace_s > 0:
            self._pipes.end_of_input()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        kill_group(self._process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._pipes.close()
        self._errors.close()


class StderrExcerpt:
    """The start and the end of a process' standard error. A thread reads it, so that a process that writes more than
    the pipe can hold is never blocked."""

    MAX_BYTES = 2000  # of the start, and of the end

    def __init__(self, pipe: IO[bytes], threads: bool = NEED_THREADS):
        self._pipe, self._threads, self._first, self._last, self._lock = pipe, threads, b"", b"", threading.Lock()
        self._stop_reader, self._stop_writer = os.pipe()  # closing the writer ends the thread
        self._thread = threading.Thread(
            target=self._read_all_blocking if threads else self._read_all, name="qverify-stderr", daemon=True
        )
        self._thread.start()

    def _read_all(self) -> None:
        with self._pipe, selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            selector.register(self._stop_reader, selectors.EVENT_READ)
            while all(key.fileobj is self._pipe for key, _ in selector.select()):
                if not self._read_once():
                    return

    def _read_all_blocking(self) -> None:
        """Reads to the end of the pipe, on systems that cannot wait for two pipes at once."""
        with self._pipe, contextlib.suppress(OSError):
            while self._read_once():
                pass

    def _read_once(self) -> bool:
        """Reads once and returns whether there was any data."""
        chunk = os.read(self._pipe.fileno(), 1 << 16)
        with self._lock:
            self._first += chunk[: self.MAX_BYTES - len(self._first)]
            self._last = (self._last + chunk)[-self.MAX_BYTES :]
        return bool(chunk)

    def text(self, last: bool, ended: bool) -> bytes:
        """Returns the start of the text, or with `last` its end. ended: whether the process has ended; if so, waits for
        its last output, for at most half a second because a child may keep the pipe open."""
        if ended:
            self._thread.join(0.5)
        with self._lock:
            return self._last if last else self._first

    def close(self) -> None:
        """Ends the thread, also if a process that left the group (such as ssh's master connection) still keeps the pipe
        open. A thread that does not end within a second is left waiting, with its pipe open."""
        os.close(self._stop_writer)
        try:
            self._thread.join(THREAD_END_S if self._threads else None)
        finally:  # also after Ctrl-C
            self._thread.join(1.0)
            os.close(self._stop_reader)
            if not self._thread.is_alive():
                self._pipe.close()


def _check_open(still_open: bool) -> None:
    """Raises LinkClosed if the stream is closed: by now, the descriptor's number may belong to another file."""
    if not still_open:
        raise LinkClosed("the link to the agent is already closed on this side")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
