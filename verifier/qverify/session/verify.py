"""The main job: inputs once, every side once, one Report."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.errors import UsageError
from qverify.inputs import sources
from qverify.inputs.prepare import random_inputs
from qverify.model_bin.units import units
from qverify.report.document import Report
from qverify.session.models import Models, open_models
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

Watch = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, validated by run(). deadline_s: for each answer of the board."""

    models: list[str]
    board: str | None = None
    run_sim: bool = True
    inputs: str | None = None
    options: Options = field(default_factory=Options)
    seed: int = 0
    deadline_s: float = 120.0
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    allow_other_model: bool = False
    pull: Literal["differ", "all"] = "differ"
    reach: dict[str, str] = field(default_factory=dict)  # options of the board's address given beside it


@dataclass(slots=True)
class Outcome:
    report: Report
    finals: list[str]


def verify(request: Request, watch: Watch | None = None) -> Outcome:
    """Raises QVerifyError (exit 2) for the user's mistakes and LinkError (exit 3) for an unreachable board."""
    start = time.perf_counter()
    models = open_models(request.models, request.shapes, request.allow_other_model)
    sides = {
        "reference": models.integer_onnx is not None,
        "simulator": request.run_sim,
        "board": request.board is not None,
    }
    if sum(sides.values()) < 2:
        only = ", ".join(s for s, on in sides.items() if on) or "none"
        raise UsageError(f"only one side ({only}): give -b BOARD, -s True, or a quantized ONNX besides model.bin")
    prepared = inputs_of(models, request.inputs, request.seed)
    ran = on_host(models, prepared, request.run_sim, watch)
    board = None
    try:
        if request.board is not None:
            from qverify.sides.board import Board

            board = Board(request.board, models.binary, models.graph, request.deadline_s, request.reach)
            ran.recordings["board"] = board.run(prepared, _step(watch, "board"), request.pull)
        report = judged(models, prepared, ran, request.options, board.pull if board is not None else None)
    finally:
        if board is not None:
            board.close()
    report.timings["total"] = time.perf_counter() - start
    return Outcome(report, list(models.graph.outputs))


def inputs_of(models: Models, inputs: str | None, seed: int) -> PreparedInputs:
    """From -i, or random by seed."""
    return random_inputs(models.graph, seed) if inputs is None else sources.prepare(models.graph, inputs)


def judged(
    models: Models, prepared: PreparedInputs, ran: Ran, options: Options, pull: Callable[[list[str]], Any] | None = None
) -> Report:
    """Every side's recording to a report. pull: asks the board for tensors it has not sent."""
    report = judge_all(
        ran.recordings,
        models.graph,
        units(models.graph),
        options,
        ran.run_unit,
        pull,
        prepared.arrays(),
        distrusted=ran.canary.get("distrusted", ()),
    )
    _complete(report, models, prepared, ran)
    return report


@dataclass(slots=True)
class Ran:
    """What the sides gave. run_unit: by side, for forcing. plain: the untouched file's outputs beside the reference's."""

    recordings: dict[str, Recording] = field(default_factory=dict)
    run_unit: dict[str, Any] = field(default_factory=dict)
    plain: list[dict[str, Any]] = field(default_factory=list)
    canary: dict[str, Any] = field(default_factory=dict)


def on_host(models: Models, prepared: PreparedInputs, run_sim: bool, watch: Watch | None = None) -> Ran:
    """The reference where -m holds a quantized ONNX, the simulator where it was asked for."""
    ran = Ran()
    if models.integer_onnx is not None:
        from qverify.onnx_model.canary import canary, failing_kinds
        from qverify.sides.reference import Reference

        ran.canary = canary()
        reference = Reference(models.integer_onnx, models.graph, models.original)
        ran.canary["distrusted"] = reference.computed_by(failing_kinds(ran.canary))
        ran.recordings["reference"] = reference.run(prepared)
        ran.run_unit["reference"] = reference.run_unit
        ran.plain = reference.plain(prepared, ran.recordings["reference"].tensors)
    if run_sim:
        from qverify.sides.simulator import Simulator

        simulator, peer = Simulator(models.graph), ran.recordings.get("reference")
        ran.recordings["simulator"] = simulator.run(prepared, progress=_step(watch, "simulator"), peer=peer)
        ran.run_unit["simulator"] = simulator.run_unit
    return ran


def _first(names: list[str]) -> str:
    return f", the first is {names[0]}" if names else ""


def _step(watch: Watch | None, name: str) -> Callable[[int, int], None] | None:
    return None if watch is None else lambda done, total: watch(name, done, total)


def _complete(report: Report, models: Models, prepared: PreparedInputs, ran: Ran) -> None:
    report.inputs = [
        {"name": i.spec.name, "source": i.source, "sha256": i.sha256, "seed": i.seed} for i in prepared.inputs
    ]
    report.models = list(models.rows)
    report.sides = [
        {
            "name": r.side,
            "engine": r.engine,
            "version": r.version,
            "settings": r.settings,
            "seconds": round(r.duration_s, 6),
            "host": r.host or platform.machine(),
        }
        for r in ran.recordings.values()
    ]
    report.plain_onnxruntime = {"outputs": ran.plain}
    report.canary = ran.canary
    report.no_integer_reference = [
        {
            "node": n.name,
            "op": n.op,
            "why": "onnxruntime has no integer kernel for it; the reference computes it in float32",
        }
        for n in models.graph.nodes
        if not n.integer_reference
    ]
    report.notes += models.notes + [note for r in ran.recordings.values() for note in r.notes]
    report.caveats = list(models.caveats)
    failing, distrusted = ran.canary.get("failing", []), ran.canary.get("distrusted", [])
    if failing:
        report.notes.append(
            f"WARNING: onnxruntime on this host computes these otherwise than known (canary): {', '.join(failing)}; "
            f"{len(distrusted)} nodes of the reference are not to be trusted{_first(distrusted)}"
        )
    report.timings |= {r.side: r.duration_s for r in ran.recordings.values()}
