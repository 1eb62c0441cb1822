"""Sums and means of floats that cancel, or that are long: onnxruntime's own order of summation shows, and nobody is blamed for it. A
fault in one element FAILS all the same, whichever side has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.compiler.compile_model import compile_model
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.units import units
from qverify.report.document import ReportDocument
from qverify.sides.reference import Reference
from qverify.sides.simulator import Simulator

from tests.ops.qdq import Qdq

Array = Any
Build = Callable[[Qdq, str], str]
Fault = Callable[[Array, Array, int], Array]  # y, the terms [..., N], and what the sum is divided by
LENGTH = 512


def _axes(m: Qdq, name: str = "axes") -> str:
    return m.constant(name, np.array([-1]))


SUMS: dict[str, Build] = {  # along the last axis of [1, 64, LENGTH]
    "ReduceSum": lambda m, x: m.op("ReduceSum", [x, _axes(m)], keepdims=1),
    "Einsum": lambda m, x: m.op("Einsum", [x], equation="abc->ab"),
    "CumSum": lambda m, x: m.op("CumSum", [x, m.constant("axis", np.array(-1))]),
}
MEANS: dict[str, Build] = {
    "ReduceMean": lambda m, x: m.op("ReduceMean", [x], axes=[-1]),
    "ReduceMean of opset 18": lambda m, x: m.op("ReduceMean", [x, _axes(m)]),
    "AveragePool": lambda m, x: m.op("AveragePool", [x], kernel_shape=[LENGTH]),
    "GlobalAveragePool": lambda m, x: m.op("GlobalAveragePool", [x]),
}
OPS = {**SUMS, **MEANS}


def centred(m: Qdq, x: str) -> str:
    """Returns the name of x without the mean of each row."""
    mean = m.op("ReduceMean", [x, _axes(m, "all")]) if m.opset >= 18 else m.op("ReduceMean", [x], axes=[-1])
    return m.op("Sub", [x, mean])


def without_an_element(y: Array, terms: Array, divisor: int) -> Array:
    changed = y.copy()
    changed.reshape(-1)[0] -= terms.reshape(-1)[0] / np.float32(divisor)
    return changed


def by_the_wrong_divisor(y: Array, terms: Array, divisor: int) -> Array:
    return (y * np.float32(LENGTH / (LENGTH - 1))).astype(np.float32)


def beside(y: Array, terms: Array, divisor: int) -> Array:
    """Off by twice the largest error of any float32 sum, in one element."""
    changed = y.copy()
    size = np.abs(terms).sum(-1).max() / divisor
    changed.reshape(-1)[-1] += np.float32(2 * (LENGTH + 2) * 2.0**-24 * size)
    return changed


@dataclass(frozen=True, slots=True)
class Planted:
    """A fault in the sums of one side."""

    side: str
    change: Fault


def judged(op: str, cancels: bool, fault: Planted | None = None) -> ReportDocument:
    m = Qdq("uint8", seed=3, opset=18 if "18" in op else 17)
    x = m.input((1, 64, LENGTH), -4096.0, 4096.0)
    terms = centred(m, x) if cancels else m.op("Add", [x, m.constant("more", np.float32(5000))])
    m.output(OPS[op](m, terms))
    compiled = compile_model(m.model().SerializeToString(), "m")
    assert compiled.graph.meta["check"]["over"] == []
    graph, prepared = compiled.graph, random_inputs(compiled.graph, 1)
    reference, simulator = Reference(compiled.integer_onnx, graph), Simulator(graph)
    sides = {"reference": reference.run(prepared), "simulator": simulator.run(prepared)}
    runs: Any = {"reference": reference.run_unit, "simulator": simulator.run_unit}
    if fault is not None:
        (sums,) = (u.name for u in units(graph) if u.inputs == (terms,))
        added = np.asarray(sides["simulator"].tensors[terms])
        recording, run = sides[fault.side], runs[fault.side]

        def change(made: Any) -> dict[str, Array]:
            tensors = dict(made)
            if sums in tensors:
                y = np.asarray(tensors[sums])
                tensors[sums] = fault.change(y, added, LENGTH if op in MEANS else 1)
                assert not np.array_equal(tensors[sums], y)
            return tensors

        recording.tensors, recording.digests = change(recording.tensors), {}
        runs[fault.side] = lambda unit, given: change(run(unit, given))
    return judge_all(sides, graph, units(graph), Options(dump_all=True), runs, None, prepared.arrays())


@pytest.mark.parametrize("cancels", [True, False])
@pytest.mark.parametrize("op", OPS)
def test_a_correct_board_passes(op: str, cancels: bool) -> None:
    assert judged(op, cancels).verdict == "PASSED"


@pytest.mark.parametrize("cancels", [True, False])
@pytest.mark.parametrize("change", [without_an_element, by_the_wrong_divisor, beside])
@pytest.mark.parametrize("op", OPS)
def test_a_fault_of_the_board_fails(op: str, change: Fault, cancels: bool) -> None:
    report = judged(op, cancels, Planted("simulator", change))
    assert report.verdict == "FAILED" and report.blame is not None


@pytest.mark.parametrize("cancels", [True, False])
@pytest.mark.parametrize("change", [without_an_element, by_the_wrong_divisor, beside])
@pytest.mark.parametrize("op", OPS)
def test_a_reference_that_is_beyond_the_bound_fails(op: str, change: Fault, cancels: bool) -> None:
    """So does a compiler that left the element out on all of its own sides. A wrong divisor of what cancels is within the bound."""
    unseen = cancels and change is by_the_wrong_divisor and op != "CumSum"
    assert judged(op, cancels, Planted("reference", change)).verdict == ("PASSED" if unseen else "FAILED")


def test_a_fault_of_one_last_place_of_the_board_fails() -> None:
    """The board's sums are exact, whatever the reference's are."""

    def step(y: Array, terms: Array, divisor: int) -> Array:
        return np.nextafter(np.nextafter(y, np.float32(9e9)), np.float32(9e9))

    assert judged("ReduceMean", False, Planted("simulator", step)).verdict == "FAILED"


LONG: dict[str, Build] = {  # onnxruntime adds along the first axis in its order, off by up to N / 6 roundoffs
    "ReduceMean": lambda m, x: m.op("ReduceMean", [x], axes=[0], keepdims=0),
    "ReduceL1": lambda m, x: m.op("ReduceL1", [x], axes=[0], keepdims=0),
    "ReduceSumSquare": lambda m, x: m.op("ReduceSumSquare", [x], axes=[0], keepdims=0),
    "ReduceL2": lambda m, x: m.op("ReduceL2", [x], axes=[0], keepdims=0),
    "ReduceLogSum": lambda m, x: m.op("ReduceLogSum", [x], axes=[0], keepdims=0),
    "LpNormalization 1": lambda m, x: m.op("LpNormalization", [x], axis=0, p=1),
    "LpNormalization 2": lambda m, x: m.op("LpNormalization", [x], axis=0, p=2),
    "CumSum": lambda m, x: m.op("CumSum", [x, m.constant("axis", np.array(0))]),
    "Softmax": lambda m, x: m.op("Softmax", [x], axis=0),
}


@pytest.mark.parametrize("op", LONG)
def test_a_long_sum_of_one_sign_passes(op: str) -> None:
    m = Qdq("uint8", seed=3)
    x = m.input((50176, 4), 0.0, 0.3)
    m.output(LONG[op](m, m.op("Add", [x, m.constant("more", np.float32(0.1))])))
    compiled = compile_model(m.model().SerializeToString(), "m")
    assert compiled.graph.meta["check"]["over"] == []
    graph, prepared = compiled.graph, random_inputs(compiled.graph, 1)
    reference, simulator = Reference(compiled.integer_onnx, graph), Simulator(graph)
    sides = {"reference": reference.run(prepared), "simulator": simulator.run(prepared)}
    runs: Any = {"reference": reference.run_unit, "simulator": simulator.run_unit}
    report = judge_all(sides, graph, units(graph), Options(dump_all=True), runs, None, prepared.arrays())
    assert report.verdict == "PASSED"
