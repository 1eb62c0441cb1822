"""--paranoid: runs the board once more on other inputs, which detects a board that repeats its former results."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from qverify.compare.frozen import OutputHistory
from qverify.compare.options import Options
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import ReportDocument, worst
from qverify.report.facts import Finding
from qverify.report.weakenings import list_weakenings
from qverify.session.host_sides import SideResults
from qverify.session.make_report import make_report
from qverify.session.models import Models
from qverify.session.run_evidence import RunEvidence
from qverify.sides.simulator import Simulator
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

MAX_DRAWS = 8  # the inputs of a graph with few input bytes may be drawn again by chance


def other_inputs(graph: Graph, prepared: PreparedInputs, seed: int | None = None) -> tuple[PreparedInputs, int] | None:
    """Returns random inputs of the same shapes in which every input has other bytes, and their seed; None if MAX_DRAWS
    draws give none. seed: the first seed to try; a random one if None."""
    first_seed = secrets.randbelow(1 << 32) if seed is None else seed
    for draw_seed in range(first_seed, first_seed + MAX_DRAWS):
        drawn = random_inputs(graph, draw_seed)
        if all(a.data != b.data for a, b in zip(drawn.inputs, prepared.inputs, strict=True)):
            return drawn, draw_seed
    return None


def run_on_other_inputs(
    board: Any,
    models: Models,
    before: RunEvidence,
    options: Options,
    seed: int | None = None,
    step: Callable[[int, int], None] | None = None,
    run_options: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], Recording | None]:
    """Runs the board on other inputs. Returns the outcome (for mark_other_inputs) and the board's recording, None if no
    other inputs were found. before: the run on the inputs of the user. run_options: further arguments of the board's
    run(). A board that runs qvrt is compared over every tensor, another one over those that the options name."""
    drawn = other_inputs(models.graph, before.prepared, seed)
    if drawn is None:
        why = "no inputs with other bytes were found; whether the board repeats former answers is not known"
        return {"verdict": "INCONCLUSIVE", "cause": None, "why": why, "seed": seed, "tensors": 0}, None
    inputs, used_seed = drawn
    simulator = Simulator(models.graph, models.islands)
    ran = SideResults({"simulator": simulator.run(inputs)}, {"simulator": simulator.run_unit})
    earlier = before.results.recordings["board"]
    is_ours = earlier.runtime == "qvrt"
    recording = ran.recordings["board"] = board.run(inputs, step, "all", **(run_options or {}))
    judged_by = replace(options, dump_all=True) if is_ours else options
    pair = make_report(models, inputs, ran, judged_by, board.pull).pairs[0]
    repeated = _list_repeated(models.graph, earlier, recording, ran.recordings["simulator"])
    cause, why = pair.cause, f"on other inputs (random, PCG64 seed {used_seed}): {pair.why}"
    if pair.verdict != "PASSED" and repeated:
        cause = "former_answers"
        why = (
            f"on other inputs (random, PCG64 seed {used_seed}) {repeated[0]} is the same as in the run before "
            f"({count(len(repeated), 'tensor')} in all): the board repeats former answers"
        )
    if pair.verdict == "PASSED" and not pair.bit_equal:
        facts = "; ".join([*list_weakenings([pair]), *pair.relaxed])
        why = f"on other inputs (random, PCG64 seed {used_seed}): {facts}"
    outcome = {"verdict": pair.verdict, "cause": cause, "why": why, "seed": used_seed}
    outcome |= {"tensors": pair.coverage.compared, "bit_equal": pair.bit_equal}
    history = OutputHistory()
    history.add(before.results.recordings)
    history.add(ran.recordings)
    frozen = history.find_frozen(pair.verdict, "run")
    return outcome | ({"frozen": [frozen[0].tensor, frozen[0].text]} if frozen else {}), recording


def _list_repeated(graph: Graph, before: Recording, now: Recording, expected: Recording) -> list[str]:
    """Returns the names of the tensors that are the same as before although the expected recording differs there."""
    first, second = board_digests(before), board_digests(now)
    return [
        n
        for n in dict.fromkeys((*graph.observable(), *graph.outputs))
        if n in second and second[n] == first.get(n) and second[n] != expected.digests.get(n, second[n])
    ]


def board_digests(side: Recording) -> dict[str, str]:
    """Returns the digest of each tensor of a side, by name."""
    return dict(side.digests) or {n: tensor_digest(v) for n, v in side.tensors.items()}


def mark_other_inputs(report: ReportDocument, outcome: dict[str, Any]) -> None:
    """Adds the outcome of the run on other inputs, from this run or from a capture, to a report. No pair with the board
    keeps a better verdict than that run has. Raises LookupError, TypeError or ValueError for a malformed outcome."""
    if "frozen" in outcome:
        tensor, text = (printable(str(part)) for part in outcome["frozen"])
        report.findings.insert(0, Finding("frozen", tensor, text))
    verdict, why, cause = outcome["verdict"], printable(str(outcome["why"])), outcome["cause"]
    if verdict == "PASSED" and not outcome.get("bit_equal", True):
        for pair in report.pairs:
            if (pair.a, pair.b) == ("simulator", "board"):
                pair.relaxed.append(why)
        return
    if verdict == "PASSED":
        tensors = count(int(outcome["tensors"]), "tensor", "equals", "equal")
        report.notes.append(
            f"paranoid: on other inputs (random, PCG64 seed {int(outcome['seed'])}), too, {tensors} the simulator's"
        )
        return
    if verdict not in ("FAILED", "INCONCLUSIVE"):
        raise ValueError(f"verdict {verdict!r}")
    for pair in report.pairs:
        if "board" in (pair.a, pair.b) and worst([pair.verdict, verdict]) != pair.verdict:
            pair.verdict, pair.why, pair.cause = verdict, why, None if cause is None else str(cause)
    report.verdict = worst([pair.verdict for pair in report.pairs])
    report.notes.append(f"paranoid: {why}")
