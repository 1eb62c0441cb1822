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


@dataclass(slots=True)
class Outcome:
    report: Report
    finals: list[str]


def verify(request: Request, watch: Watch | None = None) -> Outcome:
    """Raises QVerifyError (exit 2) for the user's mistakes and LinkError (exit 3) for an unreachable board."""
    from qverify.sides.simulator import Simulator

    start = time.perf_counter()
    models = open_models(request.models, request.shapes, request.allow_other_model)
    chosen = [
        s
        for s, on in (("reference", models.integer_onnx), ("simulator", request.run_sim), ("board", request.board))
        if on
    ]
    if len(chosen) < 2:
        raise UsageError(
            f"only one side ({', '.join(chosen) or 'none'}): give -b BOARD, -s True, or a quantized ONNX besides model.bin"
        )
    prepared = (
        sources.prepare(models.graph, request.inputs) if request.inputs else random_inputs(models.graph, request.seed)
    )
    recordings: dict[str, Recording] = {}
    run_unit: dict[str, Any] = {}
    simulator = Simulator(models.graph)
    board = None
    plain: list[dict[str, Any]] = []
    canary: dict[str, Any] = {}
    try:
        if models.integer_onnx is not None:
            from qverify.onnx_model.canary import canary as run_canary
            from qverify.onnx_model.canary import failing_kinds
            from qverify.sides.reference import Reference

            canary = run_canary()
            reference = Reference(models.integer_onnx, models.graph, models.original)
            canary["distrusted"] = reference.computed_by(failing_kinds(canary))
            recordings["reference"] = reference.run(prepared)
            run_unit["reference"] = reference.run_unit
            plain = reference.plain(prepared, recordings["reference"].tensors)
        if request.run_sim:
            recordings["simulator"] = simulator.run(
                prepared, progress=_step(watch, "simulator"), peer=recordings.get("reference")
            )
            run_unit["simulator"] = simulator.run_unit
        if request.board:
            from qverify.sides.board import Board

            board = Board(request.board, models.binary, models.graph, request.deadline_s)
            recordings["board"] = board.run(prepared, _step(watch, "board"), request.pull)
        report = judge_all(
            recordings,
            models.graph,
            units(models.graph),
            request.options,
            run_unit,
            board.pull if board is not None else None,
            prepared.arrays(),
            distrusted=canary.get("distrusted", ()),
        )
    finally:
        if board is not None:
            board.close()
    _complete(report, models, prepared, recordings, plain, canary)
    report.timings["total"] = time.perf_counter() - start
    return Outcome(report, list(models.graph.outputs))


def _first(names: list[str]) -> str:
    return f", the first is {names[0]}" if names else ""


def _step(watch: Watch | None, name: str) -> Callable[[int, int], None] | None:
    return None if watch is None else lambda done, total: watch(name, done, total)


def _complete(
    report: Report,
    models: Models,
    prepared: PreparedInputs,
    recordings: dict[str, Recording],
    plain: list[dict[str, Any]],
    canary: dict[str, Any],
) -> None:
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
        for r in recordings.values()
    ]
    report.plain_onnxruntime = {"outputs": plain}
    report.canary = canary
    report.no_integer_reference = [
        {
            "node": n.name,
            "op": n.op,
            "why": "onnxruntime has no integer kernel for it; the reference computes it in float32",
        }
        for n in models.graph.nodes
        if not n.integer_reference
    ]
    report.notes += models.notes
    failing = canary.get("failing", [])
    if failing:
        report.notes.append(
            f"WARNING: onnxruntime on this host computes these otherwise than known (canary): {', '.join(failing)}; "
            f"{len(canary['distrusted'])} nodes of the reference are not to be trusted{_first(canary['distrusted'])}"
        )
    report.timings |= {r.side: r.duration_s for r in recordings.values()}
