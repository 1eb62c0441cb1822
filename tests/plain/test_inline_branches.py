"""An If with a constant condition becomes the nodes of the branch that is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.compiler.compile_model import compile_model
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.load import load

node = helper.make_node
FLOAT = TensorProto.FLOAT


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, None)


def branch(nodes: list[onnx.NodeProto], outputs: list[str], **constants: Any) -> onnx.GraphProto:
    initializers = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    return helper.make_graph(nodes, "branch", [], [value(n) for n in outputs], initializers)


def choice(condition: str, then: onnx.GraphProto, other: onnx.GraphProto, outputs: list[str]) -> onnx.NodeProto:
    return node("If", [condition], outputs, name=f"if_{outputs[0]}", then_branch=then, else_branch=other)


def model(nodes: list[onnx.NodeProto], outputs: list[str], **constants: Any) -> bytes:
    """x (3, 4) -> Q -> DQ -> d, then the nodes."""
    held = {"s": np.float32(0.02), "z": np.uint8(128), "yes": np.array(True), "no": np.array([False]), **constants}
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["d"]), *nodes]
    initializers = [numpy_helper.from_array(np.asarray(v), n) for n, v in held.items()]
    x = helper.make_tensor_value_info("x", FLOAT, (3, 4))
    graph = helper.make_graph(nodes, "g", [x], [value(n) for n in outputs], initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


RELU, NEG = branch([node("Relu", ["d"], ["t"])], ["t"]), branch([node("Neg", ["d"], ["t"])], ["t"])
LOCAL = branch([node("Add", ["d", "c"], ["t"])], ["t"], c=np.float32(3))  # a constant of its own, named as the graph's
OUTER = branch([node("Identity", ["d"], ["t"])], ["t"])
TWICE = branch([node("Mul", ["d", "c"], ["t"]), node("Neg", ["t"], ["u"])], ["t", "u"])
INNER = branch([node("Constant", [], ["k"], value_float=2.0), choice("no", NEG, LOCAL, ["v"])], ["v"])
NESTED = branch(
    [node("Neg", ["d"], ["w"]), choice("yes", branch([node("Relu", ["w"], ["t"])], ["t"]), RELU, ["v"])], ["v"]
)
BY_VALUE = branch(  # an If that stays, inside the branch that is taken, and reads one of its tensors
    [
        node("Mul", ["d", "c"], ["t"]),
        choice(
            "positive", branch([node("Neg", ["t"], ["n"])], ["n"]), branch([node("Relu", ["d"], ["o"])], ["o"]), ["v"]
        ),
    ],
    ["v"],
)
POSITIVE = [node("ReduceMax", ["x"], ["m"], keepdims=0), node("Greater", ["m", "c"], ["positive"])]
SHAPE = [
    node("Shape", ["d"], ["shape"]), node("Gather", ["shape", "one"], ["dim"], axis=0), node("Equal", ["dim", "one"], ["is_one"]),
]  # fmt: skip

CASES: dict[str, tuple[list[onnx.NodeProto], list[str]]] = {
    "then": ([choice("yes", RELU, NEG, ["y"])], ["y"]),
    "else": ([choice("no", RELU, NEG, ["y"])], ["y"]),
    "by shape": ([*SHAPE, choice("is_one", RELU, NEG, ["y"])], ["y"]),
    "names twice": ([choice("yes", RELU, NEG, ["a"]), choice("no", RELU, LOCAL, ["b"]), node("Add", ["a", "b"], ["y"])], ["y"]),
    "a tensor from outside": ([choice("yes", OUTER, NEG, ["y"])], ["y"]),
    "two outputs": ([choice("yes", TWICE, TWICE, ["y", "y2"])], ["y", "y2"]),
    "an output that nobody reads": ([choice("yes", TWICE, TWICE, ["y", "y2"])], ["y"]),
    "nested": ([choice("yes", NESTED, RELU, ["a"]), choice("yes", INNER, RELU, ["b"]), node("Add", ["a", "b"], ["y"])], ["y"]),
    "an If that stays": ([*POSITIVE, choice("yes", BY_VALUE, RELU, ["a"]), choice("no", NEG, RELU, ["b"]), node("Add", ["a", "b"], ["y"])], ["y"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_values_stay(name: str) -> None:
    nodes, outputs = CASES[name]
    source = model(nodes, outputs, c=np.float32(1.5), one=np.array(1))
    loaded = load(source, "m")
    ifs = [n for n in loaded.graph.node if n.op_type == "If"]
    assert [n.input[0] for n in ifs] == (["positive"] if name == "an If that stays" else [])
    names = [o for n in loaded.graph.node for o in n.output] + [i.name for i in loaded.graph.initializer]
    assert len(names) == len(set(names))
    feed = {"x": np.random.default_rng(5).normal(0, 1, (3, 4)).astype(np.float32)}
    theirs, ours = Engine(source).run(feed), Engine(loaded.SerializeToString()).run(feed)
    assert list(theirs) == outputs and all(np.array_equal(theirs[n], ours[n]) for n in outputs)


def test_nothing_is_left_to_the_host() -> None:
    graph = compile_model(model([*SHAPE, choice("is_one", RELU, NEG, ["y"])], ["y"], one=np.array(1)), "m").graph
    assert [n.op for n in graph.nodes] == ["quantize", "dequantize", "elementwise_float"] and not graph.islands


def test_a_recurrence_in_a_branch_has_all_its_outputs() -> None:
    inner = branch([node("RNN", ["d3", "w", "r"], ["", "t"], name="rnn", hidden_size=2)], ["t"])
    shaped = node("Unsqueeze", ["d", "first"], ["d3"])
    held = {n: np.ones((1, 2, k), np.float32) for n, k in (("w", 4), ("r", 2))}
    source = model([shaped, choice("yes", inner, inner, ["y"])], ["y"], first=np.array([0]), **held)
    assert [n.outputs for n in compile_model(source, "m").graph.nodes if n.op == "rnn"] == [("rnn/Y", "y")]
