"""Finds a few tensors that restore the outputs if they stay at 16 bit: a greedy, bounded search over the most sensitive
ones."""

from __future__ import annotations

from collections.abc import Callable

from qverify.report.triage_document import WhatIf, WhatIfStep
from qverify.triage.ladder import RungGate
from qverify.triage.loss import LossExperiment, OutputLoss

MAX_CANDIDATES = 8  # tensors that are tried
MAX_TENSORS = 4  # tensors that stay at 16 bit at the same time


def what_if(
    experiment: LossExperiment, ranked: list[str], gate: RungGate, tell: Callable[[int, int], None] | None = None
) -> WhatIf:
    """Searches the tensors to leave at 16 bit, until the gate passes or no further candidate helps.

    ranked contains all switched tensors, the most sensitive first. A tensor at 16 bit over the float tensor's own range
    differs from it by less than 2^-16 of that range, so it stays in float32 here. tell is called with the number of
    runs done and their largest total."""
    candidates, left = ranked[:MAX_CANDIDATES], list[str]()
    start = experiment.runs
    best = experiment.measure(ranked)
    search = WhatIf(candidates, MAX_TENSORS, len(experiment.frames), 0, _make_step([], best))
    search.holds = _passes(gate, best)
    while not search.holds and len(left) < min(MAX_TENSORS, len(candidates)):
        tried: list[tuple[str, OutputLoss]] = []
        for name in (c for c in candidates if c not in left):
            tried.append((name, experiment.measure([t for t in ranked if t not in (*left, name)])))
            if tell is not None:
                tell(len(left) * MAX_CANDIDATES + len(tried), MAX_TENSORS * MAX_CANDIDATES)
        name, outcome = max(tried, key=lambda t: (t[1].harm, t[1].mean))
        if (outcome.harm, outcome.mean) <= (best.harm, best.mean):
            break
        left, best = [*left, name], outcome
        search.steps.append(_make_step(left, best))
        search.holds = _passes(gate, best)
    search.runs = experiment.runs - start
    return search


def _make_step(tensors: list[str], outcome: OutputLoss) -> WhatIfStep:
    return WhatIfStep(list(tensors), outcome.worst, outcome.cosine)


def _passes(gate: RungGate, outcome: OutputLoss) -> bool:
    return outcome.harm >= (gate.limit if gate.kind == "cosine" else 0.9999)
