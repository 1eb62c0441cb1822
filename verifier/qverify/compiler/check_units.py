"""Checks what was compiled: every unit, simulated from the inputs that onnxruntime computed, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.workers import one_blas_thread
from qverify.compare.error_bounds.bounded_values import NoBound
from qverify.compare.error_bounds.chain import evaluated, is_stepwise
from qverify.compare.limits import limit_for
from qverify.compare.tie_aware import ExactUnit, TieAwareResult, check_both, tie_aware
from qverify.compiler.match import Watch
from qverify.inputs.prepare import random_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit, units
from qverify.onnx_model.light_model import LightModel
from qverify.onnx_model.sliced_engine import open_long
from qverify.ops import page, simulate_node
from qverify.sides.simulator import Simulator
from qverify.tensors.spec import TensorSpec

CANCELLING = (
    "a normalization of values that hardly vary: its variance cancels in float32, and onnxruntime's own result is not "
    "known so well; use a larger epsilon, or subtract a constant before"
)
SMALL = 0.125  # of the largest value: an error of onnxruntime that still shows whether the simulator is right


def check_against_original(graph: Graph, original: LightModel, watch: Watch | None = None) -> dict[str, Any]:
    """Checks every unit of a ref-exact graph, forced to the inputs that the original ONNX computes (onnxruntime,
    nothing fused) from one random input.

    Returns {"seed", "units": those of which an output was compared, "worst_lsb", "over": [names beyond 1 LSB], "not_checked": [...]}, the last with outputs for
    which onnxruntime has no meaningful value, or NaN where the simulator has it, too: that shows nothing of the arithmetic. With "cancelling" where some of "over" are normalizations of
    values that hardly vary (_cancels)."""
    prepared = random_inputs(graph, 0)
    produced = {o for node in original.model.graph.node for o in node.output}
    every = units(graph)
    read = (*graph.observable(), *graph.fed(), *(o for unit in every for o in unit.outputs))
    names = [n for n in dict.fromkeys(read) if n in produced]
    opening = None if watch is None else partial(watch, "opening")
    recorded = dict(open_long(original, names, opening).run(prepared.arrays()))
    recorded |= prepared.arrays()
    simulator, worst, checked = Simulator(graph), 0.0, 0
    over: list[str] = []
    missing: list[str] = []
    cancelling: list[str] = []
    last_use = {n: done for done, unit in enumerate(every, 1) for n in (*unit.inputs, *unit.outputs)}
    with one_blas_thread():
        for done, unit in enumerate(every, 1):
            if watch is not None:
                watch("checking", done, len(every))
            if any(n not in recorded for n in (*unit.inputs, *unit.outputs)):
                missing.append(unit.name)
                continue
            unclear: list[str] = []
            outputs = _run_unit(simulator, unit, recorded)
            for name, value in outputs.items():
                spec = graph.spec(name)
                if np.array_equal(value, recorded[name]):
                    continue
                distance = _distance(value, recorded[name])
                if spec.quantized:
                    worst = max(worst, distance)
                if not distance <= _limit(unit, name, graph, recorded):
                    shown = _look_at_far(unit, name, graph, recorded, outputs)
                    {"wrong": over, "nothing": unclear, "right": list[str]()}[shown].append(name)
                    if shown == "wrong" and _cancels(unit, name, graph, recorded):
                        cancelling.append(name)
                elif value.dtype.kind == "f" and (np.isnan(value) & np.isnan(recorded[name])).any():
                    unclear.append(name)
            missing += unclear
            checked += len(unclear) < len(outputs)
            simulator.forget(unit)
            for name in {*unit.inputs, *unit.outputs}:
                if last_use[name] == done:
                    del recorded[name]
    found = {"seed": 0, "units": checked, "worst_lsb": worst, "over": over, "not_checked": missing}
    return found | ({"cancelling": cancelling} if cancelling else {})


def _run_unit(simulator: Any, unit: Unit, recorded: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the unit's outputs from recorded inputs; of a recurrence each step from the recorded state before it: over
    many steps two correct kernels drift apart."""
    last, graph = unit.nodes[-1], simulator.graph
    if not hasattr(page(last.op), "simulate_steps"):
        outputs: Mapping[str, Any] = simulator.run_unit(unit, recorded)
        return outputs
    values = {n: recorded[n] for n in unit.inputs}
    for node in unit.nodes[:-1]:
        values |= simulate_node(graph, node, values)
    inputs = [None if n is None else graph.constants[n] if n in graph.constants else values[n] for n in last.inputs]
    made = page(last.op).simulate_steps(last, inputs, graph, recorded[last.outputs[0]])  # type: ignore[attr-defined]
    return dict(zip(last.outputs, made, strict=True))


def _look_at_far(
    unit: Unit, name: str, graph: Graph, recorded: Mapping[str, Any], outputs: Mapping[str, npt.NDArray[Any]]
) -> Literal["right", "wrong", "nothing"]:
    """Returns what an output beyond its limit shows of the simulator (outputs: its own). Nothing where onnxruntime read
    infinity, which integers do not have, and where the simulator is right (NUMERICS.md section 4) and onnxruntime differs
    only where its float32 intermediates overflow or underflow, or by an error of the size of its values; right where that
    error is small beside them."""
    if any(_infinite(graph.spec(n), recorded[n]) for n in unit.inputs):
        return "nothing"
    plain = limit_for(unit, name, graph)
    limit, evaluated = tie_aware(plain, unit, name, graph)
    if not evaluated:
        return "wrong"
    given = {n: recorded[n] for n in (*unit.inputs, *unit.outputs)}
    is_last = is_stepwise(unit) and name == unit.nodes[-1].outputs[1]  # the last state of the simulator's own steps
    exact = ExactUnit(unit, name, graph, given, given, {**given, **outputs} if is_last else given)
    found = check_both(exact, recorded[name], outputs[name], limit, plain)
    if not isinstance(found, TieAwareResult) or not found.holds:
        return "wrong"
    if found.lost > 0:
        return "nothing"
    if found.reference_error is None:
        return "wrong"
    return "right" if found.reference_error <= SMALL * _largest(recorded[name]) else "nothing"


def _largest(value: npt.NDArray[Any]) -> float:
    return float(np.abs(value[np.isfinite(value)]).max(initial=0.0))


def _cancels(unit: Unit, name: str, graph: Graph, recorded: Mapping[str, Any]) -> bool:
    """Returns whether the unit normalizes values that vary so little that the derived error of float32 (NUMERICS.md
    section 4) is itself beyond the limit: onnxruntime's value shows nothing there."""
    if not any(node.op in ("group_norm", "layer_norm") for node in unit.nodes):
        return False
    most = 0.5 if graph.spec(name).quantized else _limit(unit, name, graph, recorded)
    at = np.arange(recorded[name].size)
    try:
        return any(
            value.error is not None and not bool((value.error <= most).all())
            for _, value in evaluated(unit, name, graph, {n: recorded[n] for n in unit.inputs}, at)
        )
    except (NoBound, ValueError, IndexError):
        return False


def _limit(unit: Unit, name: str, graph: Graph, recorded: Mapping[str, Any]) -> float:
    """Returns the largest allowed distance of an output: 1 LSB; of floats 2^-18 of the largest magnitude, of the output
    or of what is summed in it."""
    if graph.spec(name).quantized:
        return 1.0
    return 2.0**-18 * max(_largest(recorded[name]), _magnitude(unit, graph, recorded))


def _infinite(spec: TensorSpec, value: npt.NDArray[Any]) -> bool:
    """Returns whether a DequantizeLinear of the tensor is beyond float32: a mask that was the lowest float32."""
    if not spec.quantized:
        return False
    with np.errstate(over="ignore"):
        return bool(np.isinf(spec.dequantized(value).astype(np.float32)).any())


def _distance(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Returns the largest difference; equal infinities and two NaN have none, and NaN differs from a number by
    infinity."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))


def _magnitude(unit: Unit, graph: Graph, recorded: Mapping[str, Any]) -> float:
    """Returns the largest sum of magnitudes behind an output of the unit's last node; 0.0 for an op that sums nothing.
    What cancels in a float sum leaves the error of its terms."""
    last = unit.nodes[-1]
    if not hasattr(page(last.op), "magnitude"):
        return 0.0
    values = {n: recorded[n] for n in unit.inputs}
    for node in unit.nodes[:-1]:
        values |= simulate_node(graph, node, values)
    inputs = [None if n is None else graph.constants[n] if n in graph.constants else values[n] for n in last.inputs]
    return float(page(last.op).magnitude(last, inputs, graph))  # type: ignore[attr-defined]
