"""Renders what explains a blamed node's difference: lines for people, with a drawing of where it is, and
`qverify.forensics/1`."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

from qverify.plural import count
from qverify.triage.difference_description import Axis, DifferenceDescription
from qverify.triage.experiment_inputs import KINDS
from qverify.triage.fault_search import Partial
from qverify.triage.forensics import FaultExplanation

SCHEMA = "qverify.forensics/1"
NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")
SHADES = " .:-=+*#@"
MOST_STEPS, MOST_SAID, MOST_SAME, FEW = 6, 4, 3, 3


def verdict(found: FaultExplanation) -> str:
    """Returns one line: the cause, or that none is known."""
    if not found.description.differing:
        return "EQUAL: the board computed what the simulator computes from the same inputs"
    if found.exact:
        return (
            f"EXPLAINED: {_describe_confirmed(found)}"
            if found.confirmed
            else f"CANDIDATE: {_describe_candidate(found)}"
        )
    if not found.tried:
        return "NOT TRIED: time ran out before any fault was tried (--explain SECONDS)"
    known = (
        f"none of the {count(found.tried, 'fault')} tried"
        if found.not_tried
        else f"no known fault ({found.tried} tried)"
    )
    fallen = (
        f"; {count(len(found.fallen), 'cause')} that fitted the recorded bytes failed on the board"
        if found.fallen
        else ""
    )
    return f"UNEXPLAINED: {known} reproduces the board's bytes{fallen}"


def _describe_confirmed(found: FaultExplanation) -> str:
    runs = [run for run in found.experiments if run.place != "probe"]
    shapes = dict.fromkeys(r.shape for r in found.experiments if r.place == "probe" and r.board != r.simulator)
    place = "the node alone" if runs[0].place == "node" else "the whole network"
    text = f"{_describe_first(found)}; confirmed by {count(len(runs), 'experiment')} on the board ({place} on new inputs): "
    taken = found.exact[0][0].taken
    whole = count(runs[0].elements, "element")
    every = (
        f"{runs[0].elements - taken} of {whole}"
        if taken
        else "its one element"
        if whole[:2] == "1 "
        else f"all {whole}"
    )
    least, most = min(r.changed for r in runs), max(r.changed for r in runs)
    text += f"{every} predicted each time, {least if least == most else f'{least} to {most}'} of them wrong"
    if shapes:
        text += f", and by the same op in {count(len(shapes), 'other shape')} ({'; '.join(shapes)})"
    if len(found.exact) > 1:
        text += f"; not told apart from: {found.exact[1][0].said}"
    if found.fallen:
        last = max(found.fallen, key=lambda f: f.experiment)
        text += f"; the next best cause ({last.cause.said}) failed experiment {last.experiment}"
    return f"{text}; {found.scope}" if found.scope else text


def _describe_candidate(found: FaultExplanation) -> str:
    fits = (
        "fits this one element"
        if found.description.differing == 1
        else f"fits these {found.description.differing} elements"
    )
    others = len(found.exact) + len(found.general) - 1
    more = f" ({count(others, 'other cause', 'fits', 'fit')} them as well)" if others else ""
    return f"{_describe_first(found)} {fits}{more}; not confirmed: {found.unconfirmed}"


def _describe_first(found: FaultExplanation) -> str:
    taken = found.exact[0][0].taken
    but = f", except {count(taken, 'element')} that nothing predicts" if taken else ""
    first, *same = _list_different([cause.said for cause in found.exact[0]])
    text = "; or ".join([first, *same[:MOST_SAME]])
    more = len(same) - MOST_SAME
    also = f"; or {more} more" if more > 0 else ""
    return f"{text}{also} (all the same at this node){but}" if same else f"{first}{but}"


def _list_different(texts: list[str]) -> list[str]:
    """Returns the texts, of those that differ only in numbers the first."""
    kinds = dict[str, str]()
    for text in texts:
        kinds.setdefault(NUMBER.sub("#", text), text)
    return list(kinds.values())


def details(found: FaultExplanation, every: bool = True) -> list[str]:
    """Returns the lines below: the difference, where it is, other causes, the nearest ones, what was not tried. every:
    each experiment; otherwise one line where they confirmed the cause."""
    if not found.description.differing:
        return []
    lines = _describe_difference(found.description)
    if found.description.differing < found.description.elements:  # otherwise it is everywhere
        lines += _describe_axes(found.description) + [f"  |{row}|" for row in _draw(found.description)]
    for at, group in enumerate(found.exact):
        lines += [f"equally exact: {group[0].said}"] if at else []
        others = list(dict.fromkeys(cause.said for cause in group if cause.said != group[0].said))
        lines += [f"the same for random inputs: {text}" for text in others[:MOST_SAID]]
        lines += [f"... and {len(others) - MOST_SAID} more" for _ in others[MOST_SAID : MOST_SAID + 1]]
    lines += [f"exact, but less specific: {group[0].said}" for group in found.general]
    lines += _list_experiments(found) if every or not found.confirmed else _sum_up_experiments(found)
    if found.unexplained:
        lines += [f"nearest: {_describe_partial(one)}" for one in found.partial]
    left = found.not_tried[:MOST_SAID] + [f"... and {n} more" for n in [len(found.not_tried) - MOST_SAID] if n > 0]
    return lines + [f"not tried: {what}" for what in left]


def _list_experiments(found: FaultExplanation) -> list[str]:
    lines = []
    for number, run in enumerate(found.experiments, 1):
        inputs = KINDS[run.kind][0] if run.kind in KINDS else "random inputs of the network"
        inputs = f"the same op at {run.shape}, {inputs}" if run.place == "probe" else inputs
        outcome = "as a healthy board" if run.board == run.simulator else "differs from a healthy board"
        stood = f"{count(run.stood, 'cause')} predicted every byte" if run.stood else "no cause predicted every byte"
        fell = f", {run.fell} failed" if run.fell else ""
        lines.append(f"experiment {number}, {inputs} (seed {run.seed}): {outcome}; {stood}{fell}")
    failed = found.fallen[:MOST_SAID]
    lines += [f"failed experiment {one.experiment}: {one.cause.said}" for one in failed if not found.confirmed]
    return lines


def _sum_up_experiments(found: FaultExplanation) -> list[str]:
    """Returns one line on the experiments; each where they are few."""
    runs = found.experiments
    if len(runs) < FEW:
        return _list_experiments(found)
    healthy = sum(run.board == run.simulator for run in runs)
    differ = f"{len(runs) - healthy} of them" if healthy else "each of them"
    stood = count(runs[-1].stood, "cause")
    text = f"{count(len(runs), 'experiment')}, {differ} different from a healthy board: {stood} predicted every byte"
    return [f"{text}, {sum(run.fell for run in runs)} failed (--all lists them)"]


def _describe_partial(one: Partial) -> str:
    return f"{one.cause.said}: {one.of_differing:.1%} of the differing elements, {one.of_all:.1%} of all"


def _describe_difference(d: DifferenceDescription) -> list[str]:
    share = d.differing / d.elements
    elements = count(d.elements, "element")
    verb = "differs" if d.differing == 1 else "differ"
    first = f"{d.differing} of {elements} {verb} ({share:.2%}), {d.up:.0%} of them larger on the board"
    lines = [first + (f", {d.not_finite} not finite" if d.not_finite else "")]
    if d.steps:
        steps = ", ".join(f"{step:+d}: {times}" for step, times in list(d.steps.items())[:MOST_STEPS])
        lines.append(
            f"board minus simulator in LSB: {steps}{', ...' * (len(d.steps) > MOST_STEPS)}; at most {d.max_abs:g}"
        )
    else:
        lines.append(f"at most {d.max_abs:g} apart")
    return lines


def _describe_axes(d: DifferenceDescription) -> list[str]:
    return [f"{axis.name}: {_describe_axis(axis)}" for axis in d.axes if axis.size > 1]


def _describe_axis(axis: Axis) -> str:
    if axis.touched == axis.size and len(axis.whole) != axis.size:
        return f"all {axis.size}"
    span = f"{axis.first}" if axis.first == axis.last else f"{axis.first}..{axis.last}"
    text = f"{span} ({axis.touched} of {axis.size})"
    if axis.period:
        text += f", every {axis.period}th"
    if axis.whole:
        shown = ", ".join(str(i) for i in axis.whole[:8])
        text += f", wholly: {shown}{', ...' * (len(axis.whole) > 8)}"
    return text


def _draw(d: DifferenceDescription) -> list[str]:
    """Returns rows of one shade per cell; a cell with any difference is never blank."""
    top = max((share for row in d.drawing for share in row), default=0.0)
    return ["".join(_choose_shade(share / top if top else 0.0) for share in row) for row in d.drawing]


def _choose_shade(share: float) -> str:
    return SHADES[0] if share == 0 else SHADES[max(1, round(share * (len(SHADES) - 1)))]


def to_json(found: FaultExplanation) -> dict[str, Any]:
    """Returns plain values for json.dumps(allow_nan=False)."""
    document = asdict(found)
    document["description"]["steps"] = {str(k): v for k, v in found.description.steps.items()}
    return {"schema": SCHEMA, "verdict": verdict(found).partition(":")[0], **document}
