"""Finds the few tensors that restore the output when left at 16 bit: a greedy, bounded search over the most sensitive
ones."""

from __future__ import annotations

from collections.abc import Callable

from qverify.report.triage_document import WhatIf, WhatIfStep
from qverify.triage.ladder import RungGate
from qverify.triage.loss import LossExperiment, OutputLoss

CANDIDATES, MOST = 8, 4  # tensors tried; tensors left at 16 bit at once


def what_if(
    experiment: LossExperiment, ranked: list[str], gate: RungGate, tell: Callable[[int, int], None] | None = None
) -> WhatIf:
    """Searches the tensors to leave at 16 bit. ranked: all switched tensors, the most sensitive first. float32 stands
    for 16 bit over the float tensor's range, from which it differs by less than 2^-16 of that range. Stops when the
    gate passes, or when no further candidate helps."""
    candidates, left = ranked[:CANDIDATES], list[str]()
    start = experiment.runs
    best = experiment.measure(ranked)
    search = WhatIf(candidates, MOST, len(experiment.frames), 0, _step([], best))
    search.holds = _passes(gate, best)
    while not search.holds and len(left) < min(MOST, len(candidates)):
        tried: list[tuple[str, OutputLoss]] = []
        for name in (c for c in candidates if c not in left):
            tried.append((name, experiment.measure([t for t in ranked if t not in (*left, name)])))
            if tell is not None:
                tell(len(left) * CANDIDATES + len(tried), MOST * CANDIDATES)
        name, outcome = max(tried, key=lambda t: (t[1].harm, t[1].mean))
        if (outcome.harm, outcome.mean) <= (best.harm, best.mean):
            break
        left, best = [*left, name], outcome
        search.steps.append(_step(left, best))
        search.holds = _passes(gate, best)
    search.runs = experiment.runs - start
    return search


def _step(tensors: list[str], outcome: OutputLoss) -> WhatIfStep:
    return WhatIfStep(list(tensors), outcome.worst, outcome.cosine)


def _passes(gate: RungGate, outcome: OutputLoss) -> bool:
    return outcome.harm >= (gate.limit if gate.kind == "cosine" else 0.9999)
