"""Which node computes a tensor, which constants it has, and what is not paired."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from qverify.onnx_model.graph_view import GraphView
from qverify.triage.float_pairing import (
    FloatPair,
    FloatPairs,
    _constant,
    _core,
    _dequantized,
    _one_scale,
    _Pairing,
    pair_float,
)
from qverify.triage.loss import Losses

from tests.plain.test_float_pairing import changed, folder, views
from tests.plain.test_triage_differences import view

Array = Any
assert folder  # a fixture


def model(nodes: list[Any], *constants: tuple[str, Array]) -> GraphView:
    """Reads x, makes y, both [4]."""
    ends = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [4]) for n in "xy"]
    held = [numpy_helper.from_array(value, name) for name, value in constants]
    return GraphView(helper.make_model(helper.make_graph(nodes, "made", ends[:1], ends[1:], held)), "made")


def test_an_activation_belongs_to_the_node_before_it() -> None:
    assert _core(view(), "a").op_type == "Relu"  # of the network's input
    assert _core(view(), "x") is None
    node = helper.make_node
    dequantize = node("DequantizeLinear", ["q", "s"], ["d"])
    assert _core(model([dequantize, node("Relu", ["d"], ["y"])]), "y").op_type == "Relu"
    assert _core(model([node("Neg", ["x"], ["n"]), node("Relu", ["n"], ["y"])]), "y").op_type == "Neg"
    assert _core(model([node("Clip", ["x"], ["n"]), node("Relu", ["n"], ["y"])]), "y").op_type == "Relu"


def test_the_constants_of_a_quantized_node() -> None:
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    w, scale, zero = np.array([[[5]], [[9]]], np.int8), np.array([0.5, 0.25], np.float32), np.array([1, -1], np.int8)
    held = [("xs", np.float32([2])), ("w", w), ("ws", scale), ("wz", zero), ("b", np.array([6, 8], np.int32))]
    whole = model([helper.make_node("QLinearConv", names, ["y"])], *held)
    (node,) = whole.nodes
    weights, bias = _constant(whole, node, 1), _constant(whole, node, 2)
    assert weights is not None and weights.reshape(-1).tolist() == [2, 2.5]
    assert bias is not None and bias.tolist() == [6, 4]
    assert _constant(whole, node, 0) is None and _constant(whole, node, 3) is None
    short = model([helper.make_node("QLinearConv", names[:-1], ["y"])], *held[:-1])
    assert _constant(short, short.nodes[0], 2) is None  # it has no bias
    other = model([helper.make_node("QLinearAdd", names[:8], ["y"])], *held)
    assert _constant(other, other.nodes[0], 1) is None and _constant(other, other.nodes[0], 9) is None
    plain = model([helper.make_node("Conv", ["x", "c"], ["y"])], ("c", np.ones((1, 1, 1), np.float32)))
    assert _constant(plain, plain.nodes[0], 2) is None
    assert _one_scale(whole, node, [1]) is False and _one_scale(whole, node, []) is None
    same = model([helper.make_node("Conv", ["x", "k", "c"], ["y"])], ("k", np.ones((2, 1, 1), np.float32)),
                 ("c", np.ones(3, np.float32)))  # fmt: skip
    found = _dequantized(whole, node, same, same.nodes[0])
    assert list(found) == [1] and found[1].shape == (2, 1, 1)  # a bias of another length is left out
    assert _dequantized(short, short.nodes[0], same, same.nodes[0]).keys() == {1}
    assert _dequantized(whole, node, plain, helper.make_node("MatMul", ["x", "c"], ["y"])) == {}


def test_each_float_tensor_is_taken_once(folder: Path) -> None:
    pairing = _Pairing(*views(folder, "float", "qdq"))
    found = pairing.run()
    assert pairing.taken == {p.tensor for p in found.pairs}
    assert pairing._why_unpaired(found.pairs[0].quantized) == f"{found.pairs[0].tensor} is already paired"


def test_a_tensor_is_found_by_the_name_it_has_after_it_was_quantized(folder: Path) -> None:
    """Where only what is read of it kept its name."""
    _, quant, graph = views(folder, "float", "qdq")
    quantize = next(n for n in quant.nodes if n.op_type == "QuantizeLinear" and n.input[0] == "r1")
    (after,) = [n for n in quant.consumers[quantize.output[0]] if n.op_type == "DequantizeLinear"][:1]
    maker, old = quant.producer["r1"], str(after.output[0])
    readers = quant.consumers[old]
    maker.output[0], quantize.input[0] = "inner", "inner"
    quant.producer["inner"] = maker
    for reader in readers:
        reader.input[:] = ["r1" if n == old else n for n in reader.input]
    after.output[0] = "r1"
    quant.consumers["r1"], quant.producer["r1"] = readers, after
    floats, _, _ = views(folder, "float", "qdq")
    pairs = {p.tensor: p for p in pair_float(floats, quant, graph).pairs}
    assert (pairs["r1"].how, pairs["r1"].quantized) == ("suffix", quantize.output[0])


def test_nothing_is_paired_where_the_input_is_another(folder: Path) -> None:
    _, quant, graph = views(folder, "other", "qdq")

    def other(given: Any) -> None:
        given.input.append(helper.make_tensor_value_info("z", 1, [1]))
        given.input[0].name = "image"
        for node in given.node:
            node.input[:] = ["image" if n == "x" else n for n in node.input]

    found = pair_float(changed(folder, other), quant, graph)
    assert {p.tensor for p in found.pairs} <= {"y", "other_y"} and "x" not in found.inputs


def test_of_one_node_in_a_place_the_weights_do_not_matter(folder: Path) -> None:
    _, quant, graph = views(folder, "other", "qdq")

    def other(given: Any) -> None:
        held = next(i for i in given.initializer if i.name == "w3")
        held.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(held), "w3"))

    found = pair_float(changed(folder, other), quant, graph)
    assert {p.tensor: p.how for p in found.pairs}["other_c3"] == "structure"


def test_only_a_node_of_the_same_operator_and_inputs_fits(folder: Path) -> None:
    _, quant, graph = views(folder, "other", "qdq")

    def more(given: Any) -> None:
        given.node.insert(4, helper.make_node("Neg", ["other_r1"], ["turned"], "turned"))
        sums = next(n for n in given.node if n.op_type == "Add")
        given.node.append(helper.make_node("Add", [*sums.input[:1], *sums.input[:1]], ["twice"], "twice"))

    pairs = {p.tensor: p.how for p in pair_float(changed(folder, more), quant, graph).pairs}
    assert pairs["other_c3"] == pairs["other_a"] == "structure" and not {"turned", "twice"} & pairs.keys()


def test_a_tensor_that_is_taken_does_not_fit(folder: Path) -> None:
    _, quant, graph = views(folder, "other", "qdq")

    def same(given: Any) -> None:
        given.node.insert(4, helper.make_node("Conv", ["other_r1", "w3", "b3"], ["twin"], "twin"))

    pairing = _Pairing(changed(folder, same), quant, graph)
    pairing.taken.add("other_c3")
    assert {p.tensor: p.how for p in pairing.run().pairs}["twin"] == "structure"


def test_an_activation_that_is_quantized_by_itself_is_not_passed() -> None:
    node = helper.make_node
    floats = model([node("Neg", ["x"], ["c"]), node("Relu", ["c"], ["y"])])
    start = [node("Neg", ["x"], ["c"]), node("QuantizeLinear", ["c", "s"], ["q"]),
             node("DequantizeLinear", ["q", "s"], ["d"])]  # fmt: skip
    scale = ("s", np.array(0.5, np.float32))
    outside = model([*start, node("Relu", ["d"], ["y"])], scale)
    further = model([*start, node("Abs", ["q"], ["n"]), node("Relu", ["n"], ["y"])], scale)
    for quant, found in ((outside, "c"), (further, "y")):
        assert _Pairing(floats, quant, None)._after_activation("c", "q") == found  # type: ignore[arg-type]


def test_how_near_weights_of_one_node_are(folder: Path) -> None:
    """A quarter of their size apart."""
    floats, quant, graph = views(folder, "float", "qdq")
    pairing = _Pairing(floats, quant, graph)
    found = {p.tensor: p for p in pairing.run().pairs}
    node = next(n for n in floats.nodes if n.name == "conv3")
    mine = pairing._core_of(found["c3"].quantized)
    for share, same in ((0.24, True), (0.26, False), (-0.24, True), (-0.26, False)):
        floats.constants[node.input[1]] = found["c3"].weights[1] / np.float32(1 - share)
        assert pairing._has_same_weights(mine, node) is same


def test_the_axis_of_the_output_channels() -> None:
    node = helper.make_node
    nodes = [node("Conv", ["x", "w"], ["a"], "conv"), node("ConvTranspose", ["a", "w"], ["b"], "back"),
             node("Gemm", ["b", "w"], ["c"], "gemm"), node("Gemm", ["c", "w"], ["d"], "turned", transB=1),
             node("MatMul", ["d", "w"], ["y"], "product")]  # fmt: skip
    losses = Losses(FloatPairs([], {}, {}, {}, []), model(nodes), None)  # type: ignore[arg-type]
    axes = {n.name: losses._channel_axis(FloatPair("t", "q", "name", n.name)) for n in nodes}
    assert axes == {"conv": 0, "back": 1, "gemm": -1, "turned": 0, "product": -1}
