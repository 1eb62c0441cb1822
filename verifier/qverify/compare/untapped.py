"""Judges the final outputs of a board's run of the user's unchanged model, beside the run whose inner tensors were read.

Reading inner tensors (taps) changes what a runtime fuses. What its nodes show acquits the unchanged model only if both
runs give the same outputs; else these outputs must pass the gate by themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qverify.compare.judge import Judge, Judged
from qverify.compare.options import Options
from qverify.compare.paired_values import bits_equal
from qverify.compare.values import Values
from qverify.model_bin.graph import Graph
from qverify.report.document import Pair, UntappedOutputs, Verdict, worst
from qverify.report.untapped import describe_untapped
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Array, Recording, Untapped

CAUSE, OPTIMIZATION = "untapped", "optimization"  # Pair.cause; the latter also the setting of a side that names it


def judge_untapped(judged: Judged, graph: Graph | None, options: Options) -> None:
    """Adds the verdict on the outputs of the unchanged model to a judged pair. The pair is no longer PASSED if they do
    not pass, or are not known."""
    for side in (judged.a, judged.b):
        if side.recording.untapped is not None and judged.pair.cause != "does_not_run":
            _add_verdict(judged.pair, _judge(judged, side, side.recording.untapped, graph, options))
            return


def _add_verdict(pair: Pair, outcome: UntappedOutputs) -> None:
    pair.untapped = outcome
    if outcome.changed:
        pair.relaxed.append(describe_untapped(outcome))
    if pair.verdict == "INCONCLUSIVE" and outcome.verdict == "FAILED":
        pair.notes.append(pair.why)
    if worst([outcome.verdict, pair.verdict]) != pair.verdict:
        pair.verdict, pair.cause, pair.why = outcome.verdict, CAUSE, outcome.why


def name_optimization(judged: Judged) -> None:
    """Makes an optimization of the board's runtime the cause of a pair that FAILED without a location, if the board's
    side names one."""
    pair = judged.pair
    text = next((t for s in (judged.a, judged.b) if isinstance(t := s.recording.settings.get(OPTIMIZATION), str)), "")
    if text and pair.verdict == "FAILED" and pair.cause == "unlocated":
        pair.cause = OPTIMIZATION
        pair.notes.append(text)


def _judge(
    judged: Judged, tapped: Values, untapped: Untapped, graph: Graph | None, options: Options
) -> UntappedOutputs:
    recording = tapped.recording
    computed = [n for n in recording.finals if n in recording.specs and (graph is None or n not in graph.inputs)]
    elements = sum(recording.specs[n].elements for n in computed)
    verdict: Verdict = "INCONCLUSIVE"
    if untapped.why or (lacking := [n for n in computed if n not in untapped.tensors]):
        return UntappedOutputs(None, elements, verdict, untapped.why or f"the unchanged model gave no {lacking[0]}")
    values = {n: (untapped.tensors[n], tapped.get(n)) for n in computed}
    if unknown := next((n for n, (_, with_taps) in values.items() if with_taps is None), None):
        return UntappedOutputs(None, elements, verdict, f"{unknown} of the run with taps is not known")
    changed = sum(_count_changed(a, b) for a, b in values.values() if b is not None)
    outcome = UntappedOutputs(changed, elements, "PASSED", "", untapped.level, [*untapped.optimizers])
    if not changed:
        return outcome
    alone = Values(_as_recording(recording, untapped))
    ends = (alone, judged.b) if tapped is judged.a else (judged.a, alone)
    pair = Judge(*ends, graph, replace(options, dump_all=False)).run(judged.pair.a, judged.pair.b).pair
    outcome.verdict = pair.verdict
    outcome.why = f"in the unchanged model {pair.why}" if pair.verdict != "PASSED" else ""
    return outcome


def _as_recording(board: Recording, untapped: Untapped) -> Recording:
    """Returns the board's recording with nothing but the final outputs of the unchanged model."""
    inputs = {n: v for n, v in board.tensors.items() if n in board.finals and n not in untapped.tensors}
    tensors: dict[str, Array] = {**inputs, **untapped.tensors}
    return replace(
        board,
        tensors=tensors,
        digests={n: tensor_digest(v) for n, v in tensors.items()},
        specs={n: s for n, s in board.specs.items() if n in board.finals},
        missing={},
        pulled={},
        borrowed=frozenset(),
        capabilities=frozenset({"finals"}),
    )


def _count_changed(a: Array, b: Array) -> int:
    """Returns the number of elements with other bytes; all of them if type or shape differ."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return max(a.size, 1)
    if bits_equal(a, b):
        return 0
    rows = [np.ascontiguousarray(v).reshape(-1).view(np.uint8).reshape(a.size, -1) for v in (a, b)]
    return int((rows[0] != rows[1]).any(axis=1).sum())
