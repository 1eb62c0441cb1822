"""Renders the explanation of a board's difference: the cause in words, its place, the candidates, and the
experiments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from qverify.plural import count, inflect_after_numbers
from qverify.renderers import fault_explanation
from qverify.renderers.html_page.elements import code, element, listed, number, table, text
from qverify.triage.experiment_inputs import KINDS
from qverify.triage.experiments import Experiment
from qverify.triage.fault import Fault
from qverify.triage.forensics import FaultExplanation

PLACES = {"node": "the node alone", "network": "the whole network", "probe": "the same op in another shape"}
MAX_ROWS = 40  # candidates; the JSON report contains all


def explanation(explained: Any, frames: int) -> str:
    """Returns the explanation of one blamed output. explained: a session.triage.explain_nodes.ExplainedOutput. frames: number
    of frames in the run."""
    where = f"{code(explained.tensor)} ({text(explained.op)})" + (f", frame {explained.frame}" if frames > 1 else "")
    if explained.explanation is None:
        return element("h3", where) + element("p", text(explained.why))
    result: FaultExplanation = explained.explanation
    kind = "blame" if result.confirmed else "blame quiet"
    lines = fault_explanation.details(result, every=False)
    drawn = [line.strip().strip("|") for line in lines if line.startswith("  |")]
    facts = listed(
        [*([explained.cost] if explained.cost else []), *(line for line in lines if not line.startswith("  |"))]
    )
    parts = [
        element("h3", where),
        element("p", text(fault_explanation.verdict(result)), class_=kind),
        facts,
        _map(drawn),
        _experiments(result.experiments),
        _candidates(result),
    ]
    return "".join(parts)


def _map(rows: list[str]) -> str:
    if not rows:
        return ""
    caption = element("figcaption", "where it differs: a darker sign stands for a larger share of differing elements")
    frame = "\n".join(f"|{row}|" for row in rows)
    return element("figure", element("pre", text(frame), class_="map", tabindex=0, aria_label="map"), caption)


def _candidates(result: FaultExplanation) -> str:
    """Returns a table of the causes that reproduce every recorded byte, and a folded one of the causes that failed or
    reproduce a part only."""
    rows = list[list[str]]()
    for at, group in enumerate(result.exact):
        state = ("confirmed" if result.confirmed else "candidate") if at == 0 else "as exact"
        rows += [_cause(fault, state) for fault in group]
    rows += [_cause(fault, "exact, less specific") for group in result.general for fault in group]
    others = [_cause(f.cause, f"failed experiment {f.experiment}") for f in result.fallen]
    others += [_cause(p.cause, f"gives {p.of_differing:.1%} of what differs") for p in result.partial]
    heads = ("cause", "family", "bits it takes", "what became of it")
    shown = table("causes that give every byte", heads, rows[:MAX_ROWS]) if rows else ""
    if not others:
        return shown
    more = f", the first {MAX_ROWS} are listed" if len(others) > MAX_ROWS else ""
    summary = element("summary", f"{count(len(others), 'cause')} that fell or give a part only{more}")
    return shown + element("details", summary, table("causes that fell", heads, others[:MAX_ROWS]))


def _cause(fault: Fault, state: str) -> list[str]:
    return [text(inflect_after_numbers(fault.said)), text(fault.family), f"{fault.bits:.1f}", state]


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
