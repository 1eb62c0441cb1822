"""An engine that uses threads of this process, one for each busy board."""

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

GRACE_S = 60.0  # an attempt that runs this much longer than its timeout is given up
OVERDUE_POLL_S = 1.0  # seconds between searches for such attempts


@dataclass(slots=True, eq=False)
class _Started:
    """A running attempt. `started` is in monotonic seconds; `reported` is true once `finished` was called."""

    task: JobTask
    finished: Finished
    limit: JobLimit
    started: float = field(default_factory=time.monotonic)
    reported: bool = False


class InProcessEngine:
    """A JobEngine over boards that this process reaches."""

    def __init__(self, boards: Mapping[str, ReachedBoard], worker: JobWorker | None = None, grace_s: float = GRACE_S):
        """worker: runs the jobs, and is closed with the engine. grace_s: an attempt that runs this much longer than its
        timeout is given up."""
        self._boards, self._worker, self._grace_s = dict(boards), worker or JobWorker(), grace_s
        self._running = set[_Started]()
        self._lock, self._ended, self._closed = threading.Lock(), threading.Condition(), threading.Event()
        self._running_checks, self._threads = 0, KeptThreads()
        share_interpreter()
        threading.Thread(target=self._give_up_overdue, name="farm-overdue", daemon=True).start()

    def boards(self) -> Mapping[str, ReachedBoard]:
        """Returns the boards by name."""
        return dict(self._boards)

    def start(self, task: JobTask, finished: Finished) -> None:
        """Begins a task; never waits. The task ends as "busy" at once if this engine does not reach its board or is
        closed."""
        attempt = _Started(task, finished, JobLimit(task.timeout_s))
        if self._closed.is_set() or task.board_name not in self._boards:
            why = "the engine is closed" if self._closed.is_set() else f"no worker reaches {task.board_name}"
            self._report(attempt, JobResult(task.job, task.attempt, "busy", why=why[:300]))
            return
        with self._lock:
            self._running.add(attempt)
        self._threads.run(lambda: self._report(attempt, run_job(task, self._worker, attempt.limit)))

    def check_board(self, name: str, finished: Callable[[str, str], None]) -> None:
        """Begins a health check; never waits."""
        board = self._boards.get(name)

        def check() -> None:
            finished(name, check_board(self._worker, name, board.address) if board else f"no worker reaches {name}")
            with self._ended:
                self._running_checks -= 1
                self._ended.notify_all()

        with self._ended:
            self._running_checks += 1
        self._threads.run(check)

    def cancel(self, job: str) -> None:
        """Ends a job's attempt at its next wait."""
        with self._lock:
            limits = [attempt.limit for attempt in self._running if attempt.task.job == job]
        for limit in limits:
            limit.cancel()

    def close(self, timeout_s: float = 10.0) -> None:
        """Cancels the running tasks and waits for them; a task that does not end in time ends as "lost"."""
        self._closed.set()
        with self._lock:
            running = list(self._running)
        for attempt in running:
            attempt.limit.cancel()
        self._worker.cancel_all()
        end = time.monotonic() + timeout_s
        with self._ended:
            while (self._running or self._running_checks) and (left := end - time.monotonic()) > 0:
                self._ended.wait(left)
        for attempt in list(self._running):
            self._lose(attempt, "it did not end when the engine was closed")
        self._worker.close()
        self._threads.close()

    def _report(self, attempt: _Started, result: JobResult) -> None:
        """Reports the end of an attempt, unless it was reported before."""
        with self._lock:
            self._running.discard(attempt)
            is_first, attempt.reported = not attempt.reported, True
        if is_first:
            attempt.finished(attempt.task, result)
        with self._ended:
            self._ended.notify_all()

    def _lose(self, attempt: _Started, why: str) -> None:
        self._report(
            attempt, JobResult(attempt.task.job, attempt.task.attempt, "lost", why=why, worker=self._worker.name[:80])
        )

    def _give_up_overdue(self) -> None:
        while not self._closed.wait(OVERDUE_POLL_S):
            now = time.monotonic()
            with self._lock:
                overdue = [
                    attempt
                    for attempt in self._running
                    if now - attempt.started > attempt.task.timeout_s + self._grace_s
                ]
            for attempt in overdue:
                self._lose(
                    attempt, f"it ran {self._grace_s:g} s longer than its timeout of {attempt.task.timeout_s:g} s"
                )
