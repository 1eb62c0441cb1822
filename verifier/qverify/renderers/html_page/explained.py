"""What explains a board's difference: the cause in words, where it shows, the candidates, the experiments that decided."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from qverify.renderers import fault_explanation
from qverify.renderers.html_page.elements import code, element, listed, number, table, text
from qverify.triage.experiment_inputs import KINDS
from qverify.triage.experiments import Experiment
from qverify.triage.forensics import FaultExplanation

PLACES = {"node": "the node alone", "network": "the whole network", "probe": "the same op in another shape"}
MOST = 40  # rows of the candidates; the JSON report has all


def explanation(one: Any, frames: int) -> str:
    """Returns the explanation of one blamed output. one: session.triage.explain_nodes.Explained. frames: of the run."""
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
        _candidates(found),
        _experiments(found.experiments),
    ]
    return "".join(parts)


def _map(rows: list[str]) -> str:
    if not rows:
        return ""
    caption = element("figcaption", "where it differs: a darker sign stands for a larger share of differing elements")
    frame = "\n".join(f"|{row}|" for row in rows)
    return element("figure", element("pre", text(frame), class_="map", tabindex=0, aria_label="map"), caption)


def _candidates(found: FaultExplanation) -> str:
    rows = list[list[str]]()
    for at, group in enumerate(found.exact):
        state = ("confirmed" if found.confirmed else "candidate") if at == 0 else "as exact"
        rows += [[text(f.said), text(f.family), f"{f.bits:.1f}", state] for f in group]
    rows += [[text(f.said), text(f.family), f"{f.bits:.1f}", "exact, less specific"] for g in found.general for f in g]
    rows += [
        [text(f.cause.said), text(f.cause.family), f"{f.cause.bits:.1f}", f"failed experiment {f.experiment}"]
        for f in found.fallen
    ]
    rows += [
        [text(p.cause.said), text(p.cause.family), f"{p.cause.bits:.1f}", f"gives {p.of_differing:.1%} of what differs"]
        for p in found.partial
    ]
    if not rows:
        return ""
    more = f"; the first {MOST} of {len(rows)}" if len(rows) > MOST else ""
    return table(f"candidates{more}", ("cause", "family", "bits it takes", "what became of it"), rows[:MOST])


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
