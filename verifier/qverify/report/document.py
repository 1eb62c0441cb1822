"""Report and its parts: plain dataclasses, the versioned JSON contract `qverify.report/1`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["PASSED", "FAILED", "INCONCLUSIVE"]
SCHEMA = "qverify.report/1"
EXIT = {"PASSED": 0, "FAILED": 1, "INCONCLUSIVE": 3}


@dataclass(slots=True)
class Forced:
    """The node recomputed from the other side's recorded inputs. limit: LSB, or real units for floats."""

    verdict: Verdict
    max_lsb: float | None
    mismatched: int
    limit: float


@dataclass(slots=True)
class TensorRow:
    name: str
    node: str
    op: str
    covers: list[str]
    dtype: str
    shape: list[int]
    verdict: Verdict
    digests_equal: bool | None
    elements: int
    mismatched: int
    max_abs: float
    max_lsb: float | None
    matching_digits: int | None
    cosine: float
    rmse: float
    sqnr_db: float
    lsb_histogram: dict[str, int] = field(default_factory=dict)
    same_arg_max: bool | None = None
    top5_shared: int | None = None
    gated: bool = True
    why: str = ""
    forced: Forced | None = None


@dataclass(slots=True)
class Coverage:
    """The ledger: PASSED needs expected == compared, compared > 0 and nothing missing."""

    expected: int = 0
    compared: int = 0
    elements: int = 0
    missing: list[dict[str, str]] = field(default_factory=list)
    not_offered: list[str] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return 0 < self.expected == self.compared and not self.missing


@dataclass(slots=True)
class Pair:
    a: str
    b: str
    verdict: Verdict = "INCONCLUSIVE"
    cause: str | None = None
    why: str = ""
    gate: str = ""
    bit_equal: bool = False
    board: str = ""
    frame: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    first_divergence: dict[str, str] | None = None
    tensors: list[TensorRow] = field(default_factory=list)


@dataclass(slots=True)
class Blame:
    side: str
    node: str
    why: str


@dataclass(slots=True)
class Report:
    verdict: Verdict
    blame: Blame | None
    decimals: dict[str, Any]
    pairs: list[Pair]
    inputs: list[dict[str, Any]] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=list)
    sides: list[dict[str, Any]] = field(default_factory=list)
    plain_onnxruntime: dict[str, Any] = field(default_factory=dict)
    no_integer_reference: list[dict[str, str]] = field(default_factory=list)
    canary: dict[str, Any] = field(default_factory=dict)
    link: dict[str, int] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; non-finite numbers become "inf", "-inf", "nan"."""
        found = plain({"schema": SCHEMA, **asdict(self)})
        assert isinstance(found, dict)
        return found


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def worst(verdicts: list[Verdict]) -> Verdict:
    """FAILED > INCONCLUSIVE > PASSED; INCONCLUSIVE for none at all."""
    for verdict in ("FAILED", "INCONCLUSIVE"):
        if verdict in verdicts:
            return verdict
    return "PASSED" if verdicts else "INCONCLUSIVE"
