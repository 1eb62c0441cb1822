"""The runs that the dispatcher works on, as little of each as it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BOARD_WAIT_S = 900.0


@dataclass(slots=True)
class RunState:
    """A run that has not ended. waiting, running: its jobs by id. deadline: monotonic seconds, None without one.
    board_wait_s: how long a job waits while no board that fits is usable."""

    id: str
    project: str
    definition: Mapping[str, Any]
    deadline: float | None
    waiting: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    cancelled: bool = False

    @property
    def fail_fast(self) -> bool:
        return bool(self.definition.get("fail_fast", False))

    @property
    def quarantine(self) -> int:
        return int(self.definition.get("quarantine", 3))

    @property
    def board_wait_s(self) -> float:
        return float(self.definition.get("board_wait_s", BOARD_WAIT_S))

    @property
    def has_ended(self) -> bool:
        return not self.waiting and not self.running


def deadline_of(definition: Mapping[str, Any], spent_s: float, now: float) -> float | None:
    """Returns when a run times out, in monotonic seconds; None where it has no timeout. spent_s: by the wall clock, which
    may have jumped: a run that is resumed has between none and all of its time left."""
    timeout_s = definition.get("timeout_s")
    if timeout_s is None:
        return None
    return now + float(timeout_s) - min(max(0.0, spent_s), float(timeout_s))
