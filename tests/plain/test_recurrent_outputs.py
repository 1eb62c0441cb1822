"""Recurrences whose outputs nobody names are compiled with all of them; what the names are is not what the file uses."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.compiler.compile_model import compile_model
from qverify.onnx_model.engine import Engine

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def model(kind: str, outputs: list[str], taken: str = "") -> bytes:
    """x -> Q -> DQ -> recurrence of 6 steps, of whose outputs those with a name are the model's. taken: the name of a tensor
    beside it."""
    rng = np.random.default_rng(2)
    held = {n: rng.normal(0, 0.5, (1, GATES[kind] * 4, k)).astype(np.float32) for n, k in (("w", 3), ("r", 4))}
    held |= {"s": np.array(0.02, np.float32), "z": np.array(128, np.uint8)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], [taken or "xq"], name="n0"),
        helper.make_node("DequantizeLinear", [taken or "xq", "s", "z"], ["xd"], name="n1"),
        helper.make_node(kind, ["xd", "w", "r"], outputs, name="node", hidden_size=4),
    ]
    named = [n for n in outputs if n]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", (6, 1, 3)), *((n, None) for n in named))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(v, n) for n, v in held.items()])
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )


@pytest.mark.parametrize(
    ("kind", "outputs", "wanted"),
    [
        ("LSTM", ["", "h"], ("node/Y", "h", "node/Y_c")),
        ("LSTM", ["", "", "c"], ("node/Y", "node/Y_h", "c")),
        ("LSTM", ["y"], ("y", "node/Y_h", "node/Y_c")),
        ("GRU", ["", "h"], ("node/Y", "h")),
        ("RNN", ["y", ""], ("y", "node/Y_h")),
    ],
)
def test_every_output_has_a_name(kind: str, outputs: list[str], wanted: tuple[str, ...]) -> None:
    source = model(kind, outputs)
    compiled = compile_model(source, "m")
    (node,) = [n for n in compiled.graph.nodes if n.op == kind.lower()]
    assert node.outputs == wanted and compiled.graph.outputs == tuple(n for n in outputs if n)
    check = compiled.graph.meta["check"]
    assert not check["over"] and not check["not_checked"]
    feed = {"x": np.random.default_rng(3).normal(0, 1, (6, 1, 3)).astype(np.float32)}
    untouched, ours = Engine(source).run(feed), Engine(compiled.integer_onnx).run(feed)
    assert all(np.array_equal(untouched[n], ours[n]) for n in untouched)


def test_a_name_that_is_taken() -> None:
    graph = compile_model(model("LSTM", ["", "h"], taken="node/Y"), "m").graph
    assert next(n for n in graph.nodes if n.op == "lstm").outputs == ("node/Y~", "h", "node/Y_c")
