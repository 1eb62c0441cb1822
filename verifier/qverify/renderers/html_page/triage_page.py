"""Renders the page of triage: blame and next step on top, then ladder, evidence, losses, and facts about the run."""

from __future__ import annotations

from typing import Any

from qverify.renderers import fault_explanation, triage_text
from qverify.renderers.html_page import around, run_facts, tensor_drawings
from qverify.renderers.html_page.elements import code, element, facts, listed, number, table, text, verdict
from qverify.renderers.html_page.explained import explanation
from qverify.renderers.html_page.frame import Section, page
from qverify.renderers.html_page.losses import losses, what_if
from qverify.renderers.html_page.page import place, when
from qverify.report.document import NetworkUnit
from qverify.report.triage_document import OutputRow, Rung, Stage, TriageDocument

JUDGED = {
    "gate": "by its gate",
    "near": "within half a step of the float",
    "quiet": "not judged: the float never reaches a whole step",
    "too_small": "nothing can be concluded",
}


def render(document: TriageDocument) -> str:
    """Returns the page as HTML. document: all its texts must be printable."""
    rungs = [(_rung(rung, at, document), rung.verdict) for at, rung in enumerate(document.rungs)]
    sections = [
        Section("ladder", "The ladder", _ladder(document)),
        *(rung for rung, verdict in rungs if verdict != "PASSED"),
        Section("explained", "What explains the board's difference", _explained(document)),
        *(rung for rung, verdict in rungs if verdict == "PASSED"),
        tensor_drawings.inputs(document.input_drawings, len(document.frames)),
        Section("losses", "Loss of quantization, tensor by tensor", losses(document)),
        Section("what-if", "What if", what_if(document)),
        Section("quiet", "Too small for their scale", listed(f"{q.tensor}: {q.said}" for q in document.quiet)),
        Section("reduced", "The smallest part that still differs", _reduced(document.reduced)),
        Section("unknown", "Not known", _unknown(document)),
        *run_facts.sections(document),
        Section("notes", "Everything triage says", _notes(document)),
    ]
    stages = ", ".join(s.source for s in document.stages)
    return page(f"qverify triage: {document.verdict}" + (f", {stages}" if stages else ""), _top(document), sections)


def _top(document: TriageDocument) -> str:
    lines = [
        element("li", verdict(r.verdict), f" {text(r.a)} ~ {text(r.b)}", text(f": {r.why}" if r.why else ""))
        for r in document.rungs
    ]
    board = f" on {text(document.board)}" if document.board else ""
    models = ", ".join(str(m.get("path", "")) for m in document.models)
    return element(
        "header",
        element("h1", element("span", "qverify triage ", class_="brand"), verdict(document.verdict)),
        element(
            "p", f"{text(models)}{board}; {text(when(document.date))}; qverify {text(document.qverify)}", class_="under"
        ),
        _concluded(document),
        *(
            [element("p", f"{element('strong', 'Next step:')} {text(document.next_step)}")]
            if document.next_step
            else []
        ),
        element("ul", *lines, class_="lines"),
    )


def _concluded(document: TriageDocument) -> str:
    """Returns the blame in words, or that all gates pass."""
    broken = next((r for r in document.rungs if document.broken == f"{r.a} ~ {r.b}"), None)
    if broken is not None and broken.blame is not None:
        b = broken.blame
        cause = next((e for e in document.explained if e.explanation is not None and e.explanation.confirmed), None)
        because = f" {text(_cause(cause))}." if cause is not None else ""
        summary = f"{element('strong', text(b.side))} is to blame {place(b)}. {text(b.why)}.{because}"
        return element("p", summary, class_="blame")
    kind = {"PASSED": "blame good", "FAILED": "blame"}.get(document.verdict, "blame quiet")
    first = triage_text.conclusion(document).removeprefix("TRIAGE: ").splitlines()[0]
    return element("p", text(f"{first[:1].upper()}{first[1:]}."), class_=kind)


def _cause(explained: Any) -> str:
    """Returns the confirmed cause without the experiments, which have a separate section."""
    cause = fault_explanation.verdict(explained.explanation).removeprefix("EXPLAINED: ").partition("; confirmed by ")[0]
    return f"Confirmed by experiments on the board: {cause}"


def _rung(rung: Rung, at: int, document: TriageDocument) -> Section:
    name = f"{rung.a} ~ {rung.b}"
    inside = _evidence(rung, document.units) + _drawn(rung, at, len(document.frames) > 1)
    return Section(f"r{at}", f"{name}: {rung.verdict}", inside, f"{text(name)}: {verdict(rung.verdict)}")


def _ladder(document: TriageDocument) -> str:
    """Returns the stages and the rungs between them, in order."""
    stages, last, items = {s.name: s for s in document.stages}, "", list[str]()
    for at, rung in enumerate(document.rungs):
        items += [_stage(stages.get(rung.a), rung.a)] if rung.a != last else []
        link = (
            element("a", f"{text(rung.a)} ~ {text(rung.b)}", href=f"#r{at}") if _evidence(rung, document.units) else ""
        )
        worst = triage_text.worst_output(rung)
        rung_text = f"{verdict(rung.verdict)} {text(rung.gate)}" + (f": {text(worst)}" if worst else "")
        items.append(element("li", f"{rung_text} {link}", class_=f"rung {rung.verdict.lower()}"))
        items.append(_stage(stages.get(rung.b), rung.b))
        last = rung.b
    return element("ol", *items, class_="ladder") if items else ""


def _stage(stage: Stage | None, name: str) -> str:
    source = f" {code(stage.source)}" if stage is not None else ""
    state = f" {text(stage.state)}: {text(stage.why)}" if stage is not None and stage.state != "complete" else ""
    return element("li", f"{element('strong', text(name))}{source}{state}", class_="stage")


def _evidence(rung: Rung, units: list[NetworkUnit]) -> str:
    """Returns the evidence of a rung: outputs, first divergence, tensors that fail when recomputed, and the graph
    around them."""
    fact_rows = [("gate", text(rung.gate))] + ([("why", text(rung.why))] if rung.why else [])
    first = rung.first_divergence
    if first is not None:
        also = f", also {', '.join(map(code, first.also))}" if first.also else ""
        fact_rows.append(("first divergence", f"{code(first.tensor)} ({text(first.what)}){also}"))
    if rung.forced_failures:
        failing = ", ".join(map(code, rung.forced_failures))
        fact_rows.append(("fails when recomputed", f"{len(rung.forced_failures)} of {rung.forced}: {failing}"))
    fact_rows += [("not recomputed", text(rung.not_forced))] if rung.not_forced else []
    fact_rows += [("next step", text(rung.next_step))] if rung.next_step else []
    heads = ("gate holds", "output", "elements", "max |a-b|", "cosine", "RMSE", "SQNR dB", "judged")
    outputs = table("final outputs", heads, [_output(o) for o in rung.outputs], heading=1) if rung.outputs else ""
    graphs = "".join(around.neighbourhood(n, units) for n in rung.neighbourhoods)
    return facts(fact_rows) + listed([*rung.evidence, *rung.caveats]) + graphs + outputs


def _drawn(rung: Rung, at: int, several_frames: bool) -> str:
    """Returns the drawings of the tensors that differ; the first one is open. several_frames: True if several frames
    ran."""
    drawn = [
        tensor_drawings.tensor(d, rung.a, rung.b, "", f"d{at}-{index}", index == 0)
        for index, d in enumerate(rung.drawings)
    ]
    frame_text = f", of the first frame that is {rung.verdict}" if several_frames else ""
    return element("h3", f"The tensors that differ, drawn{frame_text}") + "".join(drawn) if drawn else ""


def _output(row: OutputRow) -> list[str]:
    values = (row.max_abs, row.cosine, row.rmse, row.sqnr_db)
    holds = "yes" if row.holds else "no"
    return [holds, code(row.name), text(row.elements), *map(number, values), text(JUDGED[row.judged])]


def _explained(document: TriageDocument) -> str:
    return "".join(explanation(explained, len(document.frames)) for explained in document.explained)


def _reduced(outcome: dict[str, Any] | None) -> str:
    return element("p", text(triage_text.describe_reduction(outcome))) if outcome else ""


def _unknown(document: TriageDocument) -> str:
    unpaired = [f"{tensor}: has no counterpart: {why}" for tensor, why in document.unpaired.items()]
    return listed([*document.unknown, *document.caveats, *unpaired])


def _notes(document: TriageDocument) -> str:
    drafts = "".join(
        element("h3", f"a description to write for {code(name)}") + element("pre", code(draft), tabindex=0)
        for name, draft in document.drafts.items()
    )
    return listed([*document.notes, *(f"frame: {f}" for f in document.frames)]) + drafts
