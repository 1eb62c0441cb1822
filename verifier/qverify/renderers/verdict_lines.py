"""Renders the verdict lines, one per pair, in the vendor's form, which scripts can search. Each states every
weakening."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from qverify.printable import VERDICT_WORDS, visible
from qverify.renderers.text_view import TextView
from qverify.report.document import Blame, Pair, ReportDocument, Verdict, worst
from qverify.report.side_names import named
from qverify.report.weakenings import list_common_caveats, list_pair_caveats

NAMES = {"reference": "Quanti.onnx", "simulator": "Sim", "board": "Arm"}
CAUSES = {
    "accumulated_rounding": "every node passes when forced: the difference is accumulated rounding",
    "other_rounding": "no node that could be forced is wrong: the board rounds in another known way",
    "unlocated": "location unknown",
    "input_or_first_node": "the device's input, or the first node",
    "written_order": "the values are right, and written in another order or under another name",
    "other_inputs": "the dump's own input is not that of -i",
    "stated_scale": "equal integers, read by a scale or zero point that -m contradicts",
    "distance": "the distance from the reference misses the gate that was given",
    "optimization": "an optimization of the board's runtime changes the result",
    "untapped": "the unchanged model gives other outputs than the run whose nodes were judged",
    "fallback": "a node ran elsewhere than was asked",
    "not_finite": "NaN or Inf",
    "drift": "the distance of two runs, each with its own state, misses the gate that was given",
    "tokens": "the tokens miss the gate",
    "task": "a gate of the task",
    "order": "a frame leaves a state behind on the board",
    "batch": "an item of the batch is not computed as it is alone",
}

IN_WORDS = ("unlocated", "input_or_first_node", "written_order", "other_inputs", "stated_scale")
PLAIN = TextView()


def verdict_line(
    pair: Pair, common: Sequence[str] = (), earlier_reasons: Collection[str] = (), blamed: Sequence[Blame] = ()
) -> str:
    """Returns the verdict line of one pair. common: facts that every line of the report states. earlier_reasons:
    reasons in earlier lines; if a side did not run, only the beginning of such a reason is repeated. blamed: of the report; a node
    that failed in this pair is named unless the reason does."""
    text = shorten_reason(pair) if pair.why in earlier_reasons else pair.why
    why = [t for t in (text, f"cause: {_name_cause(pair)}" if pair.cause else "", _name_blamed(pair, blamed)) if t]
    return verdict_line_over([pair], why if pair.verdict != "PASSED" else [], common)


def _name_blamed(pair: Pair, blamed: Sequence[Blame]) -> str:
    """Returns whom the report blames at a node that failed in this pair, if that is another one than the reason of the verdict
    names, which is the first tensor that differs; else ""."""
    failed = {r.node for r in pair.tensors if r.forced is not None and r.forced.verdict == "FAILED"}
    first = next((b for b in blamed if b.side in (pair.a, pair.b) and b.node in failed), None)
    return "" if first is None or pair.why.startswith(first.node) else f"blame: {first.side} {first.place}"


def shorten_reason(pair: Pair) -> str:
    """Returns the reason of the verdict. If a side did not run, it is shortened to this fact."""
    return pair.why.partition(": ")[0] if pair.cause == "does_not_run" else pair.why


def _name_cause(pair: Pair) -> str:
    """Returns the cause in words. For a side that did not run, the text names the side."""
    if pair.cause in IN_WORDS:
        return CAUSES[pair.cause]
    if pair.cause != "does_not_run":
        return str(pair.cause)
    if pair.why.endswith("ran different models"):
        return "different models"
    side = next((s for s in (pair.a, pair.b) if pair.why.startswith(f"{named(s)} ")), "a side")
    if " could not be read: " in pair.why:
        return f"{side} not read"
    return f"{side} not run" + (" to its end" if "ran only partly" in pair.why else "")


def reasons_of(pair: Pair) -> list[str]:
    """Returns the reason of the verdict of a step, and its cause in words; [] without any."""
    causes = [f"cause: {CAUSES.get(pair.cause, pair.cause)}"] if pair.cause and pair.cause != "does_not_run" else []
    return [text for text in (shorten_reason(pair), *causes) if text]


def verdict_line_over(
    pairs: Sequence[Pair], why: Sequence[str] = (), common: Sequence[str] = (), best_verdict: Verdict = "PASSED"
) -> str:
    """Returns one line for the same two sides over several frames or boards: the worst verdict, and the weakenings of
    all pairs. best_verdict: the verdict is at most as good as this."""
    verdict = worst([best_verdict, *(p.verdict for p in pairs)])
    who = f"{NAMES.get(pairs[0].a, pairs[0].a)} and {NAMES.get(pairs[0].b, pairs[0].b)}"
    facts = list(dict.fromkeys([*why, *list_pair_caveats(pairs, verdict == "PASSED"), *common]))
    return f"{who} result {VERDICT_WORDS} {verdict}" + (f" ({'; '.join(facts)})" if facts else "")


def render(report: ReportDocument, view: TextView = PLAIN) -> str:
    """Returns the verdict lines of a report. They are never broken, since scripts search them. The reason why a side
    did not run is stated in the first line that mentions it."""
    report = visible(report)
    common = list_common_caveats(report)
    pairs = report.pairs
    earlier_reasons = [[earlier.why for earlier in pairs[:number]] for number in range(len(pairs))]
    lines = [
        view.paint(verdict_line(p, common, before, report.blamed), p.verdict)
        for p, before in zip(pairs, earlier_reasons, strict=True)
    ]
    return "\n".join(lines or [f"nothing compared: {report.verdict}"])
