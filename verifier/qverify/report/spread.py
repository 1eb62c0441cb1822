"""SpreadRun: one interpreter that ran the reference for --reference-spread, and how far it came from the reference's own run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(slots=True)
class SpreadRun:
    """command: as it was given, "" for the interpreter that runs qverify. tensors: compared with the reference's own run;
    differing: of these, under any setting; the distances are the largest, widest is the tensor of max_abs. max_lsb: of
    integer tensors."""

    command: str
    onnxruntime: str
    python: str
    machine: str
    seconds: float = 0.0
    runs: int = 0
    tensors: int = 0
    differing: int = 0
    max_abs: float = 0.0
    max_lsb: int = 0
    widest: str = ""

    @property
    def who(self) -> str:
        return f"onnxruntime {self.onnxruntime} on {self.machine}"


def combine_runs(rows: Iterable[SpreadRun]) -> list[SpreadRun]:
    """A row an interpreter, of the rows of several boards or frames: seconds and runs are summed, the others the largest."""
    found: dict[tuple[str, str], SpreadRun] = {}
    for row in rows:
        key = (row.command, row.who)
        found[key] = _both(found[key], row) if key in found else replace(row)
    return [*found.values()]


def _both(a: SpreadRun, b: SpreadRun) -> SpreadRun:
    wider = b if b.max_abs > a.max_abs else a
    return replace(
        wider,
        seconds=a.seconds + b.seconds,
        runs=a.runs + b.runs,
        tensors=max(a.tensors, b.tensors),
        differing=max(a.differing, b.differing),
        max_lsb=max(a.max_lsb, b.max_lsb),
    )
