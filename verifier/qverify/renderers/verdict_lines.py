"""The verdict lines a script can grep, one a pair, in the vendor's form."""

from __future__ import annotations

from qverify.report.document import Pair, Report

NAMES = {
    ("reference", "board"): "Quanti.onnx and Arm",
    ("reference", "simulator"): "Quanti.onnx and Sim",
    ("simulator", "board"): "Sim and Arm",
}


def line(pair: Pair) -> str:
    who = NAMES.get((pair.a, pair.b), f"{pair.a} and {pair.b}")
    notes = []
    if pair.coverage.not_offered and all(r.gated for r in pair.tensors) and pair.b == "board":
        notes.append("final outputs only: the board offers no per-node dump")
    if pair.verdict != "PASSED" and pair.why:
        notes.append(pair.why)
    if pair.cause:
        notes.append(f"cause: {pair.cause}")
    if pair.verdict == "PASSED" and not pair.bit_equal:
        notes.append("not bit-equal")
    return f"{who} result Strict check {pair.verdict}" + (f" ({'; '.join(notes)})" if notes else "")


def render(report: Report) -> str:
    return "\n".join(line(p) for p in report.pairs)
