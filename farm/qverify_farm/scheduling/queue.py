"""The waiting jobs, grouped by board filter and submitter, each group in its order."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass

from qverify_farm.scheduling.board_filter import BoardFilter


@dataclass(slots=True)
class QueuedJob:
    """A job that waits for a board. It is small, since there may be many.

    Attributes:
        board_filter: Which boards fit the job.
        age: When its run was created; the smallest value is the oldest run.
        number: The job's place in its run.
        account: Project and submitter whose quota of board time it uses.
        tried: Boards on which it was INCONCLUSIVE; another one is preferred.
    """

    id: str
    submitter: str
    board_filter: BoardFilter
    priority: int = 0
    age: float = 0.0
    number: int = 0
    tried: frozenset[str] = frozenset()
    account: tuple[str, str] = ("", "")

    @property
    def rank(self) -> tuple[int, float, int, str]:
        """The sort key. The job that is next sorts last: the largest priority, then the oldest run, then the smallest
        number."""
        return (self.priority, -self.age, -self.number, self.id)


class Queue:
    """The waiting jobs, in groups of one board filter and one submitter, each sorted by rank."""

    def __init__(self) -> None:
        self._groups: dict[BoardFilter, dict[str, list[QueuedJob]]] = {}
        self._jobs: dict[str, QueuedJob] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job: str) -> bool:
        return job in self._jobs

    def board_filters(self) -> list[BoardFilter]:
        """Returns the board filters of the waiting jobs, each once."""
        return list(self._groups)

    def counted(self) -> Iterator[tuple[BoardFilter, str, int]]:
        """Yields the board filter, the submitter and the number of jobs of each group."""
        for board_filter, submitters in self._groups.items():
            for submitter, group in submitters.items():
                yield board_filter, submitter, len(group)

    def add(self, job: QueuedJob) -> None:
        group = self._groups.setdefault(job.board_filter, {}).setdefault(job.submitter, [])
        bisect.insort(group, job, key=lambda member: member.rank)
        self._jobs[job.id] = job

    def remove(self, job: str) -> None:
        """Removes a job by id. A job that is not waiting is ignored."""
        queued = self._jobs.pop(job, None)
        if queued is None:
            return
        submitters = self._groups[queued.board_filter]
        group = submitters[queued.submitter]
        del group[bisect.bisect_left(group, queued.rank, key=lambda member: member.rank)]
        if not group:
            del submitters[queued.submitter]
        if not submitters:
            del self._groups[queued.board_filter]

    def of(self, board_filter: BoardFilter) -> dict[str, list[QueuedJob]]:
        """Returns the jobs with this board filter, by submitter, in ascending order of rank: the next job is last."""
        return self._groups.get(board_filter, {})
