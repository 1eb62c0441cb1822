"""The results of triage, as plain dataclasses: the ladder's rungs, the loss of each tensor, what would restore the
output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from qverify import __version__
from qverify.report.clock import utc_text
from qverify.report.document import (
    EXIT,
    Blame,
    FirstDivergence,
    NetworkUnit,
    NotRun,
    Pair,
    ReportDocument,
    Verdict,
    plain,
)
from qverify.report.drawings import InputDrawing, TensorDrawing
from qverify.report.facts import Finding

SCHEMA = "qverify.triage/1"
VARYING = ("seconds", "node_seconds", "spot_seed", "temperature_c", "frequency_mhz")  # differ from run to run


def lasting_facts(side: dict[str, Any]) -> dict[str, Any]:
    """Returns a row of a report's `sides` without times and other values that differ from run to run."""
    settings = {name: value for name, value in side["settings"].items() if name not in VARYING}
    return {name: value for name, value in side.items() if name not in VARYING} | {"settings": settings}


@dataclass(slots=True)
class Stage:
    """One stage of the ladder. kind: float, fake-quantized, reference, dump, simulator, engine, board, application."""

    name: str
    kind: str
    source: str
    state: str = "complete"
    why: str = ""


@dataclass(slots=True)
class OutputRow:
    """A final output of two neighbouring stages, over all frames. Values are real; integers are dequantized.

    holds: whether it passes. judged: gate: by its gate; near: within half a step of the float, which passes; quiet: the
    float never reaches a whole step, so that the output is not judged; too_small: nothing can be concluded. largest:
    largest |a|. step: one LSB of b, if a is float and b quantized. norm_ratio: |b| / |a|."""

    name: str
    elements: int
    holds: bool
    max_abs: float
    cosine: float
    rmse: float
    sqnr_db: float
    judged: Literal["gate", "near", "quiet", "too_small"] = "gate"
    largest: float | None = None
    step: float | None = None
    norm_ratio: float = 1.0


@dataclass(slots=True)
class Neighbour:
    """A tensor beside a diverging one. mark: agree, differ, fails forced, given (input of the network), not known."""

    tensor: str
    op: str
    mark: str
    why: str = ""


@dataclass(slots=True)
class Neighbourhood:
    """A diverging tensor and its neighbours. at: the tensor. above: the tensors that its node reads. below: the tensors
    of the nodes that read it."""

    at: Neighbour
    above: list[Neighbour] = field(default_factory=list)
    below: list[Neighbour] = field(default_factory=list)


@dataclass(slots=True)
class Rung:
    """Two neighbouring stages. kind: kind of the evidence, which determines the advice. first_divergence: tensors that
    differ although everything their node reads agrees. neighbourhoods: the neighbours of these. forced: number of
    tensors that were recomputed from the other side's inputs. not_forced: number of tensors that could not be. caveats:
    reservations about a gate that passes; stated in the last line. arithmetics: as in Pair."""

    a: str
    b: str
    gate: str
    verdict: Verdict
    kind: str = ""
    why: str = ""
    outputs: list[OutputRow] = field(default_factory=list)
    first_divergence: FirstDivergence | None = None
    blame: Blame | None = None
    forced_failures: list[str] = field(default_factory=list)
    forced: int = 0
    not_forced: int = 0
    neighbourhoods: list[Neighbourhood] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    next_step: str = ""
    caveats: list[str] = field(default_factory=list)
    arithmetics: list[str] = field(default_factory=list)
    drawings: list[TensorDrawing] = field(default_factory=list, compare=False)  # tensors that differ; not in JSON


@dataclass(slots=True)
class SingleTensorLoss:
    """The final outputs if only this tensor and the weights of the node that computes it are quantized in the float
    model."""

    worst_output: str
    cosine: float
    sqnr_db: float


@dataclass(slots=True)
class TensorLoss:
    """One float tensor and its quantized counterpart, over all frames.

    sqnr_db, cosine, rmse: with the whole network quantized, so that losses accumulate. drop_db: SQNR that is lost
    between the inputs of its node and the tensor. clipped: share of the float elements outside the quantized range
    low..high. used: share of that range that the float tensor's range covers. step: one LSB (the smallest of several
    channels). weights_sqnr_db: SQNR of the weights of the node that computes it. channels_lost: share of their output
    channels below 20 dB. weights_one_scale: whether the weights have a single scale; null without weights."""

    tensor: str
    quantized: str
    node: str
    op: str
    paired_by: str
    sqnr_db: float
    cosine: float
    rmse: float
    drop_db: float | None
    low: float
    high: float
    float_low: float
    float_high: float
    clipped: float
    used: float
    step: float
    weights_sqnr_db: float | None = None
    weights_one_scale: bool | None = None
    channels_lost: float = 0.0
    single: SingleTensorLoss | None = None


@dataclass(slots=True)
class WhatIfStep:
    """The worst output if these tensors are left in float32 (which stands for 16 bit)."""

    tensors: list[str]
    worst_output: str
    cosine: float


@dataclass(slots=True)
class WhatIf:
    """The network with everything quantized except a few tensors. candidates: the most sensitive tensors; each step
    adds the best one. most: largest number of tensors at once. before: the worst output with no tensor left in float.
    holds: whether the gate passes after the last step."""

    candidates: list[str]
    most: int
    frames: int
    runs: int
    before: WhatIfStep
    steps: list[WhatIfStep] = field(default_factory=list)
    holds: bool = False


@dataclass(slots=True)
class Quiet:
    """A tensor that in no frame exceeds half a step of its own scale, or a final output that in no frame exceeds a
    whole step. output: whether it is a final output, which is then not judged. largest: largest |float|, in real
    values. step: one LSB, in real values. said: the same in words."""

    tensor: str
    output: bool
    largest: float
    step: float
    said: str


@dataclass(slots=True)
class MainJob:
    """The main job's verdict on the same run, with the same options. verdict: the worst of all pairs. pairs: every two
    sides of every frame, without the rows of their tensors. not_run: sides that did not take part."""

    verdict: Verdict
    pairs: list[Pair]
    not_run: list[NotRun] = field(default_factory=list)


@dataclass(slots=True)
class TriageDocument:
    """The results of triage. verdict: the worst of all rungs. broken: the first rung that fails, as `a ~ b`. next_step:
    advice for that rung. stages: the ladder. rungs: every two neighbouring stages. losses: losses of quantization, the
    most sensitive tensor first. what_if: the tensors that restore the output if they are left in float. quiet: tensors
    that are too small for their scale. unpaired: float tensors without a quantized counterpart, with the reason.
    unknown: facts that could not be determined. reduced: the smallest part of the model that still differs (--reduce).
    caveats: reservations about models and inputs, stated in the last line. qverify: version of qverify. date: time of
    the triage, UTC, ISO 8601. board: address of the board, or null without one. drafts: drafts of descriptions in TOML,
    by input. sides: the sides that ran on the first frame, as in the main job's report, without values that differ from
    run to run. units: the network, in running order. command: the command that produces this report again, without the
    options that write reports. findings: what the recorded values alone show, as in the main job's report. main_job: the
    main job's verdicts, null if it compares nothing."""

    verdict: Verdict
    broken: str | None
    next_step: str
    stages: list[Stage] = field(default_factory=list)
    rungs: list[Rung] = field(default_factory=list)
    losses: list[TensorLoss] = field(default_factory=list)
    what_if: WhatIf | None = None
    quiet: list[Quiet] = field(default_factory=list)
    unpaired: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    frames: list[str] = field(default_factory=list)
    inputs: list[dict[str, Any]] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    explained: list[Any] = field(default_factory=list)  # for the first frame in which the board is blamed
    reduced: dict[str, Any] | None = None
    caveats: list[str] = field(default_factory=list)
    qverify: str = __version__
    date: str = field(default_factory=utc_text, compare=False)
    board: str | None = None
    drafts: dict[str, str] = field(default_factory=dict)
    sides: list[dict[str, Any]] = field(default_factory=list)
    units: list[NetworkUnit] = field(default_factory=list)
    command: str = field(default="", compare=False)
    input_drawings: list[InputDrawing] = field(
        default_factory=list, compare=False
    )  # inputs of the worst frames; not in JSON
    findings: list[Finding] = field(default_factory=list)
    main_job: MainJob | None = None

    def take_run(self, report: ReportDocument) -> None:
        """Takes models, units and sides from a frame's report; the sides only from the first one."""
        self.models, self.units = report.models, report.units
        self.sides = self.sides or [lasting_facts(side) for side in report.sides]

    @property
    def exit_status(self) -> int:
        """0 PASSED, 1 FAILED, 3 INCONCLUSIVE."""
        return EXIT[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """Returns plain values that `json.dumps(allow_nan=False)` accepts (verifier/TRIAGE.md)."""
        document: dict[str, Any] = {"schema": SCHEMA} | plain(self)
        for row in document["explained"]:  # it differs from run to run; timings has the times
            (row["explanation"] or {}).pop("seconds", None)
        return document
