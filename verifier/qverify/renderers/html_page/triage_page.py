"""The whole page of triage: blame and next step on top, the ladder, what it rests on, the losses, and what ran."""

from __future__ import annotations

from typing import Any

from qverify.renderers import fault_explanation, triage_text
from qverify.renderers.html_page import around, run_facts, tensor_drawings
from qverify.renderers.html_page.elements import code, element, facts, listed, number, table, text, verdict
from qverify.renderers.html_page.explained import explanation
from qverify.renderers.html_page.frame import Section, page
from qverify.renderers.html_page.losses import losses, what_if
from qverify.renderers.html_page.page import when
from qverify.report.document import NetworkUnit
from qverify.report.triage_document import OutputRow, Rung, Stage, TriageDocument

PASSES = {"PASSED": "passes", "FAILED": "fails", "INCONCLUSIVE": "not known"}
JUDGED = {
    "gate": "by its gate",
    "near": "within half a step of the float",
    "quiet": "not judged: the float never reaches a whole step",
    "too_small": "nothing can be concluded",
}


def render(found: TriageDocument) -> str:
    """Returns the page as HTML. found: with every text printable."""
    rungs = [(_rung(rung, at, found), rung.verdict) for at, rung in enumerate(found.rungs)]
    sections = [
        Section("ladder", "The ladder", _ladder(found)),
        *(rung for rung, verdict in rungs if verdict != "PASSED"),
        Section("explained", "What explains the board's difference", _explained(found)),
        *(rung for rung, verdict in rungs if verdict == "PASSED"),
        tensor_drawings.inputs(found.input_drawings, len(found.frames)),
        Section("losses", "Loss of quantization, tensor by tensor", losses(found)),
        Section("what-if", "What if", what_if(found)),
        Section("quiet", "Too small for their scale", listed(f"{q.tensor}: {q.said}" for q in found.quiet)),
        Section("reduced", "The smallest part that still differs", _reduced(found.reduced)),
        Section("unknown", "Not known", _unknown(found)),
        *run_facts.sections(found),
        Section("notes", "Everything triage says", _said(found)),
    ]
    stages = ", ".join(s.source for s in found.stages)
    return page(f"qverify triage: {found.verdict}" + (f", {stages}" if stages else ""), _top(found), sections)


def _top(found: TriageDocument) -> str:
    lines = [
        element("li", verdict(r.verdict), f" {text(r.a)} ~ {text(r.b)}", text(f": {r.why}" if r.why else ""))
        for r in found.rungs
    ]
    board = f" on {text(found.board)}" if found.board else ""
    models = ", ".join(str(m.get("path", "")) for m in found.models)
    return element(
        "header",
        element("h1", element("span", "qverify triage ", class_="brand"), verdict(found.verdict)),
        element("p", f"{text(models)}{board}; {text(when(found.date))}; qverify {text(found.qverify)}", class_="under"),
        _concluded(found),
        *([element("p", f"{element('strong', 'Next step:')} {text(found.next_step)}")] if found.next_step else []),
        element("ul", *lines, class_="lines"),
    )


def _concluded(found: TriageDocument) -> str:
    """Returns the blame in words, or that every gate passes."""
    broken = next((r for r in found.rungs if found.broken == f"{r.a} ~ {r.b}"), None)
    if broken is not None and broken.blame is not None:
        b = broken.blame
        cause = next((e for e in found.explained if e.explanation is not None and e.explanation.confirmed), None)
        because = f" {text(_cause(cause))}." if cause is not None else ""
        said = f"{element('strong', text(b.side))} is to blame at {code(b.node)}. {text(b.why)}.{because}"
        return element("p", said, class_="blame")
    kind = {"PASSED": "blame good", "FAILED": "blame"}.get(found.verdict, "blame quiet")
    first = triage_text.conclusion(found).removeprefix("TRIAGE: ").splitlines()[0]
    return element("p", text(f"{first[:1].upper()}{first[1:]}."), class_=kind)


def _cause(one: Any) -> str:
    """Returns the confirmed cause without what confirmed it, which has a section of its own."""
    said = fault_explanation.verdict(one.explanation).removeprefix("EXPLAINED: ").partition("; confirmed by ")[0]
    return f"Confirmed by experiments on the board: {said}"


def _rung(rung: Rung, at: int, found: TriageDocument) -> Section:
    name = f"{rung.a} ~ {rung.b}"
    inside = _evidence(rung, found.units) + _drawn(rung, at, len(found.frames) > 1)
    return Section(f"r{at}", f"{name}: {rung.verdict}", inside, f"{text(name)}: {verdict(rung.verdict)}")


def _ladder(found: TriageDocument) -> str:
    """Returns the stages and the rungs between them, in order."""
    stages, last, items = {s.name: s for s in found.stages}, "", list[str]()
    for at, rung in enumerate(found.rungs):
        items += [_stage(stages.get(rung.a), rung.a)] if rung.a != last else []
        link = element("a", f"{text(rung.a)} ~ {text(rung.b)}", href=f"#r{at}") if _evidence(rung, found.units) else ""
        worst = triage_text.worst_output(rung)
        said = f"{verdict(rung.verdict)} {text(rung.gate)}" + (f": {text(worst)}" if worst else "")
        items.append(element("li", f"{said} {link}", class_=f"rung {rung.verdict.lower()}"))
        items.append(_stage(stages.get(rung.b), rung.b))
        last = rung.b
    return element("ol", *items, class_="ladder") if items else ""


def _stage(stage: Stage | None, name: str) -> str:
    source = f" {code(stage.source)}" if stage is not None else ""
    state = f" {text(stage.state)}: {text(stage.why)}" if stage is not None and stage.state != "complete" else ""
    return element("li", f"{element('strong', text(name))}{source}{state}", class_="stage")


def _evidence(rung: Rung, units: list[NetworkUnit]) -> str:
    """Returns what a rung rests on: outputs, first divergence, what fails when recomputed, the graph there."""
    known = [("gate", text(rung.gate))] + ([("why", text(rung.why))] if rung.why else [])
    first = rung.first_divergence
    if first is not None:
        also = f", also {', '.join(map(code, first.also))}" if first.also else ""
        known.append(("first divergence", f"{code(first.tensor)} ({text(first.op)}){also}"))
    if rung.forced_failures:
        failing = ", ".join(map(code, rung.forced_failures))
        known.append(("fails when recomputed", f"{len(rung.forced_failures)} of {rung.forced}: {failing}"))
    known += [("not recomputed", text(rung.not_forced))] if rung.not_forced else []
    known += [("next step", text(rung.next_step))] if rung.next_step else []
    heads = ("gate holds", "output", "elements", "max |a-b|", "cosine", "RMSE", "SQNR dB", "judged")
    outputs = table("final outputs", heads, [_output(o) for o in rung.outputs], heading=1) if rung.outputs else ""
    graphs = "".join(around.neighbourhood(n, units) for n in rung.neighbourhoods)
    return facts(known) + listed([*rung.evidence, *rung.caveats]) + graphs + outputs


def _drawn(rung: Rung, at: int, several: bool) -> str:
    """Returns the drawings of the tensors that differ, the first of them open. several: frames ran."""
    drawn = [
        tensor_drawings.tensor(d, rung.a, rung.b, "", f"d{at}-{number_of}", number_of == 0)
        for number_of, d in enumerate(rung.drawings)
    ]
    of = f", of the first frame that is {rung.verdict}" if several else ""
    return element("h3", f"The tensors that differ, drawn{of}") + "".join(drawn) if drawn else ""


def _output(row: OutputRow) -> list[str]:
    values = (row.max_abs, row.cosine, row.rmse, row.sqnr_db)
    holds = "yes" if row.holds else "no"
    return [holds, code(row.name), text(row.elements), *map(number, values), text(JUDGED[row.judged])]


def _explained(found: TriageDocument) -> str:
    return "".join(explanation(one, len(found.frames)) for one in found.explained)


def _reduced(outcome: dict[str, Any] | None) -> str:
    return element("p", text(triage_text.reduced(outcome))) if outcome else ""


def _unknown(found: TriageDocument) -> str:
    unpaired = [f"{tensor}: has no counterpart: {why}" for tensor, why in found.unpaired.items()]
    return listed([*found.unknown, *found.caveats, *unpaired])


def _said(found: TriageDocument) -> str:
    drafts = "".join(
        element("h3", f"a description to write for {code(name)}") + element("pre", code(draft), tabindex=0)
        for name, draft in found.drafts.items()
    )
    return listed([*found.notes, *(f"frame: {f}" for f in found.frames)]) + drafts
