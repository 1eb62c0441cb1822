"""Renders the verdict lines that a script can grep, one per pair, in the vendor's form; each states every weakening."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from qverify.printable import VERDICT_WORDS, visible
from qverify.renderers.text_view import TextView
from qverify.report.document import Pair, Report, Verdict, worst
from qverify.report.side_names import named
from qverify.report.weakenings import list_weakenings

NAMES = {"reference": "Quanti.onnx", "simulator": "Sim", "board": "Arm"}
CAUSES = {
    "accumulated_rounding": "every node passes when forced: the difference is accumulated rounding",
    "undocumented_rounding": "every node is within its limit when forced, but rounds otherwise than its documented kernels",
    "unlocated": "location unknown",
    "not_finite": "NaN or Inf",
}

PLAIN = TextView()


def line(pair: Pair, common: Sequence[str] = (), said: Collection[str] = ()) -> str:
    """Returns the verdict line of one pair. common: the facts that every line of the report states. said: reasons of
    earlier lines, of which only the beginning is repeated where a side did not run."""
    text = which_side(pair) if pair.why in said else pair.why
    why = [t for t in (text, f"cause: {_name_cause(pair)}" if pair.cause else "") if t]
    return line_over([pair], why if pair.verdict != "PASSED" else [], common)


def which_side(pair: Pair) -> str:
    """Returns the reason of the verdict; where a side did not run, only that it did not."""
    return pair.why.partition(": ")[0] if pair.cause == "does_not_run" else pair.why


def _name_cause(pair: Pair) -> str:
    """Returns the cause in words where its JSON value is no plain text: which side did not run, or that the location is
    unknown."""
    if pair.cause == "unlocated":
        return CAUSES["unlocated"]
    if pair.cause != "does_not_run":
        return str(pair.cause)
    if pair.why.endswith("ran different models"):
        return "different models"
    side = next((s for s in (pair.a, pair.b) if pair.why.startswith(f"{named(s)} ")), "a side")
    return f"{side} not run" + (" to its end" if "ran only partly" in pair.why else "")


def line_over(
    pairs: Sequence[Pair], why: Sequence[str] = (), common: Sequence[str] = (), least: Verdict = "PASSED"
) -> str:
    """Returns one line for the same two sides over several frames or boards: the worst verdict, every weakening of any
    of them. least: the verdict is no better than this."""
    verdict = worst([least, *(p.verdict for p in pairs)])
    who = f"{NAMES.get(pairs[0].a, pairs[0].a)} and {NAMES.get(pairs[0].b, pairs[0].b)}"
    scopes = [p.scope for p in pairs if p.scope.startswith("final outputs only")]
    facts = [*why, *scopes, *(list_weakenings(pairs) if verdict == "PASSED" else [])]
    facts += [text for p in pairs for text in p.relaxed]
    facts = list(dict.fromkeys([*facts, *common]))
    return f"{who} result {VERDICT_WORDS} {verdict}" + (f" ({'; '.join(facts)})" if facts else "")


def common_weakenings(report: Report) -> list[str]:
    """Returns the facts that every line states: sides that took no part, caveats of the models, random inputs."""
    seeds = sorted({i["seed"] for i in report.inputs if i.get("seed") is not None})
    absent = [f"{n.side}: not run: {n.why}" for n in report.not_run]
    return [*absent, *report.caveats, *([f"random inputs, PCG64 seed {', '.join(map(str, seeds))}"] if seeds else [])]


def render(report: Report, view: TextView = PLAIN) -> str:
    """Returns the verdict lines of a report: never broken, whatever the width, since scripts search them. The
    reason for which a side did not run is in the first line that needs it."""
    report = visible(report)
    common = common_weakenings(report)
    pairs = report.pairs
    said = [[earlier.why for earlier in pairs[:at]] for at in range(len(pairs))]
    lines = [view.paint(line(p, common, before), p.verdict) for p, before in zip(pairs, said, strict=True)]
    return "\n".join(lines or [f"nothing compared: {report.verdict}"])
