"""ReportDocument and its parts: the results of a run, as plain dataclasses; report_json makes the published document."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from qverify import __version__
from qverify.report.channels import ChannelErrors, RoleRow
from qverify.report.checks import CheckResult, ShapeResult
from qverify.report.clock import utc_text
from qverify.report.distance import Distance
from qverify.report.drawings import InputDrawing, TaskPicture, TensorDrawing
from qverify.report.facts import Finding, FusedRegion, NamedCause
from qverify.report.sequence import Feed, SequenceFacts
from qverify.report.spread import SpreadRun

SCHEMA = "qverify.report/1"
Verdict = Literal["PASSED", "FAILED", "INCONCLUSIVE"]
EXIT: dict[str, int] = {"PASSED": 0, "FAILED": 1, "INCONCLUSIVE": 3}
Metric = int | float | None | dict[str, int]
DRAWN = {
    "drawings",
    "input_drawings",
    "picture",
}  # fields that only pages show; the JSON document does not contain them
_FIELD_NAMES = dict[Any, tuple[str, ...]]()


def worst(verdicts: list[Verdict]) -> Verdict:
    """Returns the worst verdict, in the order FAILED, INCONCLUSIVE, PASSED; INCONCLUSIVE for an empty list."""
    for verdict in ("FAILED", "INCONCLUSIVE", "PASSED"):
        if verdict in verdicts:
            return verdict
    return "INCONCLUSIVE"


@dataclass(slots=True)
class Blame:
    """A blamed side. side: board, compiler (including its arithmetic), simulator or reference; A or B of two dumps. node:
    name of the first blamed unit, or, for a side that is not qvrt, of the first one that differs by more than a
    rounding. why: the evidence. also: the other nodes at which this side is to blame, in running order. region: the
    nodes that were recomputed as one, if the fault lies between two tensors and not at a single node; `node` is then
    the last of them. cause: known faults that give the recorded bytes of the node, for a side that is not qvrt; null if
    none does, or chance could."""

    side: str
    node: str
    why: str
    also: list[str] = field(default_factory=list)
    region: FusedRegion | None = None
    cause: NamedCause | None = None

    @property
    def place(self) -> str:
        """The place of the fault in words: at a node, or between two tensors."""
        return f"at {self.node}" if self.region is None else self.region.place


@dataclass(slots=True)
class MissingTensor:
    """A tensor that a side lacks, and the reason."""

    tensor: str
    side: str
    why: str


@dataclass(slots=True)
class Coverage:
    """The coverage ledger of a pair. expected: number of expected tensors. compared: number of compared tensors.
    missing: expected tensors that were not compared; a pair with any is never PASSED. elements: number of compared
    elements. not_offered: tensors that only one side declares, which are not expected. by_digest: number of compared
    elements whose bytes one side did not send, so that only digests show that they are equal."""

    expected: int = 0
    compared: int = 0
    missing: list[MissingTensor] = field(default_factory=list)
    elements: int = 0
    not_offered: list[MissingTensor] = field(default_factory=list)
    by_digest: int = 0


@dataclass(slots=True)
class Forced:
    """The forced verdict of one tensor: side `by` ran its unit on the inputs that side `on` recorded, and the result is
    compared with the output that `on` recorded. Numbers are null if nothing was computed. max_lsb: largest difference
    in LSB; null for floats. limit: the limit in words. not_judged: number of elements for which `by`, the reference,
    has no meaningful value, because its float32 intermediates overflow or underflow; there `on` was compared with the
    exact value only. sqnr_db, cosine: of the computed and the recorded values; null if their bytes are equal, or
    nothing was computed. unexplained: number of elements at which a runtime other than qvrt must not differ.
    arithmetics: the arithmetics that give every recorded element, of such a runtime. at_fault: the side whose elements
    are not those of the exact value, of a pair with such a runtime; else "". region: the nodes that were recomputed as
    one, if `on` gives no tensor between them."""

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
    arithmetics: list[str] = field(default_factory=list)
    at_fault: str = ""
    region: FusedRegion | None = None


@dataclass(slots=True)
class TensorRow:
    """One compared tensor of one pair. metrics: by name (max_abs, cosine, ...), flattened into the row in JSON.
    failing: number of elements that do not match by the decimals rule. beyond: number of elements that differ by more
    than atol + rtol*|a|; null without such a gate. bit_equal: whether both sides have the same bytes. channels: the errors by
    channel; null if the bytes are equal, or there are fewer than two channels. roles: of an output whose description names
    roles of its channels."""

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
    node_by_node: bool = False  # true if it passed because its nodes pass when recomputed, not by the gate
    reference_spread: float | None = None  # largest |a-b| among the reference's permitted settings, in real values
    beyond: int | None = None
    stated: dict[str, str] = field(default_factory=dict)  # printed values of the vendor's own table, by its column
    channels: ChannelErrors | None = None
    roles: list[RoleRow] = field(default_factory=list)
    reference_spread_by: str | None = None  # the interpreter with this spread: onnxruntime VERSION on MACHINE


@dataclass(slots=True)
class Agreement:
    """The share of batch items (0..1) that have the largest value (arg_max), or the five largest values (top5), at the
    same positions on both sides; null if not defined."""

    output: str
    arg_max: float | None
    top5: float | None


@dataclass(slots=True)
class FirstDivergence:
    """The first tensor, in running order, that differs although everything its unit reads agrees. also: the units of
    the other such tensors. region: the nodes before the tensor that a side gives only together."""

    tensor: str
    node: str
    op: str
    also: list[str] = field(default_factory=list)
    region: FusedRegion | None = None

    @property
    def what(self) -> str:
        """The operator that computes the tensor, or the region that ends with it, in words."""
        return self.op if self.region is None else self.region.place


@dataclass(slots=True)
class NodeByNode:
    """Tensors that were judged by recomputing every node before them from the recorded inputs: they come after a node
    with a float reference, or from a board with documented kernels. tensors: number of them. max_lsb: largest
    free-running difference in LSB; null without integers. max_abs: largest free-running difference in real values.
    kernels: the board's documented kernels in words, or "" without any."""

    tensors: int
    max_lsb: int | None
    max_abs: float | None
    kernels: str = ""


@dataclass(slots=True)
class OtherDifferences:
    """Tensors outside the scope whose bytes are known to differ. tensors: number of them. first: name of the first.
    recomputed: whether each agrees when recomputed from the recorded inputs."""

    tensors: int
    first: str
    recomputed: bool


@dataclass(slots=True)
class NotJudged:
    """Elements of a tensor for which the reference has no meaningful value; those of the other side were compared with
    the exact value only. elements: number of such elements. of: number of all elements."""

    tensor: str
    elements: int
    of: int
    why: str


@dataclass(slots=True)
class NetworkUnit:
    """One unit of the network. node: its name. op: its operator. covers: the nodes of the original ONNX that it stands
    for. inputs: the tensors that it reads, without constants. outputs: the tensors that it computes."""

    node: str
    op: str
    covers: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


@dataclass(slots=True)
class UntappedOutputs:
    """The final outputs of the board's run of the user's unchanged model, judged beside those of the run whose inner
    tensors were read (its taps). changed: number of elements of them whose bytes differ between the two runs; null if
    the unchanged model did not run. elements: number of all their elements. verdict: of the outputs of the unchanged
    model, by the pair's gate. why: the reason, if it is not PASSED. level: the lowest optimization level of the runtime
    at which they begin to differ, "" if it is not known. optimizers: the optimizers of that level that change them."""

    changed: int | None
    elements: int
    verdict: Verdict
    why: str = ""
    level: str = ""
    optimizers: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Pair:
    """Two sides, compared on one frame. a, b: the sides. cause: reason of a verdict that is not PASSED: node, region,
    accumulated_rounding, other_rounding, input_or_first_node, written_order, other_inputs, stated_scale, untapped, distance, coverage ... why: the same in words. bit_equal: whether all compared tensors have the same
    bytes. gate: the criteria, in words. scope: the tensors that they apply to. frame: number of the frame, from 0.
    board: address of the board if the run had several. coverage: tensors that were expected, compared and missing.
    first_divergence: the first tensor that differs. tensors: one row for each compared tensor. agreement: agreement of
    the largest values of the final outputs. notes: further facts for the reader. relaxed: the ways in which the pair
    was judged less strictly than by default; stated in the verdict line. node_by_node: tensors that were judged by
    recomputing. others: differences outside the scope. not_judged: elements without a meaningful reference value.
    same_bytes: for tensors without a row, whether both sides have the same bytes, if known. arithmetics: lines on the
    arithmetics that give every byte of a side that is not qvrt. untapped: the final outputs of the unchanged model, if
    the board ran another one with taps; else null. feed: of a step of a sequence, whose state all sides got: forced
    (the reference's), free-running (that of the tested side), both (they are the same bytes); else ""."""

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
    arithmetics: list[str] = field(default_factory=list)
    untapped: UntappedOutputs | None = None
    feed: Feed = ""
    drawings: list[TensorDrawing] = field(default_factory=list, compare=False)  # if requested; not in JSON


@dataclass(slots=True)
class NotRun:
    """A side that did not take part, and the reason."""

    side: str
    why: str


@dataclass(slots=True)
class TaskSide:
    """A side's task numbers. frames: number of frames for which it has a value. values: by name (top-1, top-5, a
    metric), the mean over those frames, or the share of right frames (0 to 1) if the metric classifies frames as right
    or wrong."""

    side: str
    frames: int
    values: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class TaskBox:
    """A box of a frame. side: label, reference, simulator or board. x1, y1, x2, y2: corners in pixels of the picture. score: 1
    of labels. category: its name."""

    side: str
    x1: float
    y1: float
    x2: float
    y2: float
    score: float
    category: str


@dataclass(slots=True)
class TaskFrame:
    """A frame that only the board has wrong, or on which it is worse than every side of the host. label: its label, or ""
    without one. answers: by side, the class that it found, right or wrong, or its number on this frame. boxes: of a
    detector, the labels', the reference's (or the simulator's) and the board's, at most 60 of each."""

    frame: int
    source: str
    label: str
    answers: dict[str, str] = field(default_factory=dict)
    boxes: list[TaskBox] = field(default_factory=list)
    picture: TaskPicture | None = field(default=None, compare=False)  # not in JSON


@dataclass(slots=True)
class TaskGateRow:
    """What a gate of the task finds. gate: as it was given. side: that it holds. value: of the side; null if it is not defined.
    limit: in the metric's unit; null if there is none, because the side that it is a part of has no value. why: the reason, if
    the verdict is not PASSED."""

    gate: str
    side: str
    value: float | None
    limit: float | None
    verdict: Verdict
    why: str = ""


@dataclass(slots=True)
class BlamedRole:
    """The channels of an output that cost a board its task: the board's outputs with the reference's values of these channels
    have most of the loss back. side: the board. output, role: which channels; role is "" for all of the output. metric: the
    number. reference, board, restored: its values of the reference, of the board, and of the board with the reference's values
    of this role. channels: those with the largest errors in words, or "". shares: where no role alone, with the reference's
    values of all others, misses the gate, the share of the loss that each makes alone, by name (OUTPUT.ROLE); output and role
    are then ""."""

    side: str
    output: str
    role: str
    metric: str
    reference: float
    board: float
    restored: float
    channels: str = ""
    shares: dict[str, float] = field(default_factory=dict)

    def sentence(self) -> str:
        """Returns what is to blame in words."""
        if self.shares:
            parts = sorted(self.shares.items(), key=lambda share: -share[1])
            said = ", ".join(f"{name} {share * 100:.3g} %" for name, share in parts if share > 0)
            return (
                f"no role alone misses the gate, together they do: {self.metric} of the board is {self.board:.6g}, of the "
                f"reference {self.reference:.6g}; share of the loss that each makes alone: {said}"
            )
        name = f"role {self.role} of {self.output}" if self.role else f"output {self.output}"
        more = f" ({self.channels})" if self.channels else ""
        return (
            f"{name} is to blame{more}: with the reference's values of it, {self.metric} of the board is {self.restored:.6g} "
            f"instead of {self.board:.6g}"
        )


@dataclass(slots=True)
class TaskNumbers:
    """The performance of the sides at the network's task (--task, --labels, --task-metric); part of a verdict only by gates.
    metric: the task, or the name of the user's metric. labels: name of the file with labels, or "" without one. output:
    the output whose largest values are the classes, or "" for a user's metric. frames: number of frames that ran.
    sides: float (if its model was given), reference, simulator, board. only_board_wrong: the frames that the board has
    wrong and every other side right. right_or_wrong: whether the metric classifies frames as right or wrong. board:
    address of the board, or null without one. task: KIND of --task, or "" without it. decoder: the decoder, or "". gates:
    what the gates of the task find, by which the verdict is decided. blamed: the role of the outputs that costs a board most,
    if a gate was missed and one does."""

    metric: str
    labels: str
    output: str
    frames: int
    sides: list[TaskSide] = field(default_factory=list)
    only_board_wrong: list[TaskFrame] = field(default_factory=list)
    right_or_wrong: bool = True
    notes: list[str] = field(default_factory=list)
    board: str | None = None
    task: str = ""
    decoder: str = ""
    gates: list[TaskGateRow] = field(default_factory=list)
    blamed: list[BlamedRole] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ReportDocument:
    """The results of a run. verdict: the worst of all pairs. blame: the first side and node to blame. decimals: digits
    and rule. pairs: every two sides that took part, for every frame and board. blamed: every side to blame, with its
    first node. inputs: the inputs that all sides received. models: the files of -m. sides: the sides that ran, with
    engine and settings; of a board that reports times also node_seconds, the seconds that each node took in this run,
    by name. plain_onnxruntime: the original ONNX on default settings, compared with the reference; never judged.
    no_integer_reference: nodes that onnxruntime computes in float. on_host: nodes that the host computed for every
    side, so that they are not verified. canary: kernels of this host's onnxruntime that compute wrong values. link:
    bytes and frames that the link transferred. timings: seconds by step. notes: further facts for the reader. dump_all:
    whether every node was judged (-r). qverify: version of qverify. date: time of the verdict, UTC, ISO 8601. boards:
    addresses of the boards that took part. drafts: drafts of descriptions in TOML, by input (INPUTS.md section 8).
    criteria: the vendor whose thresholds are used (--criteria), or "". units: the network, in running order; empty
    without a model. command: the command that produces this report again, without the options that write reports; "" if
    no command produced it. tasks: results of --labels or --task-metric, one for each board. frames: the frames, if
    there were several. reference_spread: results of --reference-spread, those of this interpreter first. findings: what
    the recorded values alone show, frozen outputs first. distance: how far sides whose arithmetic is stated
    (--arithmetic) lie from the reference, which no verdict depends on unless a gate was given. sequence: of --steps, whose
    steps are `frames`; else null. facts: what the user states about the run (--fact), such as firmware and toolchain, and what the
    board's file was built with (FILE.built.json); those of a board of boards.toml are the `tags` of its side. environment: variables of this
    host's process that change how its libraries compute. checks: results of --check, of each board. shapes: of
    several shapes of --shape, a row each, whose numbers are those of `frames`; empty without."""

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
    caveats: list[str] = field(default_factory=list)  # stated in every verdict line; JSON has those of each line, too
    repeat: dict[str, Any] | None = None  # results of --repeat: runs, unstable tensors
    frames: list[dict[str, Any]] = field(default_factory=list)
    reference_spread: list[SpreadRun] = field(default_factory=list)
    qverify: str = __version__
    date: str = field(default_factory=utc_text, compare=False)
    boards: list[str] = field(default_factory=list)
    drafts: dict[str, str] = field(default_factory=dict)
    criteria: str = ""
    units: list[NetworkUnit] = field(default_factory=list)
    command: str = field(default="", compare=False)
    input_drawings: list[InputDrawing] = field(default_factory=list, compare=False)  # like Pair.drawings
    tasks: list[TaskNumbers] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    distance: list[Distance] = field(default_factory=list)
    sequence: SequenceFacts | None = None
    facts: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    checks: list[CheckResult] = field(default_factory=list)
    shapes: list[ShapeResult] = field(default_factory=list)

    @property
    def exit_status(self) -> int:
        """The exit status: 0 PASSED, 1 FAILED, 3 INCONCLUSIVE."""
        return EXIT[self.verdict]


def plain(value: Any) -> Any:
    """Returns a copy with dataclasses as dicts, and non-finite numbers as text."""
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
    """Returns the names of the fields of a dataclass that the JSON document contains."""
    if kind not in _FIELD_NAMES:
        _FIELD_NAMES[kind] = tuple(f.name for f in fields(kind) if f.name not in DRAWN)
    return _FIELD_NAMES[kind]
