"""A Python process of its own for what may end its process: native code on models of strangers. It answers one request after
the other, a line of JSON each, and ends with the process that started it."""

from __future__ import annotations

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

LOOK_S = 0.5  # how soon a wait notices that it is to end
MOST_ANSWER = 1 << 20


class ChildDied(Exception):
    """The process ended before it answered; the text says how."""


class Child:
    """A process that runs serve() in this module, started at the first request. One request at a time."""

    def __init__(self, module: str):
        self._module, self._came = module, b""
        self._stream: ProcessStream | None = None

    def ask(self, request: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
        """Returns the answer. Raises ChildDied, LinkTimeout at the deadline; then the process is ended, and the next
        request starts another."""
        try:
            if self._stream is None:
                words = [sys.executable, "-m", self._module]
                self._stream, self._came = (
                    ProcessStream(words, {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}),
                    b"",
                )
            self._stream.write(json.dumps(request).encode() + b"\n", deadline)
            return dict(json.loads(self._line(self._stream, deadline)))
        except (LinkClosed, BoardUnreachable) as error:
            text = str(error).removeprefix("the agent ")
            self.close()
            raise ChildDied(text) from error
        except BaseException:
            self.close()
            raise

    def _line(self, stream: ProcessStream, deadline: Deadline) -> bytes:
        while b"\n" not in self._came:
            try:
                data = stream.read(deadline.part(LOOK_S))
            except LinkTimeout:
                deadline.left()
                continue
            if not data:
                raise LinkClosed(stream.why_closed())
            self._came += data
            if len(self._came) > MOST_ANSWER:
                raise LinkClosed("its answer is too long")
        line, _, self._came = self._came.partition(b"\n")
        return line

    def close(self) -> None:
        """Ends the process and all it started."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answers the requests that come in on standard input until it ends; then the process ends at once, whatever it is
    doing. What libraries print goes to standard error."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: list[bytes] = []
    came = threading.Semaphore(0)

    def listen() -> None:
        with contextlib.suppress(OSError):
            for line in sys.stdin.buffer:
                requests.append(line)
                came.release()
        os._exit(0)

    threading.Thread(target=listen, name="requests", daemon=True).start()
    while True:
        came.acquire()
        out.write(json.dumps(answer(json.loads(requests.pop(0)))).encode() + b"\n")
        out.flush()
