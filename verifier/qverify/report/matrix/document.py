"""MatrixDocument and its parts: the cells of many runs, and what changed between them, as plain dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from qverify import __version__
from qverify.report.difference import FactChange
from qverify.report.document import TaskNumbers, Verdict, plain

SCHEMA = "qverify.report_matrix/1"
Kind = Literal["verdict", "blame", "numbers"]
Outcome = Literal["same", "changed", "not known"]
EXIT: dict[str, int] = {"same": 0, "changed": 1, "not known": 3}


@dataclass(slots=True)
class WorstTensor:
    """The tensor of a run that differs most between the pair's sides: one that FAILED before others, then by the smallest SQNR,
    then by the largest difference. pair: the two sides. tensors: number of tensors compared, differing: number of
    rows whose bytes differ, of these two sides in all frames. Numbers are null if they are not defined."""

    tensor: str
    node: str
    op: str
    pair: str
    verdict: Verdict
    max_abs: float | None = None
    max_lsb: float | None = None
    cosine: float | None = None
    sqnr_db: float | None = None
    mismatched: int | None = None
    elements: int = 0
    tensors: int = 0
    differing: int = 0


@dataclass(slots=True)
class StoredRun:
    """One run on one board (or on none). source: the file, folder or job that it is from. date: time of the verdict, ISO 8601, ""
    if it is not known. facts: what rows and columns are made of, by name. stack: everything that its results may depend on, by
    name. verdict: null if it has none. blame: side and node to blame, "" without. equal: whether the sides compared have the same
    bytes. seconds: those that the board's nodes took, or its whole run if the nodes are not timed; null if neither is known. gate:
    the criteria of its pairs with the board, in words."""

    source: str
    date: str
    facts: dict[str, str]
    stack: dict[str, str]
    verdict: Verdict | None
    why: str = ""
    blame: str = ""
    equal: bool = False
    worst: WorstTensor | None = None
    tasks: list[TaskNumbers] = field(default_factory=list)
    seconds: float | None = None
    caveats: list[str] = field(default_factory=list)
    link: str = ""
    gate: str = ""


@dataclass(slots=True)
class CellChange:
    """What changed in a row, from the column before that has a run of the same subject. kind: the verdict, the node to blame, or
    only numbers. before_column: number of that column. before, now: the outcome in words. facts: what differs between the
    two stacks, without the facts that columns are made of; a fact that only one of the two states is not known to differ. excluded:
    what differs, too, and is not the cause: elsewhere in the row the same value goes with the other outcome."""

    kind: Kind
    before_column: int
    before: str
    now: str
    facts: list[FactChange] = field(default_factory=list)
    excluded: list[FactChange] = field(default_factory=list)


@dataclass(slots=True)
class MatrixCell:
    """The runs of one row and column. row, column: their numbers, from 0. verdict: the worst of its subjects (model, inputs and
    board, as far as rows and columns do not tell them apart), each by its newest run; null if that run has none. source, date, link,
    blame, why, worst, tasks, seconds, equal, caveats, gate: of the run that decided. runs: number of runs. sources: where each is from, the newest of each subject first. subjects: number of subjects.
    disagree: what other runs of this cell gave, in words, if not all gave the same verdict. change: from the column before; null
    without one. stack: number of its stack in the document's list."""

    row: int
    column: int
    verdict: Verdict | None
    source: str
    date: str
    why: str = ""
    blame: str = ""
    equal: bool = False
    worst: WorstTensor | None = None
    tasks: list[TaskNumbers] = field(default_factory=list)
    seconds: float | None = None
    caveats: list[str] = field(default_factory=list)
    link: str = ""
    gate: str = ""
    runs: int = 1
    sources: list[str] = field(default_factory=list)
    subjects: int = 1
    disagree: list[str] = field(default_factory=list)
    change: CellChange | None = None
    stack: int = 0


@dataclass(slots=True)
class MatrixRow:
    """A row. name: its facts in words. facts: by name. verdicts: whether the verdict is the same in every column: same,
    changed, or not known (a cell without a verdict, runs that disagree, or no run in the last column). changed: number of the first column in which the
    verdict changed; null if it did not. differs: number of the first column in which anything changed (verdict, blame or
    numbers)."""

    name: str
    facts: dict[str, str]
    verdicts: Outcome = "same"
    changed: int | None = None
    differs: int | None = None


@dataclass(slots=True)
class MatrixColumn:
    """A column. changed: number of rows in which the verdict changed here; differs: in which anything did. stack: what differs
    from the column before in the stack of every row that has both. partly: what differs in some of these rows only, or
    differently."""

    name: str
    facts: dict[str, str]
    changed: int = 0
    differs: int = 0
    stack: list[FactChange] = field(default_factory=list)
    partly: list[FactChange] = field(default_factory=list)


@dataclass(slots=True)
class UnreadableRun:
    """A file that could not be read (--skip-unreadable), and the reason."""

    source: str
    why: str


@dataclass(slots=True, kw_only=True)
class MatrixDocument:
    """Many runs as rows and columns. verdicts: whether every row keeps its verdict: same, changed, or not known; why: the
    reason of the last two. rows_by, columns_by: the facts that they are made of. cells: those with a run, by row and column. stacks: what the cells' results may depend on, by name. runs:
    number of runs. unreadable: what could not be read. notes: further facts for the reader."""

    verdicts: Outcome
    why: str
    rows_by: list[str]
    columns_by: list[str]
    rows: list[MatrixRow] = field(default_factory=list)
    columns: list[MatrixColumn] = field(default_factory=list)
    cells: list[MatrixCell] = field(default_factory=list)
    stacks: list[dict[str, str]] = field(default_factory=list)
    runs: int = 0
    unreadable: list[UnreadableRun] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    qverify: str = __version__
    command: str = ""  # the command that produces this document again

    @property
    def exit_status(self) -> int:
        """The exit status: 0 every row keeps its verdict, 1 one changed, 3 not known."""
        return EXIT[self.verdicts]

    def to_json(self) -> dict[str, Any]:
        """Returns plain values that `json.dumps(allow_nan=False)` accepts."""
        document: dict[str, Any] = {"schema": SCHEMA} | plain(self)
        return document
