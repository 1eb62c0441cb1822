"""A subprocess' stdin and stdout as a link; the process and everything it started end with the link."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile

from qverify_agents.address import Address
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable, LinkClosed


class ExecPipe:
    def __init__(self, address: Address):
        self._store = tempfile.TemporaryDirectory(prefix="qverify-board-")
        argv = [*address.argv, "agent", f"--store={self._store.name}"]
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env={**os.environ, **address.environment},
            )
        except OSError as error:
            self._store.cleanup()
            raise BoardUnreachable(f"cannot start {argv[0]}: {error.strerror}") from error
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._stdin, False)
        os.set_blocking(self._stdout, False)

    def read(self, deadline: Deadline) -> bytes:
        """What has come, at least one byte; b"" when the process closed its output."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._stdout, selectors.EVENT_READ)
            while True:
                if waiting.select(deadline.left()):
                    return os.read(self._stdout, 1 << 20)

    def write(self, data: bytes, deadline: Deadline) -> None:
        view = memoryview(data)
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._stdin, selectors.EVENT_WRITE)
            while view:
                if not waiting.select(deadline.left()):
                    continue
                try:
                    view = view[os.write(self._stdin, view) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise LinkClosed(self.why_closed()) from error

    def why_closed(self) -> str:
        """How the process ended, with the first line it wrote to stderr."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.poll()
        if code is None:
            return "the agent closed its output"
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        assert self._process.stderr is not None
        lines = self._process.stderr.read(2000).decode(errors="replace").strip().splitlines()
        return f"the agent {how}" + (f": {lines[0]}" if lines else "")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        self._store.cleanup()


def open_link(address: Address, deadline: Deadline) -> ExecPipe:
    deadline.left()
    return ExecPipe(address)
