"""Sequences of tensors that constants and shapes determine are written out; others stay on the host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from qverify.onnx_model.load import load
from qverify.onnx_model.open_exposed import open_exposed
from qverify.onnx_model.written_sequences import write_sequences_out

from tests.ops.qdq import Qdq
from tests.plain.island_models import compiled, conv
from tests.plain.verified_model import verified


def number(m: Qdq, *value: int) -> str:
    """A constant: a scalar of one number, else a vector."""
    return m.constant(f"n{len(m.constants)}", np.array(value[0] if len(value) == 1 else value, np.int64))


def drawn(m: Qdq, *shape: int) -> str:
    return m.op("Tanh", [m.input(shape)])


def parts_of_one(m: Qdq) -> None:
    """Splits along each axis: into rows with and without their dim, equal parts, a shorter last one, stated sizes."""
    x = drawn(m, 4, 5, 6)
    for axis, keep in ((0, 1), (1, 0), (-1, 0)):
        rows = m.op("SplitToSequence", [x], axis=axis, keepdims=keep)
        for at in (0, -1, 2):
            m.output(m.op("SequenceAt", [rows, number(m, at)]))
    for split, count in ((number(m, 2), 3), (number(m, 4), 2), (number(m, 1, 3, 2), 3)):
        parts = m.op("SplitToSequence", [x, split], axis=2)
        for at in range(count):
            m.output(m.op("SequenceAt", [parts, number(m, at)]))


def changed_lists(m: Qdq) -> None:
    """Inserts in front, in the middle, at the end and counted from it; erases; asks for the length."""
    a, b, c = (drawn(m, 2, 3) for _ in range(3))
    empty = m.op("SequenceEmpty", [])
    chain = m.op("SequenceInsert", [m.op("SequenceInsert", [empty, a]), b])
    for at in ((), (0,), (1,), (-1,)):
        longer = m.op("SequenceInsert", [chain, c, *(number(m, n) for n in at)])
        for place in range(3):
            m.output(m.op("Neg", [m.op("SequenceAt", [longer, number(m, place)])]))
        shorter = m.op("SequenceErase", [longer, number(m, 1)])
        m.output(m.op("Neg", [m.op("SequenceAt", [m.op("SequenceErase", [shorter]), number(m, 0)])]))
        length = m.op("Cast", [m.op("SequenceLength", [shorter])], to=int(TensorProto.FLOAT))
        m.output(m.op("Mul", [a, length]))


def joined_lists(m: Qdq) -> None:
    """Joins tensors, parts of one, and stacks them along a new axis in front, in the middle and at the end."""
    a, b, x = drawn(m, 2, 3), drawn(m, 2, 3), drawn(m, 4, 6)
    both = m.op("SequenceConstruct", [a, b])
    both = m.op("Identity", [both]) if m.opset >= 14 else both
    m.output(m.op("ConcatFromSequence", [both], axis=1))
    for axis in (0, 1, -1):
        m.output(m.op("ConcatFromSequence", [both], axis=axis, new_axis=1))
    parts = m.op("SplitToSequence", [x, number(m, 2)], axis=1)
    m.output(m.op("ConcatFromSequence", [parts], axis=0))
    m.output(m.op("ConcatFromSequence", [m.op("SequenceInsert", [parts, drawn(m, 4, 2), number(m, 1)])], axis=1))


FORMS: dict[str, Callable[[Qdq], None]] = {"parts": parts_of_one, "lists": changed_lists, "joined": joined_lists}


@pytest.mark.parametrize("opset", [11, 13, 17, 21])
@pytest.mark.parametrize("name", FORMS)
def test_values_are_those_of_onnxruntime(name: str, opset: int) -> None:
    m = Qdq(seed=3, opset=opset)
    FORMS[name](m)
    model = m.model()
    loaded = load(model.SerializeToString(), "unit.onnx")
    assert not [n.op_type for n in loaded.graph.node if "Sequence" in n.op_type]
    outputs = [o.name for o in model.graph.output]
    theirs, mine = (open_exposed(x, []).run(m.feed, outputs) for x in (model, loaded))
    assert all(np.array_equal(mine[o], theirs[o]) and mine[o].shape == theirs[o].shape for o in outputs)


@pytest.mark.parametrize("name", FORMS)
def test_they_are_verified(name: str, tmp_path: Path) -> None:
    m = Qdq(seed=4)
    FORMS[name](m)
    assert not verified(m.model(), tmp_path).islands


def computed_place(m: Qdq) -> None:
    """Chooses one element by a number that values decide, the other by a constant."""
    x = conv(m, m.input((1, 3, 6, 6)), 3, 4)
    halves = m.op("SplitToSequence", [x, number(m, 2)], axis=1)
    high = m.op("Greater", [m.op("ReduceSum", [x], keepdims=0), m.constant("zero", np.float32(0))])
    m.output(m.op("Neg", [m.op("SequenceAt", [halves, m.op("Cast", [high], to=int(TensorProto.INT64))])]))
    m.output(m.op("Abs", [m.op("SequenceAt", [halves, number(m, 1)])]))


def test_what_values_choose_stays_on_the_host() -> None:
    graph = compiled(computed_place)
    assert [n.op for i in graph.islands for n in i.nodes][:2] == ["SplitToSequence", "SequenceAt"]
    assert sum(n.op == "SequenceAt" for i in graph.islands for n in i.nodes) == 1


def test_a_sequence_that_is_an_output_stays() -> None:
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("SequenceAt", ["s", "one"], ["y"]),
        helper.make_node("SequenceConstruct", ["x"], ["unread"]),
    ]
    ends = [info("y", TensorProto.FLOAT, (2,)), helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, (2,))]
    one = helper.make_tensor("one", TensorProto.INT64, [], [1])
    graph = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, (2,))], ends, [one])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert write_sequences_out(model.graph, {"x": (TensorProto.FLOAT, (2,))}, 17)
    assert [n.op_type for n in model.graph.node] == ["SequenceConstruct", "Identity"]
    onnx.checker.check_model(model)
