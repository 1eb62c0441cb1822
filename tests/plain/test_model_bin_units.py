"""Which nodes forcing runs together, what may lie inside them, what a part of a graph is, and what linear nodes hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from qverify.model_bin.cut_graph import cut, find_needed_nodes
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.linear_nodes import choose_exact_dtype, read_requantization, whole_bias
from qverify.model_bin.units import Unit, may_be_interior, units
from qverify.tensors.spec import TensorSpec

U8 = {"scale": (0.5,), "zero_point": (3,)}


def graph() -> Graph:
    """x -> a -> d1 -> f -> s -> o, and b -> d2 -> f; d1, d2, f and s are floats inside; e is another output of o's unit."""
    inside = {"interior": True}
    specs = [
        TensorSpec("x", "uint8", (4,), **U8),
        TensorSpec("b", "uint8", (4,), **U8),
        TensorSpec("c", "float32", (4,)),
        TensorSpec("a", "uint8", (4,), **U8),
        TensorSpec("d1", "float32", (4,), **inside),
        TensorSpec("d2", "float32", (4,), **inside),
        TensorSpec("f", "float32", (4,)),
        TensorSpec("s", "float32", (4,), **inside),
        TensorSpec("o", "uint8", (4,), **U8),
        TensorSpec("p", "uint8", (4,), **U8),
    ]
    nodes = [
        Node("a", "abs", ("x",), ("a",)),
        Node("d1", "dequantize", ("a",), ("d1",)),
        Node("d2", "dequantize", ("b",), ("d2",)),
        Node("f", "add_float", ("d1", "d2", None, "c"), ("f",)),
        Node("s", "softmax_float", ("f",), ("s",), integer_reference=False),
        Node("o", "quantize", ("s",), ("o",)),
        Node("p", "quantize", ("s",), ("p",)),
    ]
    constants = {"c": np.zeros(4, np.float32)}
    return Graph(nodes, {s.name: s for s in specs}, constants, ("x", "b"), ("o", "p"), "gemmlowp", "maker")


def names(found: list[Node]) -> list[str]:
    return [n.name for n in found]


def test_units_of_a_graph() -> None:
    found = units(graph())
    assert [(u.name, u.op, names(list(u.nodes)), u.inputs, u.outputs, u.integer_reference) for u in found] == [
        ("a", "abs", ["a"], ("x",), ("a",), True),
        ("f", "add_float", ["d1", "d2", "f"], ("b", "a"), ("f",), True),
        ("o", "softmax_float", ["s", "o"], ("f",), ("o",), False),
        ("p", "softmax_float", ["s", "p"], ("f",), ("p",), False),
    ]


def test_a_unit_of_conversions_alone_and_of_several_operators() -> None:
    made = graph()
    made.nodes[3] = Node("f", "quantize", ("d1",), ("f",))
    assert next(u for u in units(made) if u.name == "f").op == "quantize"
    made.nodes[3] = Node("f", "add_float", ("d1", "d2"), ("f",))
    made.tensors["f"] = replace(made.tensors["f"], interior=True)
    unit = next(u for u in units(made) if u.name == "o")
    assert (unit.op, names(list(unit.nodes)), set(unit.inputs)) == (
        "add_float+softmax_float",
        ["d1", "d2", "f", "s", "o"],
        {"a", "b"},
    )


def test_a_conversion_read_twice_is_run_once() -> None:
    made = graph()
    made.nodes[3] = Node("f", "add_float", ("d1", "d1"), ("f",))
    assert names(list(units(made)[1].nodes)) == ["d1", "f"]


def test_a_node_with_one_output_inside_is_a_unit() -> None:
    made = graph()
    made.nodes[4] = Node("s", "split", ("f",), ("s", "s2"))
    made.tensors["s2"] = TensorSpec("s2", "float32", (4,))
    assert isinstance(made.nodes[4], Node) and [u.name for u in units(made)] == ["a", "f", "s", "o", "p"]
    assert all(isinstance(u, Unit) for u in units(made)) and units(made)[2].outputs == ("s", "s2")
    assert made.observable() == ["a", "f", "s2", "o", "p"]


def test_what_may_lie_inside() -> None:
    assert may_be_interior(graph()) == {"d1", "d2", "s"}
    unread = graph()
    unread.nodes = unread.nodes[:5]  # nothing reads s
    assert may_be_interior(unread) == {"d1", "d2"}
    assert may_be_interior(replace(graph(), outputs=("o", "p", "d2"))) == {"d1", "s"}


def preactivation(**changes: object) -> Graph:
    """q -> y/preactivation (no integer reference) -> y by a lookup."""
    spec = {"scale": (0.5,), "zero_point": (3,)}
    specs = [
        TensorSpec("q", "uint8", (4,), **spec),
        TensorSpec("y/preactivation", "uint8", (4,), **spec, integer_reference=False),
        TensorSpec("y", "uint8", (4,), **spec),
        TensorSpec("z", "uint8", (4,), **spec),
    ]
    nodes = [
        Node("y/preactivation", "abs", ("q",), ("y/preactivation",)),
        Node("y", "lookup", ("y/preactivation", "table"), ("y",)),
    ]
    return replace(Graph(nodes, {s.name: s for s in specs}, {}, ("q",), ("y",)), **changes)


def test_a_preactivation_may_lie_inside() -> None:
    assert may_be_interior(preactivation()) == {"y/preactivation"}
    held = preactivation()
    for name, change in (("y/preactivation", {"integer_reference": True}), ("y", {"interior": True})):
        tensors = {**held.tensors, name: replace(held.tensors[name], **change)}
        assert may_be_interior(preactivation(tensors=tensors)) == set(), name
    first, second = held.nodes
    for nodes in (
        [first, replace(second, op="clip")],
        [first, replace(second, name="z", outputs=("z",))],
        [first, second, Node("z", "lookup", ("y/preactivation",), ("z",))],
        [first],
    ):
        assert may_be_interior(preactivation(nodes=nodes)) == set()


def test_the_nodes_that_are_needed() -> None:
    made = graph()
    assert names(find_needed_nodes(made, ("o",), {"x", "b"})) == ["a", "d1", "d2", "f", "s", "o"]
    assert names(find_needed_nodes(made, ("o",), {"f"})) == ["s", "o"]
    assert names(find_needed_nodes(made, ("o", "p"), {"a", "d2"})) == ["d1", "f", "s", "o", "p"]
    assert find_needed_nodes(made, ("f",), {"f"}) == []
    with pytest.raises(KeyError):
        find_needed_nodes(made, ("o",), {"a"})  # b is no node's


def test_a_part_of_a_graph() -> None:
    made = graph()
    part = cut(made, {"a", "b", "x"}, ("f",))
    assert (names(part.nodes), part.inputs, part.outputs) == (["d1", "d2", "f"], ("b", "a"), ("f",))
    assert list(part.tensors) == ["b", "c", "a", "d1", "d2", "f"] and list(part.constants) == ["c"]
    assert (part.rounding, part.producer) == ("gemmlowp", "maker")
    assert [n for n, s in part.tensors.items() if s.interior] == ["d1", "d2"]
    shown = cut(made, {"f"}, ("s",))
    assert shown.inputs == ("f",) and not shown.spec("s").interior and shown.constants == {}
    through = cut(made, {"x", "f"}, ("f", "o"))
    assert (names(through.nodes), through.inputs) == (["s", "o"], ("f",))
    assert made.spec("s").interior and through.spec("s").interior and not through.spec("f").interior


def linear(x: str, y: str, words: tuple[int, ...] = (9, -5, 6)) -> tuple[Node, Graph]:
    specs = [TensorSpec("x", x, (2, 2), (), (0.5,), (7,)), TensorSpec("w", "int8", (2, 2))]
    specs += [TensorSpec("rq", "float32", (2,)), TensorSpec("y", y, (2, 2), (), (0.5,), (3,))]
    constants = {"w": np.ones((2, 2), np.int8), "rq": np.array([0.5, 0.25], np.float32)}
    node = Node("y", "any", ("x", "w", None, "rq"), ("y",), words)
    return node, Graph([node], {s.name: s for s in specs}, constants, ("x",), ("y",), "gemmlowp")


@pytest.mark.parametrize(
    ("x", "y", "wide"), [("int8", "uint8", False), ("int16", "int8", True), ("int8", "int16", True)]
)
def test_where_an_accumulator_goes(x: str, y: str, wide: bool) -> None:
    node, made = linear(x, y)
    found = read_requantization(node, made)
    assert found.rq is made.constants["rq"]
    fields = (found.zero_point, found.low, found.high, found.dtype, found.rounding, found.wide, found.axis)
    assert fields == (3, -5, 6, y, "gemmlowp", wide, 1)
    assert read_requantization(node, made, 3).axis == 3


def test_the_weights_type_does_not_make_the_rq_count() -> None:
    """Only the two operands and the output decide how wide an accumulator is."""
    node, made = linear("int8", "int8")
    made.tensors["rq"] = TensorSpec("rq", "int16", (2,))
    assert not read_requantization(replace(node, inputs=("x", "w", "rq")), made).wide
    made.tensors["w"] = TensorSpec("w", "int16", (2, 2))
    assert read_requantization(node, made).wide


def test_a_bias_is_a_term_of_the_sum_if_it_is_whole() -> None:
    node, made = linear("int8", "int8")
    for values in (np.arange(2, dtype=np.int32), np.arange(2, dtype=np.float32)):
        made.constants["bias"] = values
        found = whole_bias(replace(node, inputs=("x", "w", "bias", "rq")), made, 2)
        assert (found is values) == (values.dtype == np.int32) and (found is None) != (found is values)
    assert whole_bias(replace(node, inputs=("x", "w", None, "rq")), made, 2) is None
    made.constants["bias"] = np.arange(2, dtype=np.int32)
    with pytest.raises(ValueError, match="for 3 output channels"):
        whole_bias(replace(node, inputs=("x", "w", "bias", "rq")), made, 3)


@pytest.mark.parametrize(
    ("x", "row", "bias", "wanted"),
    [  # x - 7 of int8 is -135 to 120: a partial sum of a row of one sign is at most 135 * 124275 = 2^24 - 91
        ("int8", [124275], None, np.float32),
        ("int8", [124275], [90], np.float32),
        ("int8", [-124275], [-90], np.float32),
        ("int8", [124275], [-91], np.float64),
        ("int8", [-124275], [91], np.float64),
        ("int8", [124276], None, np.float64),
        ("int8", [62137, 62138], None, np.float32),
        ("int8", [62138, 62138], None, np.float64),
        ("int8", [62138, -62138], None, np.float32),  # 135 * 62138 + 120 * 62138
        ("int8", [65793, -65793], [0], np.float32),  # 255 * 65793 = 2^24 - 1
        ("int8", [65793, -65793], [1], np.float64),
        ("int8", [65793, -65794], None, np.float64),
        ("int16", [2**40], None, np.int64),
        ("int8", [1], [-(2**31)], np.float64),
    ],
)
def test_the_type_that_holds_every_sum(x: str, row: list[int], bias: list[int] | None, wanted: type) -> None:
    """The row is the larger of two."""
    node, made = linear(x, "int8")
    weights, added = np.array([[0] * len(row), row]), None if bias is None else np.array([5, *bias])
    assert choose_exact_dtype(node, made, weights, added) == np.dtype(wanted)
