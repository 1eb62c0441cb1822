"""Activations of RNN, GRU and LSTM without activation_alpha and activation_beta have the parameters that onnxruntime takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.recurrences import RECURRENT
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.onnx_model.engine import Engine
from qverify.sides.simulator import Simulator
from qverify.tensors.prepared import PreparedInput, PreparedInputs

from tests.ops.cases.lstm import recurrence
from tests.ops.qdq import Qdq

FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}


def error_against_onnxruntime(kind: str, **attributes: Any) -> float:
    """The largest error of a recurrence's first output over one step, relative to the largest value."""
    m = Qdq()
    m.output(recurrence(m, kind, m.input((1, 2, 5)), (2, 5, 7), b=True, h=True, **attributes)[0])
    source = m.model().SerializeToString()
    graph = compile_model(source, "m", CompilerOptions(check=False)).graph
    feed = PreparedInputs(tuple(PreparedInput(graph.spec(n), v.tobytes(), "test") for n, v in m.feed.items()))
    ours, theirs = Simulator(graph).run(feed).tensors[m.outputs[0]], Engine(source).run(m.feed)[m.outputs[0]]
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1.0))


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("function", RECURRENT)
def test_no_parameters(function: str, kind: str) -> None:
    name = "".join(word.capitalize() for word in function.split("_"))
    assert error_against_onnxruntime(kind, activations=[name] * FUNCTIONS[kind]) < 1e-6


def test_parameters_of_the_first_activations_only() -> None:
    names = ["ScaledTanh", "Affine", "Tanh"]
    some = {"activation_alpha": [0.7], "activation_beta": [0.9]}
    assert error_against_onnxruntime("LSTM", activations=names, **some) < 1e-6
