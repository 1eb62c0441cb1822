"""The default engine: threads of this process, one for each board that is busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from qverify_farm.engines.engine import Finished, ReachedBoard
from qverify_farm.engines.kept_threads import KeptThreads, share_interpreter
from qverify_farm.work.check_board import check_board
from qverify_farm.work.job_limit import JobLimit
from qverify_farm.work.job_task import JobResult, JobTask
from qverify_farm.work.run_job import run_job
from qverify_farm.work.worker import JobWorker

GRACE_S = 60.0  # an attempt that its timeout did not end by then is given up
LOOK_S = 1.0


@dataclass(slots=True, eq=False)
class _Started:
    """An attempt that runs. told: whether its end was told."""

    task: JobTask
    finished: Finished
    limit: JobLimit
    since: float = field(default_factory=time.monotonic)
    told: bool = False


class InProcessEngine:
    """An JobEngine (engine.py) over boards that this process reaches. worker: what it keeps between jobs, closed with the
    engine."""

    def __init__(self, boards: Mapping[str, ReachedBoard], worker: JobWorker | None = None, grace_s: float = GRACE_S):
        self._boards, self._worker, self._grace_s = dict(boards), worker or JobWorker(), grace_s
        self._running = set[_Started]()
        self._lock, self._ended, self._closed = threading.Lock(), threading.Condition(), threading.Event()
        self._checks, self._threads = 0, KeptThreads()
        share_interpreter()
        threading.Thread(target=self._give_up_overdue, name="farm-overdue", daemon=True).start()

    def boards(self) -> Mapping[str, ReachedBoard]:
        """Returns the boards by name."""
        return dict(self._boards)

    def start(self, task: JobTask, finished: Finished) -> None:
        """Begins a task; never waits. For a board that this engine does not reach, and once it is closed, the task ends
        busy at once."""
        one = _Started(task, finished, JobLimit(task.timeout_s))
        if self._closed.is_set() or task.board_name not in self._boards:
            why = "the engine is closed" if self._closed.is_set() else f"no worker reaches {task.board_name}"
            self._tell(one, JobResult(task.job, task.attempt, "busy", why=why[:300]))
            return
        with self._lock:
            self._running.add(one)
        self._threads.run(lambda: self._tell(one, run_job(task, self._worker, one.limit)))

    def check_board(self, name: str, finished: Callable[[str, str], None]) -> None:
        """Begins a health check; never waits."""
        board = self._boards.get(name)

        def check() -> None:
            finished(name, check_board(self._worker, name, board.address) if board else f"no worker reaches {name}")
            with self._ended:
                self._checks -= 1
                self._ended.notify_all()

        with self._ended:
            self._checks += 1
        self._threads.run(check)

    def cancel(self, job: str) -> None:
        """Ends a job's attempt at its next wait."""
        with self._lock:
            limits = [one.limit for one in self._running if one.task.job == job]
        for limit in limits:
            limit.cancel()

    def close(self, timeout_s: float = 10.0) -> None:
        """Cancels what runs and waits for it; what does not end in time is told as lost."""
        self._closed.set()
        with self._lock:
            running = list(self._running)
        for one in running:
            one.limit.cancel()
        self._worker.cancel_all()
        end = time.monotonic() + timeout_s
        with self._ended:
            while (self._running or self._checks) and (left := end - time.monotonic()) > 0:
                self._ended.wait(left)
        for one in list(self._running):
            self._lose(one, "it did not end when the engine was closed")
        self._worker.close()
        self._threads.close()

    def _tell(self, one: _Started, result: JobResult) -> None:
        """Tells an attempt's end, unless it was told."""
        with self._lock:
            self._running.discard(one)
            first, one.told = not one.told, True
        if first:
            one.finished(one.task, result)
        with self._ended:
            self._ended.notify_all()

    def _lose(self, one: _Started, why: str) -> None:
        self._tell(one, JobResult(one.task.job, one.task.attempt, "lost", why=why, worker=self._worker.name[:80]))

    def _give_up_overdue(self) -> None:
        while not self._closed.wait(LOOK_S):
            now = time.monotonic()
            with self._lock:
                overdue = [one for one in self._running if now - one.since > one.task.timeout_s + self._grace_s]
            for one in overdue:
                self._lose(one, f"it ran {self._grace_s:g} s longer than its timeout of {one.task.timeout_s:g} s")
