"""The results of triage, as plain dataclasses: the ladder's rungs, the loss of each tensor, what would restore the
output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from qverify import __version__
from qverify.report.clock import utc_text
from qverify.report.document import EXIT, Blame, FirstDivergence, NetworkUnit, Report, Verdict, plain
from qverify.report.drawings import InputDrawing, TensorDrawing

SCHEMA = "qverify.triage/1"


VARYING = ("seconds", "node_seconds", "spot_seed", "temperature_c", "frequency_mhz")


def lasting_facts(side: dict[str, Any]) -> dict[str, Any]:
    """Returns a row of a report's `sides` without times and what else changes from run to run."""
    settings = {name: value for name, value in side["settings"].items() if name not in VARYING}
    return {name: value for name, value in side.items() if name not in VARYING} | {"settings": settings}


@dataclass(slots=True)
class Stage:
    """One stage of the ladder. kind: float, fake-quantized, reference, dump, simulator, board, application."""

    name: str
    kind: str
    source: str
    state: str = "complete"
    why: str = ""


@dataclass(slots=True)
class OutputRow:
    """A final output of two neighbouring stages, over all frames. Real values: dequantized where they are integers.

    judged: gate: by its gate; near: within half a step of the float, which passes; quiet: the float never reaches a
    whole step, so it is not judged; too_small: nothing can be concluded. largest: |a|. step: one LSB of b, where a is
    float and b quantized."""

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


@dataclass(slots=True)
class Neighbour:
    """A tensor beside a diverging one. mark: agree, differ, fails forced, given (input of the network), not known."""

    tensor: str
    op: str
    mark: str
    why: str = ""


@dataclass(slots=True)
class Neighbourhood:
    """A diverging tensor, the tensors its node reads (above), and those of the nodes that read it (below)."""

    at: Neighbour
    above: list[Neighbour] = field(default_factory=list)
    below: list[Neighbour] = field(default_factory=list)


@dataclass(slots=True)
class Rung:
    """Two neighbouring stages. kind: of the evidence, as in advice. first_divergence: tensors that differ while
    everything their node reads agrees. neighbourhoods: of these. forced, not_forced: number of tensors that were
    recomputed from the other side's inputs, and that could not be. caveats: reservations about a gate that passes;
    stated in the last line."""

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
    drawings: list[TensorDrawing] = field(
        default_factory=list, compare=False
    )  # of the tensors that differ; not in JSON


@dataclass(slots=True)
class SingleTensorLoss:
    """The final outputs when only this tensor and the weights of the node that makes it are quantized in the float
    model."""

    worst_output: str
    cosine: float
    sqnr_db: float


@dataclass(slots=True)
class TensorLoss:
    """One float tensor and its quantized counterpart, over all frames.

    sqnr_db, cosine, rmse: accumulated, with the whole network quantized. drop_db: SQNR lost between its node's inputs
    and it. clipped: share of the float elements beyond the quantized range low..high. used: share of that range that
    the float tensor's range covers. step: one LSB (the smallest of several channels). weights_sqnr_db: of the weights
    of the node that makes it; channels_lost: share of their output channels below 20 dB; weights_one_scale: None where
    there are no weights."""

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
    """The worst output when these tensors are left in float32 (which stands for 16 bit)."""

    tensors: list[str]
    worst_output: str
    cosine: float


@dataclass(slots=True)
class WhatIf:
    """Everything quantized except a few tensors. candidates: the most sensitive ones, of which each step takes the
    best. most: at once. before: with none left in float. holds: whether the gate passes after the last step."""

    candidates: list[str]
    most: int
    frames: int
    runs: int
    before: WhatIfStep
    steps: list[WhatIfStep] = field(default_factory=list)
    holds: bool = False


@dataclass(slots=True)
class Quiet:
    """A tensor that in no frame exceeds half a step of its own scale, or a final output that in none exceeds a whole
    one. output: a final output, which then is not judged. largest: |float|; step: one LSB; both in real values. said:
    the same for people."""

    tensor: str
    output: bool
    largest: float
    step: float
    said: str


@dataclass(slots=True)
class TriageDocument:
    """The results of triage. verdict: the worst of all rungs. broken: the first rung that fails, as `a ~ b`. next_step:
    for that rung. stages: the ladder. rungs: every two neighbouring stages. losses: of quantization, the most sensitive
    tensor first. what_if: which tensors, left in float, restore the output. quiet: tensors too small for their scale.
    unpaired: float tensors without a quantized counterpart, and why. unknown: what could not be determined. reduced:
    the smallest part that still differs (--reduce). caveats: of models and inputs, stated in the last line. qverify: its version. date: of the triage, UTC, ISO 8601.
    board: its address, null without one. drafts: TOML of the descriptions to write, by input. sides: what ran on the first
    frame, as in the main job's report, without what changes from run to run. units: the network, in running order. command: the one that makes this report again, without the options of reports."""

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
    explained: list[Any] = field(
        default_factory=list
    )  # of the first frame with a blamed board: session.triage.explain_nodes.ExplainedOutput
    reduced: dict[str, Any] | None = None
    caveats: list[str] = field(default_factory=list)
    qverify: str = __version__
    date: str = field(default_factory=utc_text, compare=False)
    board: str | None = None
    drafts: dict[str, str] = field(default_factory=dict)
    sides: list[dict[str, Any]] = field(default_factory=list)
    units: list[NetworkUnit] = field(default_factory=list)
    command: str = field(default="", compare=False)
    input_drawings: list[InputDrawing] = field(default_factory=list, compare=False)  # of the worst frames; not in JSON

    def take_run(self, report: Report) -> None:
        """Takes models, units and sides of a frame's report; the sides of the first frame."""
        self.models, self.units = report.models, report.units
        self.sides = self.sides or [lasting_facts(side) for side in report.sides]

    @property
    def exit_status(self) -> int:
        """0 PASSED, 1 FAILED, 3 INCONCLUSIVE."""
        return EXIT[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """Returns plain values that `json.dumps(allow_nan=False)` accepts (verifier/TRIAGE.md)."""
        document: dict[str, Any] = {"schema": SCHEMA} | plain(self)
        for one in document["explained"]:  # timings are elsewhere; the rest is the same from run to run
            (one["explanation"] or {}).pop("seconds", None)
        return document
