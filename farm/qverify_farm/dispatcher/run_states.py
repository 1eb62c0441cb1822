"""The state of each run that the dispatcher works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qverify_farm.store.failures import Failure, failure_of, find_unlike, is_same_place
from qverify_farm.work.job_task import JobResult

DEFAULT_BOARD_WAIT_S = 900.0


@dataclass(slots=True)
class RunState:
    """A run that has not ended.

    Attributes:
        definition: The suite's definition, as the database stores it.
        deadline: When the run times out, in monotonic seconds; None if it has no timeout.
        known: The failures of its baseline, by job name.
        waiting: Ids of the jobs that wait for a board.
        running: Ids of the jobs that have a running attempt.
    """

    id: str
    project: str
    definition: Mapping[str, Any]
    deadline: float | None
    known: Mapping[str, Failure] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    cancelled: bool = False

    @property
    def fail_fast(self) -> bool:
        return bool(self.definition.get("fail_fast", False))

    def is_known(self, name: str, result: JobResult) -> bool:
        """Returns whether the job with this name FAILED as its baseline did."""
        known, found = self.known.get(name), failure_of(result.blame_side[:32], result.nodes, result.extent)
        return known is not None and is_same_place(known, found) and not find_unlike(known, found)

    @property
    def quarantine(self) -> int:
        """The number of INCONCLUSIVE results in a row after which a board is quarantined; 0 for never."""
        return int(self.definition.get("quarantine", 3))

    @property
    def board_wait_s(self) -> float:
        """The time that a job waits while none of the boards that fit it is usable."""
        return float(self.definition.get("board_wait_s", DEFAULT_BOARD_WAIT_S))

    @property
    def has_ended(self) -> bool:
        return not self.waiting and not self.running


def deadline_of(definition: Mapping[str, Any], spent_s: float, now: float) -> float | None:
    """Returns when a run times out, in monotonic seconds, or None if it has no timeout.

    spent_s is the time that the run has taken so far by the wall clock. Since that clock may jump, it is limited to the
    range from 0 to the timeout.
    """
    timeout_s = definition.get("timeout_s")
    if timeout_s is None:
        return None
    return now + float(timeout_s) - min(max(0.0, spent_s), float(timeout_s))
