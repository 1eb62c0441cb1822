"""The report of a suite run: the content of --json, and the source of every other format."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SCHEMA = "qverify.suite/1"  # the number grows when a field changes its meaning or is removed
Verdict = Literal["PASSED", "FAILED", "INCONCLUSIVE"]
State = Literal["queued", "running", "done", "cancelled"]
Change = Literal[
    "", "new failure", "mended", "changed cause", "new inconclusive", "known", "unlike baseline", "other caveats"
]


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job. name: the same in every run of the suite. board: the board on which it ran last, or "". verdict: null while
    there is none. why: the reason of a verdict that is not PASSED, or of a cancellation. nodes: the first nodes that failed.
    caveats: what weakens the verdict, in one line, or "". gate: the criteria of its report, in words. report, capture: SHA-256 of artifacts, or "". change: compared with the job's last verdict in an earlier run; `known`, with
    `baseline`, if it FAILED as its baseline did; `unlike baseline`, if it FAILED in the same place, but differently or worse.
    before: that last verdict."""

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
    caveats: str = ""
    gate: str = ""


@dataclass(frozen=True, slots=True)
class FlakyNode:
    """A job that gave different verdicts or different failing nodes on one board for the same bytes, in runs with the same
    labels. results: the number of times of each result, such as "FAILED at conv1"."""

    job: str
    board: str
    nodes: list[str]
    results: dict[str, int]


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A board in this run. attempts: the number of attempts that ended by themselves; those whose worker or dispatcher died
    are left out. inconclusive: the number of these that the board left without a verdict. flaky: this happened although
    another attempt of the same job had a verdict, or in a tenth of at least ten attempts. why: the reason of the last such
    attempt."""

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
    """A suite run. verdict: the worst verdict of its jobs; INCONCLUSIVE while some jobs have none. created, started, ended:
    seconds since 1970, UTC. counts: the number of jobs in each state and with each verdict, and of jobs that PASSED with caveats
    (`caveats`). past: earlier runs, newest first."""

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
        """Returns JSON values in the schema that `qverify suite schema` prints."""
        return asdict(self)
