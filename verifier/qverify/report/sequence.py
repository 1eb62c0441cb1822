"""The facts of a run of a sequence: its states, a curve over the steps, and what wrong state tensors show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

Feed = Literal["", "forced", "free-running", "both"]
FORCED: Final = "forced"
FREE: Final = "free-running"
BOTH: Final = "both"
MAX_WORDS, MAX_HEAT = 4096, 65536


@dataclass(slots=True)
class CurvePoint:
    """One step of one feed. verdict: of the step. side: the side that is compared with the reference, or without one with the
    simulator. max_abs, sqnr_db: of the output that is farthest; null if it is equal. tensor: that output, or "". tokens: by
    side, the position of the largest value of the last row, with --gate tokens."""

    step: int
    feed: Feed
    verdict: str
    side: str = ""
    tensor: str = ""
    max_abs: float | None = None
    sqnr_db: float | None = None
    tokens: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class HeatCell:
    """A tensor that differs in a step. max_abs: largest difference of real values; null if it is not known."""

    step: int
    feed: Feed
    side: str
    tensor: str
    max_abs: float | None


@dataclass(slots=True)
class StateWords:
    """What a wrong state tensor of a side shows, in words. is_named: it is a known mistake, not only the wrong places."""

    step: int
    feed: Feed
    side: str
    tensor: str
    text: str
    is_named: bool = True


@dataclass(slots=True)
class Drift:
    """How far a side's own run lies from the reference's own run. step: the first step with other bytes. tensor: the first
    output that has them. max_abs: the largest difference of all steps; at: its step. worst: its tensor. misses: how a step
    misses the gate that was given, or ""."""

    side: str
    step: int
    tensor: str
    max_abs: float = 0.0
    at: int = 0
    worst: str = ""
    misses: str = ""

    @property
    def text(self) -> str:
        """The drift in words."""
        most = f", most {self.max_abs:.3g} in {self.worst} at step {self.at}" if self.worst else ""
        return f"the {self.side}'s own run is apart from the reference's from step {self.step} ({self.tensor}){most}"


@dataclass(slots=True)
class SequenceFacts:
    """A run of a sequence. steps: as asked. first: the step with which it began, 0 without a snapshot. ran: number of steps that ran. feeds: forced, free-running. states, step_inputs:
    in words. models: number of compiled networks, one for each length of an axis that grows and each phase. leads: the
    side whose state forced steps get. curve: a point for each step and feed. heat: the tensors that differ. words: what
    wrong states show. drift: how far free-running lies from the reference; null if no side's run is apart. ended: why
    free-running ended before the last step, or "". notes: further facts."""

    steps: int
    first: int = 0
    ran: int = 0
    feeds: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    step_inputs: list[str] = field(default_factory=list)
    models: int = 1
    leads: str = "reference"
    curve: list[CurvePoint] = field(default_factory=list)
    heat: list[HeatCell] = field(default_factory=list)
    words: list[StateWords] = field(default_factory=list)
    drift: Drift | None = None
    ended: str = ""
    notes: list[str] = field(default_factory=list)

    def facts_of_own_run(self, a: str, b: str) -> list[str]:
        """Returns what the free-running line of two sides states: the drift between them, and where the run ended."""
        drift = self.drift
        apart = [drift.text] if drift is not None and (a, b) == (self.leads, drift.side) else []
        return [*apart, *([f"free-running ended: {self.ended}"] if self.ended else [])]
