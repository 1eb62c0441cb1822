"""An engine whose threads run in a process beside this one. A job that crashes its process does not end the service, and the
threads of the boards do not slow down the dispatcher."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from qverify_farm.engines.engine import Finished, ReachedBoard
from qverify_farm.engines.kept_threads import OneThread
from qverify_farm.engines.scheduler_process import end_process, start_module
from qverify_farm.work.job_task import JobResult, JobTask

MODULE = "qverify_farm.engines.beside_process"
STABLE_S = 10.0  # a process that ends sooner is started again only after a pause
RESTART_PAUSE_S = 2.0
MAX_LINE_BYTES = 1 << 20
PROCESS_ENDED = "the process that runs the jobs ended"

OnAnswer = Callable[[dict[str, Any] | None, bool], None]  # the answer, or None; whether the request reached the process


@dataclass(slots=True)
class _Process:
    """A process, its unanswered requests by key, and when it was started, in monotonic seconds."""

    popen: subprocess.Popen[bytes]
    unanswered: dict[str, OnAnswer] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)


class BesideEngine:
    """A JobEngine over boards of this host. When its process ends, the running tasks end as "lost", and a new process is
    started."""

    def __init__(self, boards: Mapping[str, ReachedBoard], cache: str = ""):
        """cache: the cache folder of the process's JobWorker, or "" for the default."""
        self._boards = dict(boards)
        self._settings = json.dumps({"boards": [asdict(board) for board in boards.values()], "cache": cache})
        self._lock, self._closed, self._callbacks = threading.Lock(), threading.Event(), OneThread()
        self._process = self._start_process()

    @property
    def process_id(self) -> int:
        return self._process.popen.pid

    def boards(self) -> Mapping[str, ReachedBoard]:
        """Returns the boards by name."""
        return dict(self._boards)

    def start(self, task: JobTask, finished: Finished) -> None:
        """Begins a task; never waits for it."""

        def on_answer(answer: dict[str, Any] | None, began: bool) -> None:
            no_result = JobResult(task.job, task.attempt, "lost" if began else "busy", why=PROCESS_ENDED)
            finished(task, no_result if answer is None else JobResult.from_json(answer["result"]))

        self._request({"start": task.to_json()}, on_answer)

    def check_board(self, name: str, finished: Callable[[str, str], None]) -> None:
        """Begins a health check; never waits for it."""
        self._request(
            {"check": name}, lambda answer, _: finished(name, PROCESS_ENDED if answer is None else str(answer["why"]))
        )

    def cancel(self, job: str) -> None:
        """Ends a job's attempt at its next wait."""
        with self._lock:
            self._send(self._process, {"cancel": job})

    def close(self, timeout_s: float = 10.0) -> None:
        """Cancels the running tasks and waits for them; a task that does not end in time ends as "lost"."""
        self._closed.set()
        until = time.monotonic() + timeout_s
        with self._lock:
            process = self._process
            self._send(process, {"close": timeout_s})
        while process.unanswered and process.popen.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        end_process(process.popen)
        self._fail_unanswered(process)
        self._callbacks.close()

    def _start_process(self) -> _Process:
        process = _Process(start_module(MODULE, self._settings))
        threading.Thread(target=self._listen, args=(process,), name="farm-beside", daemon=True).start()
        return process

    def _request(self, request: dict[str, Any], on_answer: OnAnswer) -> None:
        key = secrets.token_hex(8)
        with self._lock:
            process = self._process
            process.unanswered[key] = on_answer
            sent = not self._closed.is_set() and self._send(process, {"key": key, **request})
        if not sent and process.unanswered.pop(key, None) is not None:
            self._callbacks.run(lambda: on_answer(None, False))

    @staticmethod
    def _send(process: _Process, message: dict[str, Any]) -> bool:
        """Writes a message to the process; returns False if its input is closed."""
        assert process.popen.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            process.popen.stdin.write(json.dumps(message).encode() + b"\n")
            process.popen.stdin.flush()
            return True
        return False

    def _listen(self, process: _Process) -> None:
        """Passes on the answers of a process until it ends; then starts another, unless the engine is closed."""
        assert process.popen.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while line := process.popen.stdout.readline(MAX_LINE_BYTES):
                answer = json.loads(line)
                if (on_answer := process.unanswered.pop(str(answer["key"]), None)) is not None:
                    self._callbacks.run(lambda call=on_answer, answer=answer: call(answer, True))  # type: ignore[misc]
        end_process(process.popen)
        self._fail_unanswered(process)
        if time.monotonic() - process.started < STABLE_S:
            self._closed.wait(RESTART_PAUSE_S)
        with self._lock:
            if not self._closed.is_set():
                self._process = self._start_process()

    def _fail_unanswered(self, process: _Process) -> None:
        while process.unanswered:
            with contextlib.suppress(KeyError):
                _, on_answer = process.unanswered.popitem()
                self._callbacks.run(lambda call=on_answer: call(None, True))  # type: ignore[misc]


def take_standard_output() -> int:
    """Returns a new descriptor of standard output, and redirects standard output to standard error, so that nothing that a
    library prints is taken for an answer."""
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return descriptor
