"""What explains a board's difference: the cause in words, where it shows, the candidates, the experiments that decided."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from qverify.plural import count
from qverify.renderers import fault_explanation
from qverify.renderers.html_page.elements import code, element, listed, number, table, text
from qverify.triage.experiment_inputs import KINDS
from qverify.triage.experiments import Experiment
from qverify.triage.fault import Fault
from qverify.triage.forensics import FaultExplanation

PLACES = {"node": "the node alone", "network": "the whole network", "probe": "the same op in another shape"}
MOST = 40  # rows of the candidates; the JSON report has all


def explanation(one: Any, frames: int) -> str:
    """Returns the explanation of one blamed output. one: session.triage.explain_nodes.ExplainedOutput. frames: of the run."""
    where = f"{code(one.tensor)} ({text(one.op)})" + (f", frame {one.frame}" if frames > 1 else "")
    if one.explanation is None:
        return element("h3", where) + element("p", text(one.why))
    found: FaultExplanation = one.explanation
    kind = "blame" if found.confirmed else "blame quiet"
    lines = fault_explanation.details(found, every=False)
    drawn = [line.strip().strip("|") for line in lines if line.startswith("  |")]
    said = listed([*([one.cost] if one.cost else []), *(line for line in lines if not line.startswith("  |"))])
    parts = [
        element("h3", where),
        element("p", text(fault_explanation.verdict(found)), class_=kind),
        said,
        _map(drawn),
        _experiments(found.experiments),
        _candidates(found),
    ]
    return "".join(parts)


def _map(rows: list[str]) -> str:
    if not rows:
        return ""
    caption = element("figcaption", "where it differs: a darker sign stands for a larger share of differing elements")
    frame = "\n".join(f"|{row}|" for row in rows)
    return element("figure", element("pre", text(frame), class_="map", tabindex=0, aria_label="map"), caption)


def _candidates(found: FaultExplanation) -> str:
    """Returns the causes that give every recorded byte, and folded away those that failed or give a part only."""
    rows = list[list[str]]()
    for at, group in enumerate(found.exact):
        state = ("confirmed" if found.confirmed else "candidate") if at == 0 else "as exact"
        rows += [_cause(fault, state) for fault in group]
    rows += [_cause(fault, "exact, less specific") for group in found.general for fault in group]
    others = [_cause(f.cause, f"failed experiment {f.experiment}") for f in found.fallen]
    others += [_cause(p.cause, f"gives {p.of_differing:.1%} of what differs") for p in found.partial]
    heads = ("cause", "family", "bits it takes", "what became of it")
    shown = table("causes that give every byte", heads, rows[:MOST]) if rows else ""
    if not others:
        return shown
    more = f", the first {MOST} are listed" if len(others) > MOST else ""
    summary = element("summary", f"{count(len(others), 'cause')} that fell or give a part only{more}")
    return shown + element("details", summary, table("causes that fell", heads, others[:MOST]))


def _cause(fault: Fault, state: str) -> list[str]:
    return [text(fault.said), text(fault.family), f"{fault.bits:.1f}", state]


def _experiments(runs: Iterable[Experiment]) -> str:
    rows = [
        [
            str(at),
            text(f"{PLACES.get(run.place, run.place)}{f' ({run.shape})' if run.shape else ''}"),
            text(KINDS[run.kind][0] if run.kind in KINDS else "random inputs of the network"),
            text(run.seed),
            "as a healthy board" if run.board == run.simulator else "differs from a healthy board",
            number(run.elements),
            number(run.changed),
            number(run.stood),
            number(run.fell),
        ]
        for at, run in enumerate(runs, 1)
    ]
    heads = ("#", "on", "inputs", "seed", "the board", "elements", "predicted wrong", "causes stood", "causes fell")
    return table("experiments on the board, in their order", heads, rows) if rows else ""
