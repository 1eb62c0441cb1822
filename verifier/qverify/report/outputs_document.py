"""The JSON contract of `qverify outputs diff`, as dataclasses (OUTPUTS.md section 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

SCHEMA = "qverify.outputs_diff/1"


@dataclass(slots=True, kw_only=True)
class OutputCause:
    """One mistake. family: of the table in OUTPUTS.md. said: the mistake in words. change: what to change, "" for mistakes
    of writing."""

    family: str
    said: str
    change: str


@dataclass(slots=True, kw_only=True)
class OutputNearest:
    """The explanation that comes nearest. causes: [] for the intended result itself. equal: rows or elements that are
    equal. of: how many the device wrote. ours: how many the explanation makes. mean, largest: absolute difference.
    quantiles: of the differences: 50, 90 and 99 %, [] if none are known."""

    causes: list[OutputCause]
    equal: int
    of: int
    ours: int
    mean: float
    largest: float
    quantiles: list[float]


@dataclass(slots=True, kw_only=True)
class OutputsPart:
    """The difference of an output, or of the whole result. output: name of the output, "" for results. size, intended:
    what the device wrote and what was intended, in words. exact: groups of explanations that reproduce the device's
    result, the simplest first; an explanation is a list of causes. nearest: null if one is exact, or the result is equal.
    notes: what is no mistake. tried: number of explanations that were tried. not_searched: what was left out, and why."""

    output: str
    verdict: Literal["EQUAL", "DIFFERENT"]
    size: str
    intended: str
    exact: list[list[list[OutputCause]]] = field(default_factory=list)
    nearest: OutputNearest | None = None
    notes: list[str] = field(default_factory=list)
    tried: int = 0
    not_searched: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class OutputsDocument:
    """The comparison of final outputs with what a device's application made of them. qverify: version. reference, device:
    paths. decoder: name of the decoder, "" for arrays of outputs. parts: results, or each output that the device wrote."""

    qverify: str
    reference: str
    device: str
    decoder: str
    verdict: Literal["EQUAL", "DIFFERENT"]
    parts: list[OutputsPart]
