"""Gates between neighbouring stages, and the verdict on the final outputs of two stages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qverify.compare import scale
from qverify.compare.criteria import MAX_DIGITS
from qverify.compare.metrics import Context, Measure, make_measures
from qverify.compare.paired_values import PairedValues
from qverify.errors import UsageError
from qverify.plural import count
from qverify.report.document import Verdict
from qverify.report.triage_document import OutputRow, Rung
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec
from qverify.triage.loudness import Judged, OutputStep, loudness_text

KINDS = ("exact", "decimals", "cosine")


@dataclass(frozen=True, slots=True)
class RungGate:
    """The condition that the final outputs of two stages must meet. limit: the number N of decimal places
    (|a-b| <= 0.5*10^-N), or the lowest cosine that passes."""

    kind: str
    limit: float = 0.0

    def describe(self) -> str:
        """Returns the gate in words, for example `5 decimals: |a-b| <= 0.5e-5`."""
        return {
            "exact": "equal values",
            "decimals": f"{count(int(self.limit), 'decimal')}: |a-b| <= {f'0.5e-{self.limit:g}' if self.limit else '0.5'}",
            "cosine": f"cosine >= {self.limit:g}",
        }[self.kind]

    def holds(self, max_abs: float, cosine: float, norm_ratio: float = 1.0) -> bool:
        """Returns whether a tensor with these metrics passes the gate; NaN never passes. A cosine is joined by a limit
        of the ratio of the norms (compare/scale.py)."""
        if self.kind == "exact":
            return max_abs == 0
        return (
            max_abs <= 0.5 * 10.0**-self.limit
            if self.kind == "decimals"
            else cosine >= self.limit and scale.holds(norm_ratio, scale.largest_factor(self.limit))
        )


DEFAULT_GATES = {  # by the kinds of the two stages
    ("float", "float"): RungGate("cosine", 0.9999),  # the same sums in another order keep 1 - 1e-10
    ("float", "quantized"): RungGate("cosine", 0.7),  # good networks: 0.74 and better; bad cases: 0.60 and worse
    ("quantized", "quantized"): RungGate("cosine", 0.98),
    ("reference", "dump"): RungGate("cosine", 0.98),  # differences of 1 LSB a node in another runtime add up
    ("reference", "simulator"): RungGate("decimals", 5),
    ("reference", "board"): RungGate("decimals", 5),
    ("simulator", "board"): RungGate("exact"),
    ("device", "application"): RungGate("decimals", 3),  # an application seldom prints or stores every bit
}


def default_gate(a: str, b: str) -> RungGate:
    """Returns the default gate between two neighbouring stages, by their kinds."""
    if (a, b) in DEFAULT_GATES:
        return DEFAULT_GATES[(a, b)]
    if b == "application":
        return DEFAULT_GATES[("device", "application")]
    sides = tuple("float" if kind == "float" else "quantized" for kind in (a, b))
    return DEFAULT_GATES.get((sides[0], sides[1]), RungGate("cosine", 0.98))


def parse_gate(text: str) -> tuple[str, RungGate]:
    """Parses `A~B=exact`, `A~B=decimals:3` or `A~B=cosine:0.99` to ("A~B", the gate). Raises UsageError for any other
    form."""
    rung, equals, rule = text.rpartition("=")
    kind, _, limit = rule.partition(":")
    try:
        number = float(limit) if limit else 0.0
    except ValueError:
        number = math.nan
    valid = {
        "exact": not limit,
        "decimals": number in range(MAX_DIGITS + 1) and bool(limit),
        "cosine": -1 <= number <= 1,
    }
    if not equals or "~" not in rung or not valid.get(kind) or (kind == "cosine" and not limit):
        raise UsageError(
            f"--gate {text}: wanted A~B=exact, A~B=decimals:N (0 to {MAX_DIGITS}) or A~B=cosine:X (-1 to 1), where A and B are neighbouring stages"
        )
    return "~".join(part.strip() for part in rung.split("~")), RungGate(kind, number)


@dataclass(slots=True)
class Distance:
    """Metrics of one tensor on two stages, accumulated over frames. one_sided, both_sided: number of elements that are
    not finite on one side, or on both."""

    elements: int = 0
    one_sided: int = 0
    both_sided: int = 0
    largest: float = 0.0  # finite |a|
    _measures: dict[str, Measure] = field(default_factory=dict)
    _squares: float = 0.0

    def add(self, a: Array, b: Array, spec_a: TensorSpec, spec_b: TensorSpec) -> None:
        """Adds one frame, in which a is the reference. Raises ValueError if the shapes differ."""
        if a.shape != b.shape:
            raise ValueError(f"shape {list(a.shape)} and {list(b.shape)}")
        if not self._measures:
            all_measures = make_measures(Context("half", 5, 0, False))
            self._measures = {name: all_measures[name] for name in ("max_abs", "cosine", "sqnr_db", "norm_ratio")}
        values = PairedValues(a, b, spec_a, spec_b)
        for block in values.blocks():
            self._squares += block.weighted(block.distance * block.distance)
            magnitudes = np.abs(block.a)
            self.largest = max(self.largest, float(magnitudes.max(initial=0.0, where=np.isfinite(magnitudes))))
            for measure in self._measures.values():
                measure.add(block)
        self.elements += a.size
        self.one_sided += values.one_sided
        self.both_sided += values.both_sided

    def metric(self, name: str) -> float:
        """Returns max_abs, cosine (NaN if a value is not finite on one side), sqnr_db or norm_ratio."""
        return float(self._measures[name].result())  # type: ignore[arg-type]

    @property
    def rmse(self) -> float:
        """The root mean square of a - b, or 0.0 if there are no elements."""
        return math.sqrt(self._squares / self.elements) if self.elements else 0.0

    def judged(self, step: OutputStep | None) -> Judged:
        """Returns what judges the tensor. step: the step of b's scale, or None if it has none or the gate is not
        between float and quantized."""
        return "gate" if step is None or self.one_sided else step.judged(self.largest, self.metric("max_abs"))

    def row(self, name: str, gate: RungGate, step: OutputStep | None = None) -> OutputRow:
        """Returns one output's row of the report. step: as in judged(); it can overrule a cosine, never an absolute
        gate."""
        metrics = {k: self.metric(k) for k in ("max_abs", "cosine", "sqnr_db", "norm_ratio")}
        passes = gate.holds(metrics["max_abs"], metrics["cosine"], metrics["norm_ratio"]) and not self.one_sided
        if step is not None and gate.kind == "cosine":
            judged = self.judged(step)
            silent = self.largest < step.size  # a cosine of a silent float output has no meaning
            judged = "gate" if passes and not silent else judged
            passes = (passes and not silent) or judged == "near"
        else:
            judged = "gate"
        values = (metrics["max_abs"], metrics["cosine"], self.rmse, metrics["sqnr_db"])
        size = None if step is None else step.size
        return OutputRow(name, self.elements, passes, *values, judged, self.largest, size, metrics["norm_ratio"])


def real_spec(name: str, value: Array) -> TensorSpec:
    """Returns the spec of an array whose values are the real numbers themselves."""
    return TensorSpec(name, str(value.dtype), value.shape)


@dataclass(slots=True)
class OutputComparison:
    """The comparison of the final outputs of two stages, frame by frame.

    Attributes:
        a, b: names of the stages.
        names: maps the names of a's outputs to those of b's.
        distances: the metrics by output of a.
        wrong: why an output could not be compared, or "".
        steps: the steps of b's quantized outputs by name, if a is a float stage.
    """

    a: str
    b: str
    gate: RungGate
    names: Mapping[str, str]
    distances: dict[str, Distance] = field(default_factory=dict)
    wrong: str = ""
    steps: Mapping[str, OutputStep] = field(default_factory=dict)

    def add(
        self, values_a: Mapping[str, tuple[Array, TensorSpec]], values_b: Mapping[str, tuple[Array, TensorSpec]]
    ) -> None:
        """Adds one frame's outputs of both stages."""
        for name, name_b in self.names.items():
            if name not in values_a or name_b not in values_b:
                absent = name_b if name in values_a and name_b else name
                self.wrong = self.wrong or f"output {absent} is missing on one side"
                continue
            (a, spec_a), (b, spec_b) = values_a[name], values_b[name_b]
            try:
                self.distances.setdefault(name, Distance()).add(a, b, spec_a, spec_b)
            except ValueError as error:
                self.wrong = self.wrong or f"{name}: {error}"

    def rung(self) -> Rung:
        """Returns the rung with its verdict. An output that is missing, has another shape or is not finite never
        passes, and quiet outputs alone do not pass either."""
        rows = [d.row(n, self.gate, self._step(n)) for n, d in self.distances.items() if d.elements]
        verdict: Verdict = "PASSED"
        kind = why = ""
        broken = sorted((r for r in rows if not r.holds), key=lambda r: r.cosine if r.cosine == r.cosine else -2.0)
        bad, small, quiet = ([r for r in broken if r.judged == judged] for judged in ("gate", "too_small", "quiet"))
        if bad:
            verdict, kind, why = "FAILED", "outputs", describe_worst(bad[0], len(bad), len(rows))
        elif self.wrong or not rows or len(rows) < len(self.names):
            verdict, why = "INCONCLUSIVE", self.wrong or "no output to compare"
        elif any(d.both_sided for d in self.distances.values()):
            verdict, why = "INCONCLUSIVE", "an output contains NaN or Inf on both sides"
        elif small:
            verdict, kind = "INCONCLUSIVE", "too_small"
            why = f"{describe_worst(small[0], len(small), len(rows))}: {self._describe_too_small(small[0])}"
        elif len(quiet) == len(rows):
            verdict, kind = "INCONCLUSIVE", "quiet"
            why = f"every final output is quiet on this input: {_describe_loudness(quiet[0])}"
        result = Rung(self.a, self.b, self.gate.describe(), verdict, kind, why, rows)
        result.evidence = [f"quiet on this input, not judged: {_describe_loudness(r)}" for r in quiet]
        far = [r for r in rows if r.judged == "gate" and r.holds and not scale.holds(r.norm_ratio, scale.FAR)]
        result.evidence += [f"{r.name} passes, but {scale.describe(r.norm_ratio)}" for r in far]
        result.caveats += [f"{r.name}: {scale.describe(r.norm_ratio)}" for r in far]
        result.evidence += [self._describe_near(r) for r in rows if r.judged == "near"]
        return result

    def _step(self, name: str) -> OutputStep | None:
        return self.steps.get(self.names[name])

    def _describe_too_small(self, row: OutputRow) -> str:
        if row.step is not None and row.largest is not None and row.max_abs > row.step:
            return f"the float output is quiet on this input, {loudness_text(row.largest, row.step)}"
        return "not more than one LSB, about which a cosine says nothing"

    def _describe_near(self, row: OutputRow) -> str:
        return f"{row.name} is within half a step of the float output everywhere: cosine {row.cosine:.4f} is what its scale allows"


def describe_worst(worst: OutputRow, bad: int, total: int) -> str:
    """Returns why a gate fails: the worst output, and how many of how many outputs fail."""
    more = f" ({bad} of {total} outputs)" if total > 1 else ""
    far = (
        ""
        if worst.cosine < 0.5 or scale.holds(worst.norm_ratio, scale.FAR)
        else f", {scale.describe(worst.norm_ratio)}"
    )
    return f"{worst.name}: cosine {worst.cosine:.4f}, off by up to {worst.max_abs:.4g}{more}{far}"


def _describe_loudness(row: OutputRow) -> str:
    return f"{row.name}: {loudness_text(row.largest or 0.0, row.step or 0.0)} ({row.largest:.4g} of {row.step:.4g})"


def real_values(value: Array, spec: TensorSpec) -> Any:
    """Returns the dequantized values in float32, or the values of a tensor that is not quantized unchanged."""
    return spec.dequantized(value).astype(np.float32) if spec.quantized else value
