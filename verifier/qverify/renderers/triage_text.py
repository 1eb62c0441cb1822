"""Renders triage for a terminal: the ladder, the evidence of the gate that fails, the losses, and the next step."""

from __future__ import annotations

from typing import Any

from qverify.plural import count
from qverify.printable import visible
from qverify.renderers import drafts, fault_explanation, heading, main_job_lines, neighbourhood_drawing
from qverify.renderers.blamed import list_others
from qverify.renderers.columns import Column
from qverify.renderers.columns import render as render_table
from qverify.renderers.findings import finding_lines
from qverify.renderers.shortened_names import shorten
from qverify.renderers.text_view import TextView
from qverify.report.triage_document import Rung, TensorLoss, TriageDocument

MARKS = {"PASSED": "passes", "FAILED": "FAILS", "INCONCLUSIVE": "not known"}
MAX_SHOWN = 5  # names of a list
MAX_LOSSES = 10  # shown losses, unless --top or --all is given
PLAIN = TextView()
LOSSES = (  # title, True for a column of names, rank (see renderers.columns.Column)
    ("tensor", True, 0),
    ("op", False, 2),
    ("SQNR dB", False, 0),
    ("cosine", False, 3),
    ("RMSE", False, 9),
    ("step dB", False, 8),
    ("clipped", False, 4),
    ("range used", False, 5),
    ("weights dB", False, 6),
    ("alone: worst output", False, 7),
    ("alone: cosine", False, 1),
)


def render(document: TriageDocument, view: TextView = PLAIN) -> str:
    """Returns the whole text, with at most view.top or MAX_LOSSES losses."""
    draft, document = drafts.render(document.drafts), visible(document)
    last = view.paint(conclusion(document, view), document.verdict)
    if view.detail == "quiet":
        return last
    parts = [heading.render(document, PLAIN)]
    parts += [_draw_ladder(document, view)]
    parts += ["\n".join(finding_lines(document.findings))]
    parts += [
        _list_evidence(r)
        for r in document.rungs
        if r.verdict != "PASSED" or r.neighbourhoods or r.not_forced or r.evidence
    ]
    parts += [_explain(explained, len(document.frames), view.every) for explained in document.explained]
    parts = [view.wrap(part) for part in parts if part]
    parts[1:1] = (
        [lines] if (lines := main_job_lines.render(document, view)) else []
    )  # never broken, as scripts search them
    parts += [_render_losses(document.losses, view)] if document.losses else []
    below = _list_rest(document)
    below = [view.wrap(part) for part in below]
    return "\n\n".join([*parts, *below, *([draft] if draft else []), last])


def _list_rest(document: TriageDocument) -> list[str]:
    """Returns the parts below the losses: tensors that would restore the output, tensors that are too small, unknown
    facts."""
    parts = list[str]()
    parts += [_describe_what_if(document)] if document.what_if is not None else []
    parts += [_list_quiet(document)] if document.quiet else []
    unknown_and_notes = [f"not known: {u}" for u in document.unknown] + [f"note: {n}" for n in document.notes]
    return parts + (["\n".join(unknown_and_notes)] if unknown_and_notes else [])


def _explain(explained: Any, frames: int, every: bool) -> str:
    """Returns the explanation of the board's difference at its blamed node. every: True to list each experiment."""
    where = f"board at {explained.tensor} ({explained.op})" + (f", frame {explained.frame}" if frames > 1 else "")
    if explained.explanation is None:
        return f"{where}: {explained.why}"
    lines = [
        f"{where}: {fault_explanation.verdict(explained.explanation)}",
        *([f"  {explained.cost}"] if explained.cost else []),
    ]
    return "\n".join([*lines, *(f"  {line}" for line in fault_explanation.details(explained.explanation, every))])


def _draw_ladder(document: TriageDocument, view: TextView) -> str:
    """Returns a line for each stage, and between two stages a line for the rung: whether it passes, its gate, the worst
    output. A source that is too long for a terminal is shortened; the heading contains it in full."""
    width = max([len(s.name) for s in document.stages] + [len(m) + 4 for m in MARKS.values()])
    room = max(view.columns - width - 2, width)
    sources = {s.name: shorten(s.source, room) if view.wrapped else s.source for s in document.stages}
    stages = {name: f"{name:{width}}  {source}" for name, source in sources.items()}
    lines, last = list[str](), ""
    for rung in document.rungs:
        if rung.a != last:
            lines += [""] if lines else []
            lines.append(stages.get(rung.a, rung.a))
        sign = "│" if rung.verdict == "PASSED" else "╳" if rung.verdict == "FAILED" else "?"
        worst = worst_output(rung)
        lines.append(
            f"  {sign} {MARKS[rung.verdict]:{width - 4}}  {rung.gate}{f': {worst}' if worst else ''}".rstrip(": ")
        )
        lines.append(stages.get(rung.b, rung.b))
        last = rung.b
    return "\n".join(lines)


def worst_output(rung: Rung) -> str:
    """Returns the worst final output of a rung in words, or the reason if there is none."""
    if not rung.outputs:
        return rung.why
    judged = [o for o in rung.outputs if o.judged != "quiet"] or rung.outputs
    worst = min(judged, key=lambda o: o.cosine if o.cosine == o.cosine else -2.0)
    same = all(o.max_abs == 0 for o in rung.outputs)
    if same and rung.verdict == "FAILED":
        if rung.kind == "untapped":
            return "the outputs of the unchanged model differ"
        return "outputs equal, other tensors differ"
    return "equal" if same else f"{worst.name}: cosine {worst.cosine:.4f}, max |a-b| {worst.max_abs:.4g}"


def _list_evidence(rung: Rung) -> str:
    lines = [f"{rung.a} ~ {rung.b}: {MARKS[rung.verdict]}" + (f": {rung.why}" if rung.why else "")]
    lines += [f"  {line}" for line in rung.evidence]
    first = rung.first_divergence
    if first is not None:
        lines.append(f"  first divergence: {first.tensor} ({first.what}){list_others(first.also, MAX_SHOWN)}")
    if rung.forced_failures:
        more = " ..." if len(rung.forced_failures) > MAX_SHOWN else ""
        share = f"{len(rung.forced_failures)} of {count(rung.forced, 'tensor')}"
        lines.append(f"  fails when forced ({share}): {', '.join(rung.forced_failures[:MAX_SHOWN])}{more}")
    if rung.not_forced:
        lines.append(f"  {count(rung.not_forced, 'tensor')} could not be recomputed from the other side's inputs")
    lines += (
        ["\n\n".join(_indent(neighbourhood_drawing.draw(n)) for n in rung.neighbourhoods)]
        if rung.neighbourhoods
        else []
    )
    lines += [f"  {neighbourhood_drawing.LEGEND}"] if rung.neighbourhoods else []
    return "\n".join(lines)


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _render_losses(rows: list[TensorLoss], view: TextView) -> str:
    top = len(rows) if view.every else view.top or MAX_LOSSES
    ranked = any(r.single is not None for r in rows)
    shown = rows[:top] if ranked else sorted(rows, key=lambda r: (r.sqnr_db, r.tensor))[:top]
    cells = list(zip(*(_render_row(r, ranked) for r in shown), strict=True))
    columns = [
        Column(head, texts, name=name, rank=rank)
        for (head, name, rank), texts in zip(LOSSES if ranked else LOSSES[:-2], cells, strict=True)
    ]
    order = "the most sensitive first" if ranked else "the lowest SQNR first"
    return f"quantization loss of {count(len(rows), 'tensor')}, {order}:\n{render_table(columns, view)}"


def _render_row(row: TensorLoss, ranked: bool) -> list[str]:
    cells = [
        row.tensor,
        row.op or "input",
        f"{row.sqnr_db:.1f}",
        f"{row.cosine:.4f}",
        f"{row.rmse:.4g}",
        "" if row.drop_db is None else f"{row.drop_db:.1f}",
        f"{row.clipped:.2%}",
        f"{row.used:.0%}",
        "" if row.weights_sqnr_db is None else f"{row.weights_sqnr_db:.1f}",
    ]
    if ranked:
        cells += [row.single.worst_output, f"{row.single.cosine:.4f}"] if row.single else ["", ""]
    return cells


def _list_quiet(document: TriageDocument) -> str:
    """Returns lines on tensors that are small in all frames: the inputs do not exercise them, or their scale is too
    large."""
    tensors, frames = count(len(document.quiet), "tensor"), count(len(document.frames), "frame")
    lines = [f"suspicious, scales that may be too large ({tensors}, on the {frames} given):"]
    for quiet in document.quiet[:MAX_SHOWN]:
        limit = "half a step" if quiet.largest < quiet.step / 2 else "a whole step"
        suffix = " (final output)" if quiet.output else ""
        lines.append(f"  {quiet.tensor}{suffix}: never above {limit}: {quiet.said}")
    return "\n".join(
        [*lines, *([f"  and {len(document.quiet) - MAX_SHOWN} more"] if len(document.quiet) > MAX_SHOWN else [])]
    )


def _describe_what_if(document: TriageDocument) -> str:
    tested = document.what_if
    assert tested is not None
    lines = [f"what if (everything else quantized): {tested.before.worst_output} has cosine {tested.before.cosine:.4f}"]
    lines += [
        f"  {', '.join(s.tensors)} at 16 bit (measured as float32): worst output {s.worst_output}, cosine {s.cosine:.4f}"
        for s in tested.steps
    ]
    end = "the gate then passes" if tested.holds else "the gate still fails"
    candidates = count(len(tested.candidates), "most sensitive tensor")
    lines.append(
        f"  {end}; searched: the {candidates}, at most {tested.most} at once, "
        f"{count(tested.frames, 'frame')}, {count(tested.runs, 'run')}"
    )
    return "\n".join(lines)


def conclusion(document: TriageDocument, view: TextView = PLAIN) -> str:
    """Returns the last line, with the next step below it."""
    if document.verdict == "PASSED":
        failing = sum(len(r.forced_failures) for r in document.rungs)
        exception = f", but {count(failing, 'tensor', 'fails', 'fail')} when forced (X above)" if failing else ""
        quiet = [quiet_tensor.tensor for quiet_tensor in document.quiet if quiet_tensor.output]
        caveats = list(dict.fromkeys([c for r in document.rungs for c in r.caveats] + document.caveats))
        caveats += [f"not judged, too small on this input: {', '.join(quiet)}"] if quiet else []
        gates = f"all {len(document.rungs)} gates pass" if len(document.rungs) != 1 else "the gate passes"
        return f"TRIAGE: {gates}{exception}" + (f" ({'; '.join(caveats)})" if caveats else "")
    state = f"fails at {document.broken}" if document.broken is not None else "INCONCLUSIVE"
    state += f" ({'; '.join(document.caveats)})" if document.caveats else ""
    return "\n".join([f"TRIAGE: {state}", *(_next_step(document.next_step, view) if document.next_step else [])])


def _next_step(text: str, view: TextView) -> list[str]:
    """Returns the lines of the next step. On a terminal, a command at its end is a separate line, which is never
    broken."""
    advice, colon, command = text.partition(": qverify ")
    if not (view.wrapped and colon):
        return [view.wrap(f"next step: {text}")]
    return [view.wrap(f"next step: {advice}:"), f"qverify {command}"]


def describe_reduction(outcome: dict[str, Any]) -> str:
    """Returns one line on a reduction. outcome: session.triage.reduce_model.ReductionResult as a dictionary."""
    row = visible(outcome)
    if row["state"] == "nothing":
        return f"reduce: {row['why']}"
    if row["state"] != "reduced":
        return f"reduce: INCONCLUSIVE: {row['why']}"
    nodes, runs = count(row["nodes"], "node"), count(row["runs"], "board run")
    return f"reduced to {nodes} of {row['of']}, ending in {row['node']} ({row['op']}), in {runs}: {row['folder']}"
