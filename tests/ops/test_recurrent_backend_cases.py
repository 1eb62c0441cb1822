"""ONNX's own backend node tests of LSTM, GRU and RNN: computed as ONNX says, or refused by name."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case import node as node_cases
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import QVerifyError
from qverify.ops import simulate_node

KINDS = ("LSTM", "GRU", "RNN")


def cases() -> dict[str, Any]:
    """Those that the modules of these kinds add when they are imported: to import them all takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in KINDS:
            importlib.import_module(f"{node_cases.__name__}.{kind.lower()}")
    return {c.name: c for c in node_cases._NodeTestCases if {n.op_type for n in c.model.graph.node} & set(KINDS)}


CASES = cases()


def quantized(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with weights as constants, and a QuantizeLinear of its own beside it: qverify takes quantized models only."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.graph.node.append(helper.make_node("QuantizeLinear", ["beside", "scale"], ["beside_q"], name="beside_n"))
    made.graph.input.append(helper.make_tensor_value_info("beside", TensorProto.FLOAT, (3,)))
    made.graph.output.append(helper.make_tensor_value_info("beside_q", TensorProto.UINT8, (3,)))
    made.graph.initializer.append(numpy_helper.from_array(np.float32(0.1), "scale"))
    return made


def test_every_case_is_here() -> None:
    kinds = {n.op_type for case in CASES.values() for n in case.model.graph.node}
    assert kinds == set(KINDS) and len(CASES) >= 12


@pytest.mark.parametrize("name", CASES)
def test_as_onnx_computes_it(name: str) -> None:
    model, (given, wanted) = CASES[name].model, CASES[name].data_sets[0]
    source = quantized(model).SerializeToString()
    if "batchwise" in name:  # layout=1
        with pytest.raises(QVerifyError, match=r"layout|Batchwise"):
            compile_model(source, "m", CompilerOptions(check=False))
        return
    graph = compile_model(source, "m", CompilerOptions(check=False)).graph
    (node,) = [n for n in graph.nodes if n.op in ("lstm", "gru", "rnn")]
    inputs = dict(zip((i.name for i in model.graph.input), given, strict=True))
    made = simulate_node(graph, node, inputs)
    for output, value in zip(model.graph.output, wanted, strict=True):
        assert np.allclose(made[output.name].reshape(value.shape), value, rtol=1e-5, atol=1e-6), output.name
