"""An engine for tests: each attempt calls a function of the test, in a separate thread."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from qverify_farm.engines.engine import Finished, ReachedBoard
from qverify_farm.work.job_task import JobResult, JobTask

Act = Callable[[JobTask], JobResult]


def passed(task: JobTask, **values: object) -> JobResult:
    """Returns a result of the task with these values. The default is PASSED."""
    defaults: dict[str, object] = {"ending": "finished", "verdict": "PASSED", "board_seconds": 0.01}
    return JobResult(task.job, task.attempt, **{**defaults, **values})  # type: ignore[arg-type]


class ScriptedEngine:
    """A JobEngine for tests.

    Attributes:
        ran: Job, board and attempt number of each started task, in order.
        tasks: The started tasks, in order.
        overlaps: The number of attempts that began on a board while another one was running there.
    """

    def __init__(
        self, boards: Mapping[str, Mapping[str, str]], act: Act = passed, check: Callable[[str], str] = lambda _: ""
    ):
        """boards: tags by board name. act: returns the result of an attempt. check: returns "" for a healthy board, otherwise
        the reason why its health check fails."""
        self._boards = {
            name: ReachedBoard(name, f"local?name={name}", dict(tags), "here") for name, tags in boards.items()
        }
        self._act, self._check = act, check
        self.ran: list[tuple[str, str, int]] = []
        self.tasks: list[JobTask] = []
        self.overlaps, self.closed = 0, False
        self._busy = defaultdict[str, int](int)
        self._cancelled = defaultdict[str, threading.Event](threading.Event)
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def boards(self) -> Mapping[str, ReachedBoard]:
        return dict(self._boards)

    def lose(self, name: str) -> None:
        """Makes a board unreachable."""
        del self._boards[name]

    def cancelled(self, job: str) -> threading.Event:
        """Returns an event that is set when the job is cancelled."""
        return self._cancelled[job]

    def start(self, task: JobTask, finished: Finished) -> None:
        with self._lock:
            self.ran.append((task.job, task.board_name, task.attempt))
            self.tasks.append(task)
            self.overlaps += self._busy[task.board_name] > 0
            self._busy[task.board_name] += 1

        def run() -> None:
            result = self._act(task)
            with self._lock:
                self._busy[task.board_name] -= 1
            finished(task, result)

        self._begin(run)

    def check_board(self, name: str, finished: Callable[[str, str], None]) -> None:
        self._begin(lambda: finished(name, self._check(name)))

    def cancel(self, job: str) -> None:
        self._cancelled[job].set()

    def close(self, timeout_s: float = 10.0) -> None:
        self.closed = True
        for job, _, _ in self.ran:
            self._cancelled[job].set()
        end = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _begin(self, act: Callable[[], None]) -> None:
        thread = threading.Thread(target=act, daemon=True)
        self._threads.append(thread)
        thread.start()
