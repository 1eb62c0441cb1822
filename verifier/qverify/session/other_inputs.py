"""--paranoid: the board runs once more on inputs of other bytes, so that one that repeats former answers is found."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from qverify.compare.options import Options
from qverify.inputs.prepare import random_inputs
from qverify.model_bin.graph import Graph
from qverify.printable import printable
from qverify.report.document import Report, worst
from qverify.session.host_sides import SideResults
from qverify.session.models import Models
from qverify.session.report import make_report
from qverify.sides.simulator import Simulator
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

TRIES = 8  # a graph of few input bytes may draw the same again


def other_inputs(graph: Graph, prepared: PreparedInputs, seed: int | None = None) -> tuple[PreparedInputs, int] | None:
    """Random inputs of the same shapes whose bytes are others, and their seed (None: a fresh one); None where none are found."""
    first = secrets.randbelow(1 << 32) if seed is None else seed
    for number in range(first, first + TRIES):
        made = random_inputs(graph, number)
        if all(a.data != b.data for a, b in zip(made.inputs, prepared.inputs, strict=True)):
            return made, number
    return None


def run_on_others(
    board: Any,
    models: Models,
    prepared: PreparedInputs,
    before: Recording,
    options: Options,
    seed: int | None = None,
    step: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, Any], Recording | None]:
    """What the run on other inputs found (for mark_others), and the board's side of it. before: the board's run on `prepared`."""
    drawn = other_inputs(models.graph, prepared, seed)
    if drawn is None:
        why = "no inputs of other bytes were found; whether the board repeats former answers is not known"
        return {"verdict": "INCONCLUSIVE", "cause": None, "why": why, "seed": seed, "tensors": 0}, None
    made, number = drawn
    simulator = Simulator(models.graph)
    ran = SideResults({"simulator": simulator.run(made)}, {"simulator": simulator.run_unit})
    recording = ran.recordings["board"] = board.run(made, step, "all")
    pair = make_report(models, made, ran, replace(options, dump_all=True), board.pull).pairs[0]
    repeated = _repeated(models.graph, before, recording, ran.recordings["simulator"])
    cause, why = pair.cause, f"on other inputs (random, PCG64 seed {number}): {pair.why}"
    if pair.verdict != "PASSED" and repeated:
        cause = "former_answers"
        why = (
            f"on other inputs (random, PCG64 seed {number}) {repeated[0]} came as in the run before ({len(repeated)} tensors "
            "in all): the board repeats former answers"
        )
    if pair.verdict == "PASSED" and not pair.bit_equal:
        why = f"on other inputs (random, PCG64 seed {number}): {'; '.join(pair.relaxed)}"
    found = {"verdict": pair.verdict, "cause": cause, "why": why, "seed": number, "tensors": pair.coverage.compared}
    found["bit_equal"] = pair.bit_equal
    return found, recording


def _repeated(graph: Graph, before: Recording, now: Recording, right: Recording) -> list[str]:
    """Tensors that are what they were before, and should not be."""
    first, second = _digests(before), _digests(now)
    return [
        n
        for n in dict.fromkeys((*graph.observable(), *graph.outputs))
        if n in second and second[n] == first.get(n) and second[n] != right.digests.get(n, second[n])
    ]


def _digests(side: Recording) -> dict[str, str]:
    return dict(side.digests) or {n: tensor_digest(v) for n, v in side.tensors.items()}


def mark_others(report: Report, found: dict[str, Any]) -> None:
    """What the run on other inputs found, put into a report: now, or out of a capture. No pair with the board is better than
    that run. Raises LookupError, TypeError or ValueError for what is none."""
    verdict, why, cause = found["verdict"], printable(str(found["why"])), found["cause"]
    if verdict == "PASSED" and not found.get("bit_equal", True):
        for pair in report.pairs:
            if (pair.a, pair.b) == ("simulator", "board"):
                pair.relaxed.append(why)
        return
    if verdict == "PASSED":
        report.notes.append(
            f"paranoid: on other inputs (random, PCG64 seed {int(found['seed'])}) {int(found['tensors'])} tensors of the board "
            "equal the simulator's, too"
        )
        return
    if verdict not in ("FAILED", "INCONCLUSIVE"):
        raise ValueError(f"verdict {verdict!r}")
    for pair in report.pairs:
        if "board" in (pair.a, pair.b) and worst([pair.verdict, verdict]) != pair.verdict:
            pair.verdict, pair.why, pair.cause = verdict, why, None if cause is None else str(cause)
    report.verdict = worst([pair.verdict for pair in report.pairs])
    report.notes.append(f"paranoid: {why}")
