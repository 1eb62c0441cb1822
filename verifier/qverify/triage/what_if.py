"""Which few tensors, left at 16 bit, restore the output: greedy over the most sensitive ones, bounded, and said so."""

from __future__ import annotations

from collections.abc import Callable

from qverify.report.triage_document import WhatIf, WhatIfStep
from qverify.triage.ladder import RungGate
from qverify.triage.loss import Experiment, ExperimentResult

CANDIDATES, MOST = 8, 4  # tensors looked at; tensors left at 16 bit at once


def what_if(
    experiment: Experiment, ranked: list[str], gate: RungGate, tell: Callable[[int, int], None] | None = None
) -> WhatIf:
    """ranked: all switched tensors, the most sensitive first. float32 stands for 16 bit over the float tensor's range, which
    differs from it by less than 2^-16 of that range. Stops when the gate holds, or no candidate helps any more."""
    candidates, left = ranked[:CANDIDATES], list[str]()
    start = experiment.runs
    best = experiment.measure(ranked)
    found = WhatIf(candidates, MOST, len(experiment.frames), 0, _step([], best))
    found.holds = _holds(gate, best)
    while not found.holds and len(left) < min(MOST, len(candidates)):
        tried: list[tuple[str, ExperimentResult]] = []
        for name in (c for c in candidates if c not in left):
            tried.append((name, experiment.measure([t for t in ranked if t not in (*left, name)])))
            if tell is not None:
                tell(len(left) * CANDIDATES + len(tried), MOST * CANDIDATES)
        name, outcome = max(tried, key=lambda t: (t[1].harm, t[1].mean))
        if (outcome.harm, outcome.mean) <= (best.harm, best.mean):
            break
        left, best = [*left, name], outcome
        found.steps.append(_step(left, best))
        found.holds = _holds(gate, best)
    found.runs = experiment.runs - start
    return found


def _step(tensors: list[str], outcome: ExperimentResult) -> WhatIfStep:
    return WhatIfStep(list(tensors), outcome.worst, outcome.cosine)


def _holds(gate: RungGate, outcome: ExperimentResult) -> bool:
    return outcome.harm >= (gate.limit if gate.kind == "cosine" else 0.9999)
