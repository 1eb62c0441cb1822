"""Report and its parts: the results of a run, as plain dataclasses; `to_json` makes the published document."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from qverify import __version__
from qverify.report.clock import utc_text
from qverify.report.drawings import InputDrawing, TensorDrawing
from qverify.report.spread import SpreadRun

SCHEMA = "qverify.report/1"
Verdict = Literal["PASSED", "FAILED", "INCONCLUSIVE"]
EXIT: dict[str, int] = {"PASSED": 0, "FAILED": 1, "INCONCLUSIVE": 3}
Metric = int | float | None | dict[str, int]
DRAWN = {"drawings", "input_drawings"}  # fields for people's eyes, which the document leaves out
_WRITTEN = dict[Any, tuple[str, ...]]()


def worst(verdicts: list[Verdict]) -> Verdict:
    """Returns the worst verdict, in the order FAILED, INCONCLUSIVE, PASSED; INCONCLUSIVE for none at all."""
    for verdict in ("FAILED", "INCONCLUSIVE", "PASSED"):
        if verdict in verdicts:
            return verdict
    return "INCONCLUSIVE"


@dataclass(slots=True)
class Blame:
    """A blamed side. side: board, compiler (its arithmetic included), simulator or reference. node: the first blamed
    unit's name. why: the evidence. also: the other nodes where this side is to blame, in running order."""

    side: str
    node: str
    why: str
    also: list[str] = field(default_factory=list)


@dataclass(slots=True)
class MissingTensor:
    """A tensor that a side lacks, and why."""

    tensor: str
    side: str
    why: str


@dataclass(slots=True)
class Coverage:
    """The coverage ledger of a pair. expected, compared: tensors. missing: expected but not compared, so never PASSED.
    elements: compared. not_offered: declared by one side only, not expected. by_digest: those of the elements whose
    bytes one side did not send, so that they are known to be equal by digest only."""

    expected: int = 0
    compared: int = 0
    missing: list[MissingTensor] = field(default_factory=list)
    elements: int = 0
    not_offered: list[MissingTensor] = field(default_factory=list)
    by_digest: int = 0


@dataclass(slots=True)
class Forced:
    """The forced verdict of one tensor: side `by` ran its unit on the inputs that side `on` recorded, and the result is
    compared with the output that `on` recorded. max_lsb: None for floats. limit: in words. Numbers are None where
    nothing was computed. not_judged: elements for which `by`, the reference, has no meaningful value, because its float32
    intermediates overflow or underflow; there `on` was compared with the exact value alone. sqnr_db, cosine: of the
    computed and the recorded values; None where they have the same bytes, or nothing was computed. unexplained: elements
    that differ within the limit, but where the documented kernels of the board may not differ."""

    verdict: Verdict
    max_lsb: int | None
    mismatched: int | None
    max_abs: float | None = None
    elements: int = 0
    limit: str = ""
    by: str = ""
    on: str = ""
    why: str = ""
    not_judged: int = 0
    sqnr_db: float | None = None
    cosine: float | None = None
    unexplained: int = 0


@dataclass(slots=True)
class TensorRow:
    """One compared tensor of one pair. metrics: by name (max_abs, cosine, ...), flattened into the row in JSON.
    failing: number of elements that do not match by the decimals rule. beyond: those beyond atol + rtol*|a|, None
    without such a gate. bit_equal: same bytes on both sides."""

    name: str
    node: str
    op: str
    covers: list[str]
    dtype: str
    shape: list[int]
    verdict: Verdict
    digests_equal: bool | None
    bit_equal: bool
    elements: int
    final: bool
    integer_reference: bool
    metrics: dict[str, Metric] = field(default_factory=dict)
    failing: int | None = None
    forced: Forced | None = None
    why: str = ""
    node_by_node: bool = False  # it passed because its nodes pass when recomputed, not by the gate
    reference_spread: float | None = None  # max |a-b| among the reference's own legitimate settings, real values
    beyond: int | None = None
    reference_spread_by: str | None = None  # the interpreter that had it: onnxruntime VERSION on MACHINE


@dataclass(slots=True)
class Agreement:
    """Share of batch items (0..1) whose largest value, and whose five largest values, are at the same positions; None
    where not defined."""

    output: str
    arg_max: float | None
    top5: float | None


@dataclass(slots=True)
class FirstDivergence:
    """The first tensor, in running order, that differs while everything its unit reads agrees. also: the units of the
    others."""

    tensor: str
    node: str
    op: str
    also: list[str] = field(default_factory=list)


@dataclass(slots=True)
class NodeByNode:
    """Tensors after a node whose reference is float, or of a board with documented kernels, judged by recomputing every
    node before them from the recorded inputs. tensors: how many. max_lsb, max_abs: the largest difference free-running, in
    LSB (None without integers) and in real values. kernels: of the board, in words, "" for the former."""

    tensors: int
    max_lsb: int | None
    max_abs: float | None
    kernels: str = ""


@dataclass(slots=True)
class OtherDifferences:
    """Tensors outside the scope whose bytes are known to differ. tensors: how many. recomputed: each agrees when
    recomputed from the recorded inputs."""

    tensors: int
    first: str
    recomputed: bool


@dataclass(slots=True)
class NotJudged:
    """Elements of a tensor for which the reference has no meaningful value; the other side's were compared with the exact
    value alone. elements: how many, of how many."""

    tensor: str
    elements: int
    of: int
    why: str


@dataclass(slots=True)
class NetworkUnit:
    """One unit of the network. node: its name. op. covers: the nodes of the original ONNX that it stands for. inputs: the
    tensors it reads, constants left out. outputs: those it computes."""

    node: str
    op: str
    covers: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Pair:
    """Two sides, compared over one frame. a, b: the sides. cause: of a verdict that is not PASSED: node,
    accumulated_rounding, coverage ... why: the same for people. bit_equal: every compared tensor has the same bytes.
    gate: the criteria, in words. scope: the tensors they apply to. frame: its number, from 0. board: its address, where
    the run had several. coverage: what was expected, compared, missing. first_divergence: the first tensor that
    differs. tensors: one row for each compared one. agreement: of the final outputs' largest values. notes: further
    facts for the reader. relaxed: the ways in which the pair was judged more mildly than by default; stated in the
    verdict line. node_by_node: what was judged by recomputing. others: differences outside the scope. not_judged: elements
    without a meaningful reference value. same_bytes: of the tensors without a row, whether both sides have the same bytes,
    where that is known."""

    a: str
    b: str
    verdict: Verdict
    cause: str | None = None
    why: str = ""
    bit_equal: bool = False
    gate: str = ""
    scope: str = "final outputs"
    frame: int = 0
    board: str | None = None
    coverage: Coverage = field(default_factory=Coverage)
    first_divergence: FirstDivergence | None = None
    tensors: list[TensorRow] = field(default_factory=list)
    agreement: list[Agreement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    relaxed: list[str] = field(default_factory=list)
    node_by_node: NodeByNode | None = None
    others: OtherDifferences | None = None
    not_judged: list[NotJudged] = field(default_factory=list)
    same_bytes: dict[str, bool] = field(default_factory=dict)
    drawings: list[TensorDrawing] = field(default_factory=list, compare=False)  # what was asked for; not in JSON


@dataclass(slots=True)
class NotRun:
    """A side that took no part, and why."""

    side: str
    why: str


@dataclass(slots=True)
class TaskSide:
    """A side's task numbers. frames: how many of the run's it has a value for. values: by name (top-1, top-5, a metric),
    the mean over those frames; a share from 0 to 1 of the frames that are right, where the metric says right or wrong."""

    side: str
    frames: int
    values: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class TaskFrame:
    """A frame that the board alone has wrong. label: as given, "" without one. answers: by side, the class it found, or
    right or wrong."""

    frame: int
    source: str
    label: str
    answers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class TaskNumbers:
    """What the sides are worth at the network's task (--labels, --task-metric); never part of a verdict. metric:
    classification, or as given. labels: the file's name, "" without one. output: of which classes were taken, "" for a
    metric of the user's. frames: how many ran. sides: float, where its model was given, reference, simulator, board.
    only_board_wrong: the frames that the board has wrong and every other side right. right_or_wrong: whether the metric
    tells that of a frame. board: its address, null without one."""

    metric: str
    labels: str
    output: str
    frames: int
    sides: list[TaskSide] = field(default_factory=list)
    only_board_wrong: list[TaskFrame] = field(default_factory=list)
    right_or_wrong: bool = True
    notes: list[str] = field(default_factory=list)
    board: str | None = None


@dataclass(slots=True, kw_only=True)
class Report:
    """The results of a run. verdict: the worst of all pairs. blame: the first side and node to blame. decimals: digits
    and rule. pairs: every two sides that took part, of every frame and board. blamed: every side to blame, each with
    its first node. inputs: the bytes that all sides were given. models: the files of -m. sides: what ran, with engine
    and settings; of a board that told them also node_seconds: what each node took in this run, by its name. plain_onnxruntime: the original ONNX on default settings compared with the reference; never judged.
    no_integer_reference: nodes that onnxruntime computes in float. on_host: nodes that the host computed for
    every side, so that nothing of them is verified. canary: kernels of this host's onnxruntime that
    compute wrong values. link: bytes and frames that crossed it. timings: seconds by step. notes: further facts for the
    reader. dump_all: every node was judged (-r). qverify: its version. date: when it was judged, UTC, ISO 8601. boards: the
    addresses of the boards that took part. drafts: TOML of the descriptions to write, by input (INPUTS.md section 8). criteria: the vendor
    whose thresholds the gates are (--criteria), or "". units: the network, in running order; empty where no model was given.
    command: the one that makes this report again, without the options of reports; "" where no command made it. tasks: of
    --labels or --task-metric, one for each board."""

    verdict: Verdict
    blame: Blame | None
    decimals: dict[str, Any]
    pairs: list[Pair]
    blamed: list[Blame] = field(default_factory=list)
    inputs: list[dict[str, Any]] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=list)
    sides: list[dict[str, Any]] = field(default_factory=list)
    not_run: list[NotRun] = field(default_factory=list)  # stated in every verdict line
    plain_onnxruntime: dict[str, Any] = field(default_factory=dict)
    no_integer_reference: list[dict[str, Any]] = field(default_factory=list)
    on_host: list[dict[str, Any]] = field(default_factory=list)
    canary: dict[str, Any] = field(default_factory=dict)
    link: dict[str, int] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    dump_all: bool = False
    caveats: list[str] = field(default_factory=list)  # stated in every verdict line
    repeat: dict[str, Any] | None = None  # of --repeat: runs, unstable tensors
    frames: list[dict[str, Any]] = field(default_factory=list)  # where there were several: source, verdict, worst
    reference_spread: list[SpreadRun] = field(default_factory=list)  # of --reference-spread: this interpreter first
    qverify: str = __version__
    date: str = field(default_factory=utc_text, compare=False)
    boards: list[str] = field(default_factory=list)
    drafts: dict[str, str] = field(default_factory=dict)
    criteria: str = ""
    units: list[NetworkUnit] = field(default_factory=list)
    command: str = field(default="", compare=False)
    input_drawings: list[InputDrawing] = field(default_factory=list, compare=False)  # like Pair.drawings
    tasks: list[TaskNumbers] = field(default_factory=list)

    @property
    def exit_status(self) -> int:
        """0 PASSED, 1 FAILED, 3 INCONCLUSIVE."""
        return EXIT[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """Returns the document as plain values (see to_json below)."""
        return to_json(self)


def to_json(report: Report) -> dict[str, Any]:
    """Returns the document as plain values that `json.dumps(allow_nan=False)` accepts, with each row's metrics in the
    row."""
    document: dict[str, Any] = {"schema": SCHEMA} | plain(report)
    return document


def plain(value: Any) -> Any:
    """Returns a copy with dataclasses as dicts, and numbers that are not finite as text."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, TensorRow):
        row = {name: plain(getattr(value, name)) for name in _written(kind) if name != "metrics"}
        return row | {name: plain(metric) for name, metric in value.metrics.items()}
    if is_dataclass(value):
        return {name: plain(getattr(value, name)) for name in _written(kind)}
    if isinstance(value, (bool, int, str)):
        return value
    return value.item() if hasattr(value, "item") else str(value)


def _written(kind: Any) -> tuple[str, ...]:
    """Returns the fields of a dataclass that the document has."""
    if kind not in _WRITTEN:
        _WRITTEN[kind] = tuple(f.name for f in fields(kind) if f.name not in DRAWN)
    return _WRITTEN[kind]
