"""SpreadRun: one interpreter that ran the reference for --reference-spread, and how far its results are from the
reference run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(slots=True)
class SpreadRun:
    """The runs of one interpreter. command: the user's command that starts it, or "" for the interpreter that runs
    qverify. seconds: time of all runs. runs: number of runs. tensors: number of tensors that were compared with the
    reference run. differing: number of those that differ under any setting. max_abs: largest difference in real values.
    max_lsb: largest difference of integer tensors in LSB. widest: name of the tensor with max_abs."""

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
        """The interpreter in words."""
        return f"onnxruntime {self.onnxruntime} on {self.machine}"


def combine_runs(rows: Iterable[SpreadRun]) -> list[SpreadRun]:
    """Returns one row per interpreter from the rows of several boards or frames: the sums of seconds and runs, and the
    largest of the other numbers."""
    combined: dict[tuple[str, str], SpreadRun] = {}
    for row in rows:
        key = (row.command, row.who)
        combined[key] = _merge(combined[key], row) if key in combined else replace(row)
    return [*combined.values()]


def _merge(a: SpreadRun, b: SpreadRun) -> SpreadRun:
    wider = b if b.max_abs > a.max_abs else a
    return replace(
        wider,
        seconds=a.seconds + b.seconds,
        runs=a.runs + b.runs,
        tensors=max(a.tensors, b.tensors),
        differing=max(a.differing, b.differing),
        max_lsb=max(a.max_lsb, b.max_lsb),
    )
