"""The verdict lines a script can grep, one a pair, in the vendor's form; every weakening of a verdict stands in its line."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.printable import visible
from qverify.report.document import Pair, Report, Verdict, worst
from qverify.report.weakenings import list_weakenings

NAMES = {"reference": "Quanti.onnx", "simulator": "Sim", "board": "Arm"}
CAUSES = {
    "accumulated_rounding": "every unit holds forced: the difference is accumulated rounding",
    "unlocated": "the node cannot be told",
    "does_not_run": "a side did not run",
    "not_finite": "NaN or Inf",
}


def line(pair: Pair, said: Sequence[str] = ()) -> str:
    """said: what stands in every line of the report."""
    why = [t for t in (pair.why, f"cause: {pair.cause}" if pair.cause else "") if t] if pair.verdict != "PASSED" else []
    return line_over([pair], why, said)


def line_over(
    pairs: Sequence[Pair], why: Sequence[str] = (), said: Sequence[str] = (), least: Verdict = "PASSED"
) -> str:
    """One line for the same two sides in several frames or on several boards: the worst verdict, every weakening of any.
    least: no better than this."""
    verdict = worst([least, *(p.verdict for p in pairs)])
    who = f"{NAMES.get(pairs[0].a, pairs[0].a)} and {NAMES.get(pairs[0].b, pairs[0].b)}"
    scopes = [p.scope for p in pairs if p.scope.startswith("final outputs only")]
    facts = [*why, *scopes, *(list_weakenings(pairs) if verdict == "PASSED" else [])]
    facts += [text for p in pairs for text in p.relaxed]
    facts = list(dict.fromkeys([*facts, *said]))
    return f"{who} result Strict check {verdict}" + (f" ({'; '.join(facts)})" if facts else "")


def common_weakenings(report: Report) -> list[str]:
    """What stands in every line: sides that took no part, what a verdict must not be read without, random inputs."""
    seeds = sorted({i["seed"] for i in report.inputs if i.get("seed") is not None})
    absent = [f"{n.side}: not run: {n.why}" for n in report.not_run]
    return [*absent, *report.caveats, *([f"random inputs, PCG64 seed {', '.join(map(str, seeds))}"] if seeds else [])]


def render(report: Report) -> str:
    report = visible(report)
    said = common_weakenings(report)
    lines = [line(pair, said) for pair in report.pairs]
    return "\n".join(lines or [f"nothing compared: {report.verdict}"])
