"""Checks what was compiled: every unit, simulated from the inputs that onnxruntime computed, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.compare.limits import limit_for
from qverify.compare.tie_aware import ExactUnit, TieAwareResult, check_both, tie_aware
from qverify.compiler.match import Watch
from qverify.inputs.prepare import random_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit, units
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.expose_tensors import expose_tensors
from qverify.ops import page, simulate_node
from qverify.sides.simulator import Simulator


def check_against_original(graph: Graph, model: Any, watch: Watch | None = None) -> dict[str, Any]:
    """Checks every unit of a ref-exact graph, forced to the inputs that the original ONNX computes (onnxruntime,
    nothing fused) from one random input.

    Returns {"seed", "units", "worst_lsb", "over": [names beyond 1 LSB], "not_checked": [...]}, the last with outputs for
    which onnxruntime has no meaningful value."""
    prepared = random_inputs(graph, 0)
    produced = {o for node in model.graph.node for o in node.output}
    names = [n for n in (*graph.observable(), *graph.fed()) if n in produced]
    recorded = dict(Engine(expose_tensors(model, names).SerializeToString()).run(prepared.arrays()))
    recorded |= prepared.arrays()
    simulator, worst, checked = Simulator(graph), 0.0, 0
    over: list[str] = []
    missing: list[str] = []
    every = units(graph)
    for done, unit in enumerate(every, 1):
        if watch is not None:
            watch("checking", done, len(every))
        if any(n not in recorded for n in (*unit.inputs, *unit.outputs)):
            missing.append(unit.name)
            continue
        checked += 1
        for name, value in _run_unit(simulator, unit, recorded).items():
            spec = graph.spec(name)
            distance = _distance(value.astype(np.float64), recorded[name].astype(np.float64))
            if spec.quantized:
                worst = max(worst, distance)
            finite = np.abs(recorded[name][np.isfinite(recorded[name])])
            limit = 1.0 if spec.quantized else 2.0**-18 * float(finite.max(initial=0.0))
            if not distance <= limit and (
                spec.quantized or not distance <= 2.0**-18 * _magnitude(unit, graph, recorded)
            ):
                (missing if _meaningless(unit, name, graph, recorded, value) else over).append(name)
    return {"seed": 0, "units": checked, "worst_lsb": worst, "over": over, "not_checked": missing}


def _run_unit(simulator: Any, unit: Unit, recorded: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the unit's outputs from recorded inputs; of a recurrence each step from the recorded state before it: over
    many steps two correct kernels drift apart."""
    last, graph, values = unit.nodes[-1], simulator.graph, dict(recorded)
    if not hasattr(page(last.op), "simulate_steps"):
        outputs: Mapping[str, Any] = simulator.run_unit(unit, recorded)
        return outputs
    for node in unit.nodes[:-1]:
        values |= simulate_node(graph, node, values)
    inputs = [None if n is None else graph.constants[n] if n in graph.constants else values[n] for n in last.inputs]
    made = page(last.op).simulate_steps(last, inputs, graph, recorded[last.outputs[0]])  # type: ignore[attr-defined]
    return dict(zip(last.outputs, made, strict=True))


def _meaningless(unit: Unit, name: str, graph: Graph, recorded: Mapping[str, Any], value: npt.NDArray[Any]) -> bool:
    """Returns whether onnxruntime's value differs only where its float32 intermediates overflow or underflow (NUMERICS.md
    section 4), and the simulator's is right."""
    plain = limit_for(unit, name, graph)
    limit, evaluated = tie_aware(plain, unit, name, graph)
    if not evaluated:
        return False
    exact = ExactUnit(unit, name, graph, recorded, recorded, {**recorded, name: value})
    found = check_both(exact, recorded[name], value, limit, plain)
    return isinstance(found, TieAwareResult) and found.holds and found.lost > 0


def _distance(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Returns the largest difference; equal infinities have none, and NaN differs from everything by infinity: it shows
    nothing of the arithmetic."""
    with np.errstate(invalid="ignore"):
        apart = np.where(a == b, 0.0, np.abs(a - b))
    return float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))


def _magnitude(unit: Unit, graph: Graph, recorded: Mapping[str, Any]) -> float:
    """Returns the largest sum of magnitudes behind an output of the unit's last node; 0.0 for an op that sums nothing.
    What cancels in a float sum leaves the error of its terms."""
    last, values = unit.nodes[-1], dict(recorded)
    if not hasattr(page(last.op), "magnitude"):
        return 0.0
    for node in unit.nodes[:-1]:
        values |= simulate_node(graph, node, values)
    inputs = [None if n is None else graph.constants[n] if n in graph.constants else values[n] for n in last.inputs]
    return float(page(last.op).magnitude(last, inputs, graph))  # type: ignore[attr-defined]
