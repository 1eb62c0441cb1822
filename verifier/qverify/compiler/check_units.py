"""Checks the compiled graph: simulates every unit on the inputs that onnxruntime computed, and compares the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.workers import one_blas_thread
from qverify.compare.error_bounds.bounded_values import NoBound
from qverify.compare.error_bounds.chain import evaluate_unit, is_stepwise
from qverify.compare.limits import limit_for
from qverify.compare.tie_aware import ExactUnit, TieAwareResult, check_both, choose_tie_aware_limit
from qverify.compiler.match import Watch
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit, units
from qverify.onnx_model.light_model import LightModel
from qverify.onnx_model.own_inputs import run_on_own_inputs
from qverify.onnx_model.sliced_engine import open_long
from qverify.ops import page, simulate_node
from qverify.sides.simulator import Simulator
from qverify.tensors.free_memory import return_free_memory
from qverify.tensors.spec import TensorSpec

CANCELLING = (
    "a normalization of values that hardly vary: its variance cancels in float32, and onnxruntime's own result is not "
    "known so well; use a larger epsilon, or subtract a constant before"
)
CUT_OR_REPORT = "Cut the model before that node, or report it as a bug of qverify"
SMALL = 0.125  # part of the largest value; onnxruntime errors up to this still show whether the simulator is right


def check_against_original(graph: Graph, original: LightModel, watch: Watch | None = None) -> dict[str, Any]:
    """Checks every unit of a ref-exact graph, forced to the inputs that the original ONNX computes (onnxruntime,
    nothing fused) from one random input.

    Returns a dict:
        "seed": of the random input.
        "units": number of units of which an output was compared.
        "worst_lsb": the largest distance of a quantized output.
        "over": names of outputs beyond their limit.
        "not_checked": names of units whose tensors were not recorded, and of outputs for which onnxruntime has no
            meaningful value, or NaN where the simulator has NaN as well, which shows nothing about the arithmetic.
        "integers": the number that all integers of 32 and 64 bits were, because onnxruntime rejected random ones; left
            out otherwise.
        "cancelling": those of "over" that normalize values which hardly vary (_cancels); left out if there are none.
    """
    produced = {o for node in original.model.graph.node for o in node.output}
    all_units = units(graph)
    read = (*graph.observable(), *graph.fed(), *(o for unit in all_units for o in unit.outputs))
    names = [n for n in dict.fromkeys(read) if n in produced]
    opening = None if watch is None else partial(watch, "opening")
    drawn = random_inputs(graph, 0).arrays()
    feed, recorded = run_on_own_inputs(open_long(original, names, opening), drawn, None)
    recorded |= feed
    return_free_memory()  # of the sessions
    simulator, worst, checked = Simulator(graph), 0.0, 0
    over: list[str] = []
    missing: list[str] = []
    cancelling: list[str] = []
    last_use = {n: done for done, unit in enumerate(all_units, 1) for n in (*unit.inputs, *unit.outputs)}
    with one_blas_thread():
        for done, unit in enumerate(all_units, 1):
            if watch is not None:
                watch("checking", done, len(all_units))
            if any(n not in recorded for n in (*unit.inputs, *unit.outputs)):
                missing.append(unit.name)
                continue
            outputs = _run_unit(simulator, unit, recorded)
            result = _compare_outputs(unit, graph, recorded, outputs)
            worst = max(worst, result.worst_lsb)
            over += result.over
            cancelling += result.cancelling
            missing += result.unclear
            checked += len(result.unclear) < len(outputs)
            simulator.forget(unit)
            for name in {*unit.inputs, *unit.outputs}:
                if last_use[name] == done:
                    del recorded[name]
    summary: dict[str, Any] = {"seed": 0, "units": checked, "worst_lsb": worst, "over": over, "not_checked": missing}
    replaced = [n for n in drawn if drawn[n].dtype.kind in "iu" and not np.array_equal(feed[n], drawn[n])]
    if replaced:
        summary["integers"] = int(feed[replaced[0]].flat[0])
    del simulator, recorded, feed, drawn
    return_free_memory()
    return summary | ({"cancelling": cancelling} if cancelling else {})


@dataclass(slots=True)
class _UnitResult:
    """The comparison of one unit's outputs: names beyond the limit, names that show nothing, names of normalizations
    that cancel, and the largest distance of a quantized output."""

    over: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    cancelling: list[str] = field(default_factory=list)
    worst_lsb: float = 0.0


def _compare_outputs(
    unit: Unit, graph: Graph, recorded: Mapping[str, Any], outputs: Mapping[str, npt.NDArray[Any]]
) -> _UnitResult:
    """Compares the simulator's outputs of a unit with the recorded ones."""
    result = _UnitResult()
    for name, value in outputs.items():
        if np.array_equal(value, recorded[name]):
            continue
        distance = _distance(value, recorded[name])
        if graph.spec(name).quantized:
            result.worst_lsb = max(result.worst_lsb, distance)
        if not distance <= _limit(unit, name, graph, recorded):
            judgement = _judge_far_output(unit, name, graph, recorded, outputs)
            if judgement == "wrong":
                result.over.append(name)
                if _cancels(unit, name, graph, recorded):
                    result.cancelling.append(name)
            elif judgement == "nothing":
                result.unclear.append(name)
        elif value.dtype.kind == "f" and (np.isnan(value) & np.isnan(recorded[name])).any():
            result.unclear.append(name)
    return result


def _run_unit(simulator: Any, unit: Unit, recorded: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the unit's outputs, simulated from recorded inputs. Each step of a recurrence starts from the recorded
    state before it, because two correct kernels drift apart over many steps."""
    last, graph = unit.nodes[-1], simulator.graph
    if not hasattr(page(last.op), "simulate_steps"):
        outputs: Mapping[str, Any] = simulator.run_unit(unit, recorded)
        return outputs
    values = {n: recorded[n] for n in unit.inputs}
    for node in unit.nodes[:-1]:
        values |= simulate_node(graph, node, values)
    inputs = [None if n is None else graph.constants[n] if n in graph.constants else values[n] for n in last.inputs]
    stepwise = page(last.op).simulate_steps(last, inputs, graph, recorded[last.outputs[0]])  # type: ignore[attr-defined]
    return dict(zip(last.outputs, stepwise, strict=True))


def _judge_far_output(
    unit: Unit, name: str, graph: Graph, recorded: Mapping[str, Any], outputs: Mapping[str, npt.NDArray[Any]]
) -> Literal["right", "wrong", "nothing"]:
    """Returns what an output beyond its limit shows about the simulator, whose results are `outputs`.

    "nothing": onnxruntime read infinity, which integers cannot represent; or the simulator is right (NUMERICS.md
    section 4) and onnxruntime differs only because its float32 intermediates overflow or underflow, or by an error as
    large as its values. "right": the simulator is right, and onnxruntime's error is small compared to its values.
    "wrong": otherwise."""
    if any(_infinite(graph.spec(n), recorded[n]) for n in unit.inputs):
        return "nothing"
    plain = limit_for(unit, name, graph)
    limit, evaluated = choose_tie_aware_limit(plain, unit, name, graph)
    if not evaluated:
        return "wrong"
    values = {n: recorded[n] for n in (*unit.inputs, *unit.outputs)}
    # compare with the last state of the simulator's own steps
    is_last = is_stepwise(unit) and name == unit.nodes[-1].outputs[1]
    exact = ExactUnit(unit, name, graph, values, values, {**values, **outputs} if is_last else values)
    result = check_both(exact, recorded[name], outputs[name], limit, plain)
    if not isinstance(result, TieAwareResult) or not result.holds:
        return "wrong"
    if result.lost > 0:
        return "nothing"
    if result.reference_error is None:
        return "wrong"
    return "right" if result.reference_error <= SMALL * _largest(recorded[name]) else "nothing"


def _largest(value: npt.NDArray[Any]) -> float:
    """Returns the largest finite magnitude."""
    return float(np.abs(value[np.isfinite(value)]).max(initial=0.0))


def _cancels(unit: Unit, name: str, graph: Graph, recorded: Mapping[str, Any]) -> bool:
    """Returns whether the unit normalizes values that vary so little that the derived float32 error (NUMERICS.md
    section 4) itself exceeds the limit; onnxruntime's value shows nothing then."""
    if not any(node.op in ("group_norm", "layer_norm") for node in unit.nodes):
        return False
    largest_error = 0.5 if graph.spec(name).quantized else _limit(unit, name, graph, recorded)
    at = np.arange(recorded[name].size)
    try:
        return any(
            value.error is not None and not bool((value.error <= largest_error).all())
            for _, value in evaluate_unit(unit, name, graph, {n: recorded[n] for n in unit.inputs}, at)
        )
    except (NoBound, ValueError, IndexError):
        return False


def _limit(unit: Unit, name: str, graph: Graph, recorded: Mapping[str, Any]) -> float:
    """Returns the largest allowed distance of an output: 1 LSB, or for floats 2^-18 of the largest magnitude in the
    output or among the terms of its sums."""
    if graph.spec(name).quantized:
        return 1.0
    return 2.0**-18 * max(_largest(recorded[name]), _magnitude(unit, graph, recorded))


def _infinite(spec: TensorSpec, value: npt.NDArray[Any]) -> bool:
    """Returns whether a dequantized value of the tensor exceeds float32, as in a mask of the lowest float32."""
    if not spec.quantized:
        return False
    with np.errstate(over="ignore"):
        return bool(np.isinf(spec.dequantized(value).astype(np.float32)).any())


def _distance(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Returns the largest difference of two elements: 0 for equal infinities and for two NaN, infinity for NaN and a
    number."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.where(np.isnan(difference), np.inf, difference).max(initial=0.0))


def _magnitude(unit: Unit, graph: Graph, recorded: Mapping[str, Any]) -> float:
    """Returns the largest sum of the terms' magnitudes in an output of the unit's last node, 0.0 for an op that sums
    nothing. When terms of a float sum cancel, the error that remains is relative to this."""
    last = unit.nodes[-1]
    if not hasattr(page(last.op), "magnitude"):
        return 0.0
    values = {n: recorded[n] for n in unit.inputs}
    for node in unit.nodes[:-1]:
        values |= simulate_node(graph, node, values)
    inputs = [None if n is None else graph.constants[n] if n in graph.constants else values[n] for n in last.inputs]
    return float(page(last.op).magnitude(last, inputs, graph))  # type: ignore[attr-defined]
