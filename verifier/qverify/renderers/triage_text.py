"""Renders triage for people at a terminal: the ladder, the evidence of the gate that fails, the losses, the next
step."""

from __future__ import annotations

from typing import Any

from qverify.plural import count
from qverify.printable import visible
from qverify.renderers import drafts, fault_explanation, heading, neighbourhood_drawing
from qverify.renderers.blamed import also
from qverify.renderers.columns import Column
from qverify.renderers.columns import render as render_table
from qverify.renderers.shortened_names import shorten
from qverify.renderers.text_view import TextView
from qverify.report.triage_document import Rung, TensorLoss, TriageDocument

MARKS = {"PASSED": "passes", "FAILED": "FAILS", "INCONCLUSIVE": "not known"}
SHOWN, TOP = 5, 10
PLAIN = TextView()
LOSSES = (  # title, whether it is a name, rank: what goes first where room lacks (renderers.columns)
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


def render(found: TriageDocument, view: TextView = PLAIN) -> str:
    """Returns the whole text; of the losses as many as view.top, or TOP."""
    draft, found = drafts.render(found.drafts), visible(found)
    last = view.paint(conclusion(found, view), found.verdict)
    if view.detail == "quiet":
        return last
    parts = [heading.render(found, PLAIN)]
    parts += [_draw_ladder(found, view)]
    parts += [
        _list_evidence(r)
        for r in found.rungs
        if r.verdict != "PASSED" or r.neighbourhoods or r.not_forced or r.evidence
    ]
    parts += [_explain(one, len(found.frames), view.every) for one in found.explained]
    parts = [view.wrap(part) for part in parts if part]
    parts += [_render_losses(found.losses, view)] if found.losses else []
    rest = _list_rest(found)
    rest = [view.wrap(part) for part in rest]
    return "\n\n".join([*parts, *rest, *([draft] if draft else []), last])


def _list_rest(found: TriageDocument) -> list[str]:
    """Returns what stands below the losses: what would restore the output, what is too small, what is not known."""
    parts = list[str]()
    parts += [_describe_what_if(found)] if found.what_if is not None else []
    parts += [_list_quiet(found)] if found.quiet else []
    around = [f"not known: {u}" for u in found.unknown] + [f"note: {n}" for n in found.notes]
    return parts + (["\n".join(around)] if around else [])


def _explain(one: Any, frames: int, every: bool) -> str:
    """Returns what explains the board's difference at its blamed node. every: with each experiment."""
    where = f"board at {one.tensor} ({one.op})" + (f", frame {one.frame}" if frames > 1 else "")
    if one.explanation is None:
        return f"{where}: {one.why}"
    lines = [f"{where}: {fault_explanation.verdict(one.explanation)}", *([f"  {one.cost}"] if one.cost else [])]
    return "\n".join([*lines, *(f"  {line}" for line in fault_explanation.details(one.explanation, every))])


def _draw_ladder(found: TriageDocument, view: TextView) -> str:
    """Returns every stage on a line of its own, and between two of them the rung: whether it passes, its gate, the
    worst output. A source that is too long for a terminal is shortened; the heading has it whole."""
    width = max([len(s.name) for s in found.stages] + [len(m) + 4 for m in MARKS.values()])
    room = max(view.columns - width - 2, width)
    sources = {s.name: shorten(s.source, room) if view.wrapped else s.source for s in found.stages}
    stages = {name: f"{name:{width}}  {source}" for name, source in sources.items()}
    lines, last = list[str](), ""
    for rung in found.rungs:
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
    """Returns the worst final output of a rung, in words; why there is none."""
    if not rung.outputs:
        return rung.why
    judged = [o for o in rung.outputs if o.judged != "quiet"] or rung.outputs
    worst = min(judged, key=lambda o: o.cosine if o.cosine == o.cosine else -2.0)
    same = all(o.max_abs == 0 for o in rung.outputs)
    if same and rung.verdict == "FAILED":
        return "outputs equal, other tensors differ"
    return "equal" if same else f"{worst.name}: cosine {worst.cosine:.4f}, max |a-b| {worst.max_abs:.4g}"


def _list_evidence(rung: Rung) -> str:
    lines = [f"{rung.a} ~ {rung.b}: {MARKS[rung.verdict]}" + (f": {rung.why}" if rung.why else "")]
    lines += [f"  {line}" for line in rung.evidence]
    first = rung.first_divergence
    if first is not None:
        lines.append(f"  first divergence: {first.tensor} ({first.op}){also(first.also, SHOWN)}")
    if rung.forced_failures:
        more = " ..." if len(rung.forced_failures) > SHOWN else ""
        share = f"{len(rung.forced_failures)} of {count(rung.forced, 'tensor')}"
        lines.append(f"  fails when forced ({share}): {', '.join(rung.forced_failures[:SHOWN])}{more}")
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
    top = len(rows) if view.every else view.top or TOP
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


def _list_quiet(found: TriageDocument) -> str:
    """Returns the tensors that stay small in all frames: either the inputs do not exercise them, or their scale is too
    large."""
    tensors, frames = count(len(found.quiet), "tensor"), count(len(found.frames), "frame")
    lines = [f"suspicious, scales that may be too large ({tensors}, on the {frames} given):"]
    for one in found.quiet[:SHOWN]:
        never = "half a step" if one.largest < one.step / 2 else "a whole step"
        what = " (final output)" if one.output else ""
        lines.append(f"  {one.tensor}{what}: never above {never}: {one.said}")
    return "\n".join([*lines, *([f"  and {len(found.quiet) - SHOWN} more"] if len(found.quiet) > SHOWN else [])])


def _describe_what_if(found: TriageDocument) -> str:
    tested = found.what_if
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


def conclusion(found: TriageDocument, view: TextView = PLAIN) -> str:
    """Returns the last line, and the next step below."""
    if found.verdict == "PASSED":
        failing = sum(len(r.forced_failures) for r in found.rungs)
        but = f", but {count(failing, 'tensor', 'fails', 'fail')} when forced (X above)" if failing else ""
        quiet = [one.tensor for one in found.quiet if one.output]
        caveats = list(dict.fromkeys([c for r in found.rungs for c in r.caveats] + found.caveats))
        caveats += [f"not judged, too small on this input: {', '.join(quiet)}"] if quiet else []
        gates = f"all {len(found.rungs)} gates pass" if len(found.rungs) != 1 else "the gate passes"
        return f"TRIAGE: {gates}{but}" + (f" ({'; '.join(caveats)})" if caveats else "")
    state = f"fails at {found.broken}" if found.broken is not None else "INCONCLUSIVE"
    state += f" ({'; '.join(found.caveats)})" if found.caveats else ""
    return "\n".join([f"TRIAGE: {state}", *(_next_step(found.next_step, view) if found.next_step else [])])


def _next_step(said: str, view: TextView) -> list[str]:
    """Returns its lines; on a terminal a command at its end is a line of its own, which is never broken."""
    advice, colon, command = said.partition(": qverify ")
    if not (view.wrapped and colon):
        return [view.wrap(f"next step: {said}")]
    return [view.wrap(f"next step: {advice}:"), f"qverify {command}"]


def reduced(outcome: dict[str, Any]) -> str:
    """Returns one line on a reduction. outcome: session.triage.reduce_model.ReductionResult as a dictionary."""
    row = visible(outcome)
    if row["state"] == "nothing":
        return f"reduce: {row['why']}"
    if row["state"] != "reduced":
        return f"reduce: INCONCLUSIVE: {row['why']}"
    nodes, runs = count(row["nodes"], "node"), count(row["runs"], "board run")
    return f"reduced to {nodes} of {row['of']}, ending in {row['node']} ({row['op']}), in {runs}: {row['folder']}"
