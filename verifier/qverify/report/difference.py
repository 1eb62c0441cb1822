"""ReportDifference and its parts: two reports of the same network beside each other, as plain dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from qverify import __version__
from qverify.report.document import Metric, Verdict, plain

SCHEMA = "qverify.report_diff/1"
Direction = Literal["better", "worse", "other"]
Change = Literal["same", "better", "worse", "not known"]
EXIT: dict[str, int] = {"same": 0, "better": 0, "worse": 1, "not known": 3}


@dataclass(slots=True)
class RunFacts:
    """One of the two runs. source: the file or folder that it was read from. tensors: number of rows of all its
    pairs."""

    source: str
    verdict: Verdict
    qverify: str
    date: str
    tensors: int


@dataclass(slots=True)
class FactChange:
    """A fact that differs between the two runs: hash of a model or input, option, or version. what: name of the fact.
    before, now: its value in a and b; null if absent."""

    what: str
    before: str | None
    now: str | None


@dataclass(slots=True)
class PairChange:
    """A pair's verdict in both runs. before, now: null if the run has no such pair. why_before, why_now: cause and
    reason; why_now also how many tensors are compared, if fewer than before: then a pair that PASSED is not better."""

    pair: str
    frame: int
    board: str | None
    before: Verdict | None
    now: Verdict | None
    change: Change
    why_before: str = ""
    why_now: str = ""


@dataclass(slots=True)
class BlameChange:
    """A side's first blamed node in both runs. before, now: null if the side is not to blame."""

    side: str
    before: str | None
    now: str | None


@dataclass(slots=True)
class MetricChange:
    """A number of one tensor in both runs. direction: better or worse; other if neither is known."""

    metric: str
    before: Metric
    now: Metric
    direction: Direction


@dataclass(slots=True)
class TensorChange:
    """A compared tensor with a changed verdict or changed numbers. direction: that of the verdict if it changed, else
    that of the metrics if they all agree, else other."""

    pair: str
    frame: int
    board: str | None
    tensor: str
    node: str
    op: str
    before: Verdict
    now: Verdict
    direction: Direction
    metrics: list[MetricChange] = field(default_factory=list)


@dataclass(slots=True)
class OnlyInOne:
    """A tensor that was compared in one run only. run: a or b."""

    run: Literal["a", "b"]
    pair: str
    frame: int
    board: str | None
    tensor: str
    verdict: Verdict


@dataclass(slots=True)
class TimeChange:
    """Seconds that a node took on the board, or a step of the run on the host, in each of the two runs. of: node or
    step."""

    of: Literal["node", "step"]
    name: str
    before: float | None
    now: float | None


@dataclass(slots=True, kw_only=True)
class ReportDifference:
    """The differences of two runs, a before b. change: change of the verdict: worse if that of the run or of any pair
    is worse, or a node fell back that did not in a; not known if b lacks a pair that a has, if no tensor is in both, or if FAILED became INCONCLUSIVE; better
    if one is better and none is worse; else same. why: reason of a change that is worse or not known. caveats: facts
    that make the two hard to compare, stated in the last line. compared: number of tensors in both runs. equal: number
    of those without any change."""

    change: Change
    why: str
    a: RunFacts
    b: RunFacts
    pairs: list[PairChange] = field(default_factory=list)
    blame: list[BlameChange] = field(default_factory=list)
    tensors: list[TensorChange] = field(default_factory=list)
    only: list[OnlyInOne] = field(default_factory=list)
    times: list[TimeChange] = field(default_factory=list)
    facts: list[FactChange] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)
    compared: int = 0
    equal: int = 0
    qverify: str = __version__
    command: str = ""  # the command that produces this document again

    @property
    def exit_status(self) -> int:
        """The exit status: 0 same or better, 1 worse, 3 not known."""
        return EXIT[self.change]

    def to_json(self) -> dict[str, Any]:
        """Returns plain values that `json.dumps(allow_nan=False)` accepts."""
        document: dict[str, Any] = {"schema": SCHEMA} | plain(self)
        return document
