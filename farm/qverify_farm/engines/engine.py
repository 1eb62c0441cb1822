"""What carries tasks to workers: the interface of every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from qverify_farm.work.job_task import JobResult, JobTask

Finished = Callable[[JobTask, JobResult], None]  # called once for each started task, from any thread


@dataclass(frozen=True, slots=True)
class ReachedBoard:
    """A board that a worker reaches. name: of the inventory, one in the whole farm. address: what -b takes there. tags:
    of the inventory. host: the worker's host."""

    name: str
    address: str
    tags: Mapping[str, str] = field(default_factory=dict)
    host: str = ""


class JobEngine(Protocol):
    """Carries tasks to workers. A task that was started always ends in one call of its `finished`, also where its worker
    died (ending "lost"), it was cancelled, or none reaches its board any more (ending "busy")."""

    def boards(self) -> Mapping[str, ReachedBoard]:
        """Returns the boards that live workers reach now, by name."""

    def start(self, task: JobTask, finished: Finished) -> None:
        """Begins a task on a worker that reaches task.board_name; never waits. The caller never starts two tasks of one
        board at a time."""

    def check_board(self, name: str, finished: Callable[[str, str], None]) -> None:
        """Begins a health check of a board: connects and runs the packaged example. finished: is given the board's name
        and "" where it passed, else why not."""

    def cancel(self, job: str) -> None:
        """Ends a job's attempt as soon as its worker can; unknown ones are ignored."""

    def close(self, timeout_s: float = 10.0) -> None:
        """Ends what runs, waits for it at most so long, and gives the workers back."""
