"""The jobs that wait, by what they want and by who submitted them, each group in its order."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass

from qverify_farm.scheduling.wanted import Wanted


@dataclass(slots=True)
class QueuedJob:
    """A job that waits; small, since there may be many. age: of its run, the smaller the older. number: its place in the
    run. tried: boards on which it was INCONCLUSIVE: another one is taken if one fits."""

    id: str
    submitter: str
    wanted: Wanted
    priority: int = 0
    age: float = 0.0
    number: int = 0
    tried: frozenset[str] = frozenset()

    @property
    def rank(self) -> tuple[int, float, int, str]:
        """Sorts last what is next: the larger priority, then the older run, then the smaller number."""
        return (self.priority, -self.age, -self.number, self.id)


class Queue:
    """Jobs in groups of one Wanted and one submitter, sorted by rank."""

    def __init__(self) -> None:
        self._groups: dict[Wanted, dict[str, list[QueuedJob]]] = {}
        self._jobs: dict[str, QueuedJob] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job: str) -> bool:
        return job in self._jobs

    def wanted(self) -> list[Wanted]:
        """Returns what the waiting jobs want."""
        return list(self._groups)

    def counted(self) -> Iterator[tuple[Wanted, str, int]]:
        """Yields each Wanted, each submitter of jobs that want it, and how many they are."""
        for wanted, submitters in self._groups.items():
            for submitter, group in submitters.items():
                yield wanted, submitter, len(group)

    def add(self, job: QueuedJob) -> None:
        group = self._groups.setdefault(job.wanted, {}).setdefault(job.submitter, [])
        bisect.insort(group, job, key=lambda one: one.rank)
        self._jobs[job.id] = job

    def remove(self, job: str) -> None:
        """Removes a job; nothing happens where it does not wait."""
        found = self._jobs.pop(job, None)
        if found is None:
            return
        submitters = self._groups[found.wanted]
        group = submitters[found.submitter]
        del group[bisect.bisect_left(group, found.rank, key=lambda one: one.rank)]
        if not group:
            del submitters[found.submitter]
        if not submitters:
            del self._groups[found.wanted]

    def of(self, wanted: Wanted) -> dict[str, list[QueuedJob]]:
        """Returns the jobs that want this, by submitter, the next one last."""
        return self._groups.get(wanted, {})
