"""A separate Python process for code that may crash its process, such as native code on untrusted models. It answers requests
one after the other, each a line of JSON, and ends with the process that started it."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable, LinkClosed, LinkTimeout
from qverify_agents.process_stream import ProcessStream

POLL_S = 0.5  # seconds until a wait notices that its deadline was stopped
MAX_ANSWER_BYTES = 1 << 20
GRACE_S = 3.0  # for the process to end what it started, such as a board's program in a process group of its own


class ChildDied(Exception):
    """The process ended before it answered; the message says how."""


class Child:
    """A process that answers requests, one at a time. It is started at the first request."""

    def __init__(self, module: str):
        """module: the Python module that the process runs; it must call serve()."""
        self._module, self._received = module, b""
        self._stream: ProcessStream | None = None

    def ask(self, request: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
        """Returns the answer to a request. Raises ChildDied if the process ends first, and LinkTimeout at the deadline. After
        an error the process is ended, and the next request starts another."""
        try:
            if self._stream is None:
                command = [sys.executable, "-m", self._module]
                environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
                self._stream, self._received = ProcessStream(command, environment), b""
            self._stream.write(json.dumps(request).encode() + b"\n", deadline)
            return dict(json.loads(self._read_line(self._stream, deadline)))
        except (LinkClosed, BoardUnreachable) as error:
            text = str(error).removeprefix("the agent ")
            self.close()
            raise ChildDied(text) from error
        except BaseException:
            self.close()
            raise

    def _read_line(self, stream: ProcessStream, deadline: Deadline) -> bytes:
        while b"\n" not in self._received:
            try:
                data = stream.read(deadline.part(POLL_S))
            except LinkTimeout:
                deadline.left()
                continue
            if not data:
                raise LinkClosed(stream.why_closed())
            self._received += data
            if len(self._received) > MAX_ANSWER_BYTES:
                raise LinkClosed("its answer is too long")
        line, _, self._received = self._received.partition(b"\n")
        return line

    def close(self) -> None:
        """Ends the process and its child processes."""
        if self._stream is not None:
            self._stream.close(GRACE_S)
            self._stream = None


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answers the requests on standard input. When standard input ends, the process runs its exit handlers, which end
    the processes that it started, and exits, whatever it is doing. Standard output is redirected to standard error, so that nothing that a library prints is taken for an answer."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: list[bytes] = []
    arrived = threading.Semaphore(0)

    def listen() -> None:
        with contextlib.suppress(OSError):
            for line in sys.stdin.buffer:
                requests.append(line)
                arrived.release()
        last = threading.Timer(GRACE_S, os._exit, (0,))
        last.daemon = True
        last.start()
        atexit._run_exitfuncs()  # os._exit would leave them out; the main thread may be in native code and never end
        os._exit(0)

    threading.Thread(target=listen, name="requests", daemon=True).start()
    while True:
        arrived.acquire()
        out.write(json.dumps(answer(json.loads(requests.pop(0)))).encode() + b"\n")
        out.flush()
