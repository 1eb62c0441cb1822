"""The interface of every engine. An engine carries tasks to the workers that reach the boards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from qverify_farm.work.job_task import JobResult, JobTask

Finished = Callable[[JobTask, JobResult], None]  # called once for each started task, from any thread


@dataclass(frozen=True, slots=True)
class ReachedBoard:
    """A board that a worker reaches.

    Attributes:
        name: Its name in the inventory, unique in the whole farm.
        address: The value for -b on the worker's host.
        tags: Its tags in the inventory.
        host: The name of the worker's host.
    """

    name: str
    address: str
    tags: Mapping[str, str] = field(default_factory=dict)
    host: str = ""


class JobEngine(Protocol):
    """Carries tasks to workers. Every task that was started ends in exactly one call of its `finished`: also if its worker
    died (ending "lost"), if it was cancelled, or if no worker reaches its board any more (ending "busy")."""

    def boards(self) -> Mapping[str, ReachedBoard]:
        """Returns the boards that live workers reach now, by name."""

    def start(self, task: JobTask, finished: Finished) -> None:
        """Begins a task on a worker that reaches task.board_name; never waits. The caller must not start two tasks on one
        board at the same time."""

    def check_board(self, name: str, finished: Callable[[str, str], None]) -> None:
        """Begins a health check of a board, which connects and runs the packaged example. finished: called with the board's
        name, and with "" if the check passed or the reason why it did not."""

    def cancel(self, job: str) -> None:
        """Ends a job's attempt as soon as its worker can. An unknown job is ignored."""

    def close(self, timeout_s: float = 10.0) -> None:
        """Cancels the running tasks, waits for them at most timeout_s, and releases the workers."""
