"""What a suite run gave, as plain values: the contract of --json, and what every format shows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SCHEMA = "qverify.suite/1"  # its number grows when a field changes its meaning or goes
Verdict = Literal["PASSED", "FAILED", "INCONCLUSIVE"]
State = Literal["queued", "running", "done", "cancelled"]
Change = Literal["", "new failure", "mended", "changed cause", "new inconclusive", "known"]


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job. name: the same in every run of the suite. board: that it ran on last, "" where it did not. verdict: null
    while it has none. why: of a verdict that is not PASSED, or of a job that was cancelled. nodes: the first that failed.
    report, capture: SHA-256 of artifacts, or "". change: against the job's last verdict in an earlier run, or, with
    `baseline`, known: FAILED as its baseline is. before: that verdict."""

    name: str
    model: str
    state: State
    board: str = ""
    verdict: Verdict | None = None
    why: str = ""
    blame_side: str = ""
    blame_node: str = ""
    nodes: list[str] = field(default_factory=list)
    attempts: int = 0
    seconds: float = 0.0
    board_seconds: float = 0.0
    report: str = ""
    capture: str = ""
    change: Change = ""
    before: Verdict | None = None
    facts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlakyNode:
    """A job on one board that gave different verdicts or different failing nodes for the same bytes, in runs of the same labels.
    results: as "FAILED at conv1", with how often."""

    job: str
    board: str
    nodes: list[str]
    results: dict[str, int]


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A board in this run. inconclusive: attempts that gave no verdict. flaky: it was INCONCLUSIVE or lost its worker where
    another attempt of the same job had a verdict, or in a tenth of at least ten attempts. why: of the last such attempt."""

    board: str
    attempts: int
    board_seconds: float
    inconclusive: int
    flaky: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class PastRun:
    """An earlier run of the same suite."""

    id: str
    created: float
    verdict: Verdict | None
    labels: dict[str, str]
    passed: int
    failed: int
    inconclusive: int


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """A suite run. verdict: the worst of its jobs', INCONCLUSIVE while some have none. created, started, ended: seconds
    since 1970, UTC. counts: jobs by state, and by verdict. past: the newest first."""

    id: str
    name: str
    verdict: Verdict
    state: Literal["running", "done", "cancelled"]
    why: str
    submitter: str
    created: float
    started: float | None
    ended: float | None
    labels: dict[str, str]
    counts: dict[str, int]
    jobs: list[JobRow]
    boards: list[BoardRow]
    flaky_nodes: list[FlakyNode]
    past: list[PastRun]
    qverify: str
    schema: str = SCHEMA

    def to_json(self) -> dict[str, Any]:
        """Returns plain values that fit the schema of `qverify suite schema`."""
        return asdict(self)
