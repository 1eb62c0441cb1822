"""An engine whose threads are in a process beside this one: a job that ends its process ends no service, and the threads of the
boards take no turns from the dispatcher's."""

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
from qverify_farm.engines.scheduler_process import end, start_module
from qverify_farm.work.job_task import JobResult, JobTask

MODULE = "qverify_farm.engines.beside_process"
AGAIN_S, GOOD_S, MOST_LINE = 2.0, 10.0, 1 << 20
ENDED = "the process that runs the jobs ended"

Tell = Callable[[dict[str, Any] | None, bool], None]  # the answer, and whether it was begun


@dataclass(slots=True)
class _Process:
    """A process, and what it was asked for and has not answered, by key. since: on time.monotonic()'s clock."""

    popen: subprocess.Popen[bytes]
    waiting: dict[str, Tell] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)


class BesideEngine:
    """An JobEngine (engine.py) over boards of this host. What runs when the process ends is told as lost; another begins at
    once. cache: the folder of its JobWorker, "" for the usual one."""

    def __init__(self, boards: Mapping[str, ReachedBoard], cache: str = ""):
        self._boards = dict(boards)
        self._settings = json.dumps({"boards": [asdict(board) for board in boards.values()], "cache": cache})
        self._lock, self._closed, self._tellers = threading.Lock(), threading.Event(), OneThread()
        self._process = self._begun()

    @property
    def process_id(self) -> int:
        return self._process.popen.pid

    def boards(self) -> Mapping[str, ReachedBoard]:
        """Returns the boards by name."""
        return dict(self._boards)

    def start(self, task: JobTask, finished: Finished) -> None:
        """Begins a task; never waits for it."""

        def tell(answer: dict[str, Any] | None, began: bool) -> None:
            none = JobResult(task.job, task.attempt, "lost" if began else "busy", why=ENDED)
            finished(task, none if answer is None else JobResult.from_json(answer["result"]))

        self._ask({"start": task.to_json()}, tell)

    def check_board(self, name: str, finished: Callable[[str, str], None]) -> None:
        """Begins a health check; never waits for it."""
        self._ask({"check": name}, lambda answer, _: finished(name, ENDED if answer is None else str(answer["why"])))

    def cancel(self, job: str) -> None:
        """Ends a job's attempt at its next wait."""
        with self._lock:
            self._write(self._process, {"cancel": job})

    def close(self, timeout_s: float = 10.0) -> None:
        """Cancels what runs and waits for it; what does not end in time is told as lost."""
        self._closed.set()
        until = time.monotonic() + timeout_s
        with self._lock:
            process = self._process
            self._write(process, {"close": timeout_s})
        while process.waiting and process.popen.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        end(process.popen)
        self._lose(process)
        self._tellers.close()

    def _begun(self) -> _Process:
        process = _Process(start_module(MODULE, self._settings))
        threading.Thread(target=self._listen, args=(process,), name="farm-beside", daemon=True).start()
        return process

    def _ask(self, request: dict[str, Any], tell: Tell) -> None:
        key = secrets.token_hex(8)
        with self._lock:
            process = self._process
            process.waiting[key] = tell
            written = not self._closed.is_set() and self._write(process, {"key": key, **request})
        if not written and process.waiting.pop(key, None) is not None:
            self._tellers.run(lambda: tell(None, False))

    @staticmethod
    def _write(process: _Process, message: dict[str, Any]) -> bool:
        assert process.popen.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            process.popen.stdin.write(json.dumps(message).encode() + b"\n")
            process.popen.stdin.flush()
            return True
        return False

    def _listen(self, process: _Process) -> None:
        """Tells what the process answers until it ends; then another begins, unless the engine is closed."""
        assert process.popen.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while line := process.popen.stdout.readline(MOST_LINE):
                answer = json.loads(line)
                if (tell := process.waiting.pop(str(answer["key"]), None)) is not None:
                    self._tellers.run(lambda tell=tell, answer=answer: tell(answer, True))  # type: ignore[misc]
        end(process.popen)
        self._lose(process)
        if time.monotonic() - process.since < GOOD_S:
            self._closed.wait(AGAIN_S)
        with self._lock:
            if not self._closed.is_set():
                self._process = self._begun()

    def _lose(self, process: _Process) -> None:
        while process.waiting:
            with contextlib.suppress(KeyError):
                _, tell = process.waiting.popitem()
                self._tellers.run(lambda tell=tell: tell(None, True))  # type: ignore[misc]


def descriptor_of_answers() -> int:
    """Returns a copy of standard output, which from now on is standard error: what libraries print is no answer."""
    answers = os.dup(1)
    os.dup2(2, 1)
    return answers
