"""Huge and tiny values through operators whose onnxruntime kernels have float32 intermediates: the simulator is right and never FAILS,
and never for free: a fault in one element does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.units import units
from qverify.report.document import ReportDocument
from qverify.sides.reference import Reference
from qverify.sides.simulator import Simulator

from tests.ops.qdq import Qdq

Build = Callable[[Qdq, str], str]
REDUCED = ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd", "ReduceLogSumExp", "ReduceMean")


def _ones(m: Qdq, count: int) -> str:
    return m.constant("ones", np.ones(count, np.float32))


OPS: dict[str, Build] = {
    **{k: lambda m, x, k=k: m.op(k, [x], axes=[1], keepdims=0) for k in REDUCED},  # type: ignore[misc]
    "LpNormalization 1": lambda m, x: m.op("LpNormalization", [x], axis=1, p=1),
    "LpNormalization 2": lambda m, x: m.op("LpNormalization", [x], axis=1, p=2),
    "LayerNormalization": lambda m, x: m.op("LayerNormalization", [x, _ones(m, 4)], axis=-1),
    "LayerNormalization, epsilon 0": lambda m, x: m.op("LayerNormalization", [x, _ones(m, 4)], axis=-1, epsilon=0.0),
    "InstanceNormalization": lambda m, x: m.op("InstanceNormalization", [x, _ones(m, 6), _ones(m, 6)]),
    "Softmax": lambda m, x: m.op("Softmax", [x], axis=1),
    "LRN": lambda m, x: m.op("LRN", [x], size=3),
    "MatMul": lambda m, x: m.op("MatMul", [x, m.constant("w", m.rng.normal(0, 1, (4, 5)).astype(np.float32))]),
    "Sin": lambda m, x: m.op("Sin", [x]),
    "x / (norm + 1)": lambda m, x: m.op(
        "Div", [x, m.op("Add", [m.op("ReduceL2", [x], axes=[1], keepdims=1), _ones(m, 1)])]
    ),
}


def _recurrence(op: str, *functions: str) -> Build:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]

    def build(m: Qdq, x: str) -> str:
        sequence = m.op("Reshape", [x, m.constant("steps", np.array([6, 2, 8]))])
        weights = [m.rng.normal(0, 0.4, (1, gates * 6, k)).astype(np.float32) for k in (8, 6)]
        w, r = (m.constant(n, v) for n, v in zip("wr", weights, strict=True))
        return m.op(op, [sequence, w, r], hidden_size=6, activations=functions)

    return build


RECURRENT = {
    "LSTM": _recurrence("LSTM", "Sigmoid", "Relu", "Relu"),
    "LSTM, all gates": _recurrence("LSTM", "Sigmoid", "Tanh", "Tanh"),
    "GRU": _recurrence("GRU", "Sigmoid", "Relu"),
    "RNN": _recurrence("RNN", "Relu"),
}
OPS |= RECURRENT
SIZES = (9.0, 1e7, 1e19, 1e20, 3e37, 1e-19, 1e-30)


def judged(build: Build, size: float, fault: bool = False) -> ReportDocument:
    m = Qdq("uint8", seed=3)
    m.output(build(m, m.input((1, 6, 4, 4), -size, size)))
    compiled = compile_model(m.model().SerializeToString(), "m", CompilerOptions(check=False))
    graph, prepared = compiled.graph, random_inputs(compiled.graph, 1)
    reference, simulator = Reference(compiled.integer_onnx, graph), Simulator(graph)
    sides = {"reference": reference.run(prepared), "simulator": simulator.run(prepared)}
    if fault:
        (name,) = graph.outputs
        tensors = dict(sides["simulator"].tensors)
        value = tensors[name] = np.array(tensors[name])
        value.reshape(-1)[np.argmax(np.where(np.isfinite(value), np.abs(value), -1.0))] *= np.float32(1.01)
        sides["simulator"].tensors, sides["simulator"].digests = tensors, {}
    runs: Any = {"reference": reference.run_unit, "simulator": simulator.run_unit}
    return judge_all(sides, graph, units(graph), Options(dump_all=True), runs, None, prepared.arrays())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op", OPS)
def test_correct_hardware_never_fails(op: str, size: float) -> None:
    assert judged(OPS[op], size).verdict in (("PASSED",) if size == SIZES[0] else ("PASSED", "INCONCLUSIVE"))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("size", [9.0, 1e20])
@pytest.mark.parametrize("op", ["ReduceL2", "LpNormalization 2", "LayerNormalization", "x / (norm + 1)"])
def test_a_fault_of_one_percent_in_one_element_fails_all_the_same(op: str, size: float) -> None:
    report = judged(OPS[op], size, fault=True)
    assert report.verdict == "FAILED" and report.blame is not None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_compiler_is_not_blamed_for_what_the_original_cannot_compute() -> None:
    """Its own check compares with onnxruntime, too."""
    m = Qdq("uint8", seed=3)
    m.output(OPS["LpNormalization 2"](m, m.input((1, 6, 4, 4), -1e20, 1e20)))
    check = compile_model(m.model().SerializeToString(), "m").graph.meta["check"]
    assert check["over"] == [] and [n.split("2")[0] for n in check["not_checked"]] == ["lpnormalization"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("size", [3e38, 1e38, 1e36])
@pytest.mark.parametrize("op", RECURRENT)
def test_the_compiler_is_not_blamed_for_a_recurrence_whose_states_overflow(op: str, size: float) -> None:
    m = Qdq("uint8", seed=3)
    m.output(RECURRENT[op](m, m.input((1, 6, 4, 4), -size, size)))
    check = compile_model(m.model().SerializeToString(), "m").graph.meta["check"]
    assert check["over"] == [] and bool(check["not_checked"]) is (size == 3e38 and "all" not in op)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", RECURRENT)
def test_a_fault_in_a_recurrence_whose_states_overflow_fails_all_the_same(op: str) -> None:
    assert judged(RECURRENT[op], 1e34, fault=True).verdict == "FAILED"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_on_both_sides_shows_the_compiler_nothing() -> None:
    m = Qdq("uint8", seed=3)
    m.output(m.op("Log", [m.input((1, 6, 4, 4), -1, 1)]))
    check = compile_model(m.model().SerializeToString(), "m").graph.meta["check"]
    assert check["over"] == [] and check["not_checked"] == ["log2"]
