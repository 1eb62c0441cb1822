"""Several engines used as one, each with boards of its own. The threads of one Python process share one processor, so a host
with many boards uses several processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from math import ceil

from qverify_farm.engines.beside import BesideEngine
from qverify_farm.engines.engine import Finished, JobEngine, ReachedBoard
from qverify_farm.engines.in_process import InProcessEngine
from qverify_farm.work.job_task import JobResult, JobTask

BOARDS_PER_PROCESS = 8  # with more boards than this, there are several processes, if the host has several processors


class EngineGroup:
    """A JobEngine over the boards of its parts."""

    def __init__(self, parts: Sequence[JobEngine]):
        self.parts = list(parts)

    def boards(self) -> Mapping[str, ReachedBoard]:
        """Returns the boards by name."""
        return {name: board for part in self.parts for name, board in part.boards().items()}

    def start(self, task: JobTask, finished: Finished) -> None:
        """Begins a task on the part that reaches its board; never waits."""
        part = self._part_of(task.board_name)
        if part is not None:
            part.start(task, finished)
        else:
            why = f"no worker reaches {task.board_name}"[:300]
            finished(task, JobResult(task.job, task.attempt, "busy", why=why))

    def check_board(self, name: str, finished: Callable[[str, str], None]) -> None:
        """Begins a health check; never waits."""
        part = self._part_of(name)
        if part is not None:
            part.check_board(name, finished)
        else:
            finished(name, f"no worker reaches {name}")

    def cancel(self, job: str) -> None:
        """Ends a job's attempt."""
        for part in self.parts:
            part.cancel(job)

    def close(self, timeout_s: float = 10.0) -> None:
        """Closes all parts at the same time."""
        closing = [threading.Thread(target=part.close, args=(timeout_s,)) for part in self.parts]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()

    def _part_of(self, board: str) -> JobEngine | None:
        return next((part for part in self.parts if board in part.boards()), None)


def engine_beside(boards: Mapping[str, ReachedBoard], cache: str = "") -> JobEngine:
    """Returns an engine that uses processes beside this one: one process, or for many boards up to one per processor. cache:
    the cache folder of their JobWorkers, or "" for the default."""
    processes = max(1, min(os.cpu_count() or 1, ceil(len(boards) / BOARDS_PER_PROCESS)))
    if processes == 1:
        return BesideEngine(boards, cache)
    names = list(boards)
    parts = [names[first::processes] for first in range(processes)]
    return EngineGroup([BesideEngine({name: boards[name] for name in part}, cache) for part in parts])


def engine_here(boards: Mapping[str, ReachedBoard]) -> JobEngine:
    """Returns an engine for a command that ends when its work is done: threads of this process for a few boards, processes
    beside it for more."""
    return InProcessEngine(boards) if len(boards) <= BOARDS_PER_PROCESS else engine_beside(boards)
