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
    """One of the two runs. source: the file or folder it was read from. tensors: rows of all its pairs."""

    source: str
    verdict: Verdict
    qverify: str
    date: str
    tensors: int


@dataclass(slots=True)
class FactChange:
    """What was not the same in the two runs: a model's or input's hash, an option, a version. None: not there."""

    what: str
    before: str | None
    now: str | None


@dataclass(slots=True)
class PairChange:
    """A pair's verdict in both runs; None where the run has no such pair. why_before, why_now: cause and reason."""

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
    """A side's first blamed node in both runs; None where the side is not to blame."""

    side: str
    before: str | None
    now: str | None


@dataclass(slots=True)
class MetricChange:
    """A number of one tensor in both runs. A metric is better or worse; other: neither is known to be."""

    metric: str
    before: Metric
    now: Metric
    direction: Direction


@dataclass(slots=True)
class TensorChange:
    """A compared tensor whose verdict or numbers changed. direction: by the verdict where that changed, else by the metrics
    where all agree, else other."""

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
    """Seconds that a node took on the board, or a step of the run on the host, in both runs; each of a single run."""

    of: Literal["node", "step"]
    name: str
    before: float | None
    now: float | None


@dataclass(slots=True, kw_only=True)
class ReportDifference:
    """Two runs, a before b. change: of the verdict: worse where the verdict of the run or of any pair is; not known where
    b lacks a pair that a has, where nothing is in both, or where FAILED became INCONCLUSIVE; better where one is better
    and none worse; else same. why: of a change that is worse or not known. caveats: what makes the two hard to compare, stated in the last line. compared: tensors in both runs.
    equal: those of them without any change."""

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
    command: str = ""  # that makes it again

    @property
    def exit_status(self) -> int:
        """0 same or better, 1 worse, 3 not known."""
        return EXIT[self.change]

    def to_json(self) -> dict[str, Any]:
        """Returns plain values that `json.dumps(allow_nan=False)` accepts."""
        document: dict[str, Any] = {"schema": SCHEMA} | plain(self)
        return document
