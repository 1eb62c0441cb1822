"""Renders the explanation of a blamed node's difference: lines with a map of the difference, and
`qverify.forensics/1`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from qverify.plural import count, inflect_after_numbers
from qverify.triage.difference_description import Axis, DifferenceDescription
from qverify.triage.experiment_inputs import KINDS
from qverify.triage.fault_search import Partial
from qverify.triage.forensics import FaultExplanation
from qverify.triage.recorded_cause import list_different

SCHEMA = "qverify.forensics/1"
SHADES = " .:-=+*#@"
MAX_STEPS = 6  # listed differences in LSB
MAX_LISTED = 4  # entries of a list
MAX_EQUAL = 3  # listed causes that are equal at the node
MIN_SUMMED_UP = 3  # experiments; fewer are listed


def verdict(explanation: FaultExplanation) -> str:
    """Returns one line: the cause, or that none is known."""
    if not explanation.description.differing:
        return "EQUAL: the board computed what the simulator computes from the same inputs"
    if explanation.exact:
        return inflect_after_numbers(
            f"EXPLAINED: {_describe_confirmed(explanation)}"
            if explanation.confirmed
            else f"CANDIDATE: {_describe_candidate(explanation)}"
        )
    if not explanation.tried:
        return "NOT TRIED: time ran out before any fault was tried (--explain SECONDS)"
    known = (
        f"none of the {count(explanation.tried, 'fault')} tried"
        if explanation.not_tried
        else f"no known fault ({explanation.tried} tried)"
    )
    fallen = (
        f"; {count(len(explanation.fallen), 'cause')} that fitted the recorded bytes failed on the board"
        if explanation.fallen
        else ""
    )
    return f"UNEXPLAINED: {known} reproduces the board's bytes{fallen}"


def _describe_confirmed(explanation: FaultExplanation) -> str:
    runs = [run for run in explanation.experiments if run.place != "probe"]
    shapes = dict.fromkeys(r.shape for r in explanation.experiments if r.place == "probe" and r.board != r.simulator)
    place = "the node alone" if runs[0].place == "node" else "the whole network"
    text = f"{_describe_first(explanation)}; confirmed by {count(len(runs), 'experiment')} on the board ({place} on new inputs): "
    taken = explanation.exact[0][0].taken
    elements = count(runs[0].elements, "element")
    predicted = (
        f"{runs[0].elements - taken} of {elements}"
        if taken
        else "its one element"
        if elements[:2] == "1 "
        else f"all {elements}"
    )
    least, most = min(r.changed for r in runs), max(r.changed for r in runs)
    text += f"{predicted} predicted each time, {least if least == most else f'{least} to {most}'} of them wrong"
    if shapes:
        text += f", and by the same op in {count(len(shapes), 'other shape')} ({'; '.join(shapes)})"
    if len(explanation.exact) > 1:
        text += f"; not told apart from: {explanation.exact[1][0].said}"
    if explanation.fallen:
        last = max(explanation.fallen, key=lambda f: f.experiment)
        text += f"; the next best cause ({last.cause.said}) failed experiment {last.experiment}"
    return f"{text}; {explanation.scope}" if explanation.scope else text


def _describe_candidate(explanation: FaultExplanation) -> str:
    fits = (
        "fits this one element"
        if explanation.description.differing == 1
        else f"fits these {explanation.description.differing} elements"
    )
    others = len(explanation.exact) + len(explanation.general) - 1
    more = f" ({count(others, 'other cause', 'fits', 'fit')} them as well)" if others else ""
    return f"{_describe_first(explanation)} {fits}{more}; not confirmed: {explanation.unconfirmed}"


def _describe_first(explanation: FaultExplanation) -> str:
    taken = explanation.exact[0][0].taken
    exception = f", except {count(taken, 'element')} that nothing predicts" if taken else ""
    first, *equal_causes = list_different([cause.said for cause in explanation.exact[0]])
    text = "; or ".join([first, *equal_causes[:MAX_EQUAL]])
    more = len(equal_causes) - MAX_EQUAL
    unlisted = f"; or {more} more" if more > 0 else ""
    return f"{text}{unlisted} (all the same at this node){exception}" if equal_causes else f"{first}{exception}"


def details(explanation: FaultExplanation, every: bool = True) -> list[str]:
    """Returns the lines below: the difference, its place, other causes, the nearest causes, and causes that were not
    tried. every: True to list each experiment; otherwise experiments that confirmed the cause are one line."""
    if not explanation.description.differing:
        return []
    lines = _describe_difference(explanation.description)
    if explanation.description.differing < explanation.description.elements:  # otherwise it is everywhere
        lines += _describe_axes(explanation.description) + [f"  |{row}|" for row in _draw(explanation.description)]
    for at, group in enumerate(explanation.exact):
        lines += [f"equally exact: {group[0].said}"] if at else []
        others = list(dict.fromkeys(cause.said for cause in group if cause.said != group[0].said))
        lines += [f"the same for random inputs: {text}" for text in others[:MAX_LISTED]]
        lines += [f"... and {len(others) - MAX_LISTED} more" for _ in others[MAX_LISTED : MAX_LISTED + 1]]
    lines += [f"exact, but less specific: {group[0].said}" for group in explanation.general]
    lines += _list_experiments(explanation) if every or not explanation.confirmed else _sum_up_experiments(explanation)
    if explanation.unexplained:
        lines += [f"nearest: {_describe_partial(partial)}" for partial in explanation.partial]
    not_tried = explanation.not_tried[:MAX_LISTED] + [
        f"... and {n} more" for n in [len(explanation.not_tried) - MAX_LISTED] if n > 0
    ]
    return [inflect_after_numbers(line) for line in lines] + [f"not tried: {cause}" for cause in not_tried]


def _list_experiments(explanation: FaultExplanation) -> list[str]:
    lines = []
    for number, run in enumerate(explanation.experiments, 1):
        inputs = KINDS[run.kind][0] if run.kind in KINDS else "random inputs of the network"
        inputs = f"the same op at {run.shape}, {inputs}" if run.place == "probe" else inputs
        outcome = "as a healthy board" if run.board == run.simulator else "differs from a healthy board"
        stood = f"{count(run.stood, 'cause')} predicted every byte" if run.stood else "no cause predicted every byte"
        fell = f", {run.fell} failed" if run.fell else ""
        lines.append(f"experiment {number}, {inputs} (seed {run.seed}): {outcome}; {stood}{fell}")
    failed = explanation.fallen[:MAX_LISTED]
    lines += [
        f"failed experiment {fallen.experiment}: {fallen.cause.said}" for fallen in failed if not explanation.confirmed
    ]
    return lines


def _sum_up_experiments(explanation: FaultExplanation) -> list[str]:
    """Returns one line on all experiments, or a line on each if there are less than MIN_SUMMED_UP."""
    runs = explanation.experiments
    if len(runs) < MIN_SUMMED_UP:
        return _list_experiments(explanation)
    healthy = sum(run.board == run.simulator for run in runs)
    differ = f"{len(runs) - healthy} of them" if healthy else "each of them"
    stood = count(runs[-1].stood, "cause")
    text = f"{count(len(runs), 'experiment')}, {differ} different from a healthy board: {stood} predicted every byte"
    return [f"{text}, {sum(run.fell for run in runs)} failed (--all lists them)"]


def _describe_partial(partial: Partial) -> str:
    return f"{partial.cause.said}: {partial.of_differing:.1%} of the differing elements, {partial.of_all:.1%} of all"


def _describe_difference(d: DifferenceDescription) -> list[str]:
    share = d.differing / d.elements
    elements = count(d.elements, "element")
    verb = "differs" if d.differing == 1 else "differ"
    first = f"{d.differing} of {elements} {verb} ({share:.2%}), {d.up:.0%} of them larger on the board"
    lines = [first + (f", {d.not_finite} not finite" if d.not_finite else "")]
    if d.steps:
        steps = ", ".join(f"{step:+d}: {times}" for step, times in list(d.steps.items())[:MAX_STEPS])
        lines.append(
            f"board minus simulator in LSB: {steps}{', ...' * (len(d.steps) > MAX_STEPS)}; at most {d.max_abs:g}"
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
    """Returns rows with one character per cell, darker for a larger share. A cell with any difference is never
    blank."""
    top = max((share for row in d.drawing for share in row), default=0.0)
    return ["".join(_choose_shade(share / top if top else 0.0) for share in row) for row in d.drawing]


def _choose_shade(share: float) -> str:
    return SHADES[0] if share == 0 else SHADES[max(1, round(share * (len(SHADES) - 1)))]


def to_json(explanation: FaultExplanation) -> dict[str, Any]:
    """Returns plain values for json.dumps(allow_nan=False)."""
    document = asdict(explanation, dict_factory=_inflect)
    document["description"]["steps"] = {str(k): v for k, v in explanation.description.steps.items()}
    return {"schema": SCHEMA, "verdict": verdict(explanation).partition(":")[0], **document}


def _inflect(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the fields of a class by name, sentences about faults inflected after numbers."""
    return {name: inflect_after_numbers(value) if name == "said" else value for name, value in fields}
