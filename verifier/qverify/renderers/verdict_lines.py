"""The verdict lines a script can grep, one a pair, in the vendor's form."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.report.document import Pair, Report

NAMES = {"reference": "Quanti.onnx", "simulator": "Sim", "board": "Arm"}
CAUSES = {
    "accumulated_rounding": "every unit holds forced: the difference is accumulated rounding",
    "unlocated": "the node cannot be told",
    "does_not_run": "a side did not run",
    "not_finite": "NaN or Inf",
}


def line(pair: Pair, said: Sequence[str] = ()) -> str:
    """said: what stands in every line of the report."""
    who = f"{NAMES.get(pair.a, pair.a)} and {NAMES.get(pair.b, pair.b)}"
    facts = []
    if pair.scope.startswith("final outputs only"):
        facts.append(pair.scope)
    if pair.verdict != "PASSED":
        facts += [t for t in (pair.why, f"cause: {pair.cause}" if pair.cause else "") if t]
    elif not pair.bit_equal:
        facts.append("not bit-equal")
    facts += said
    return f"{who} result Strict check {pair.verdict}" + (f" ({'; '.join(facts)})" if facts else "")


def render(report: Report) -> str:
    seeds = sorted({i["seed"] for i in report.inputs if i.get("seed") is not None})
    said = [*report.caveats, *([f"random inputs, PCG64 seed {', '.join(map(str, seeds))}"] if seeds else [])]
    lines = [line(pair, said) for pair in report.pairs]
    return "\n".join(lines or [f"nothing compared: {report.verdict}"])
