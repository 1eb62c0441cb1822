"""Refuses operators that draw random numbers: no two runs of such a model agree, so that it cannot be verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from qverify.errors import UnsupportedError
from qverify.onnx_model.held_data import value_of
from qverify.onnx_model.node_order import graphs_of, reads

RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
Constants = Mapping[str, onnx.TensorProto]


def reason_it_draws(node: onnx.NodeProto, constants: Constants) -> str:
    """Returns why the node draws random numbers, or may draw them; "" if it does not. Its subgraphs are not looked at.

    constants: initializers by name, at least those that a Dropout reads."""
    if node.op_type in RANDOM:
        return f"{node.op_type} draws random numbers"
    training = node.input[2] if node.op_type == "Dropout" and len(node.input) > 2 else ""
    if training and (training not in constants or value_of(constants[training]).any()):
        return (
            "training_mode is not false, and a Dropout in training draws random numbers; export the model for inference"
        )
    return ""


def check_draws_nothing(model: onnx.ModelProto, name: str) -> None:
    """Raises UnsupportedError that names the first node on which an output depends that draws random numbers, also
    inside a subgraph. Nodes must be in running order and constants folded."""
    needed, constants = {o.name for o in model.graph.output}, _constants(model.graph)
    reasons: list[str] = []
    for node in reversed(model.graph.node):
        if needed.isdisjoint(node.output):
            continue
        needed.update(reads(node))
        inner = _with_inner_nodes(node, constants)
        reason = next((why for n, visible in inner if (why := reason_it_draws(n, visible))), "")
        if reason:
            reasons.append(f"node {node.name or next(filter(None, node.output))!r} ({node.op_type}): {reason}")
    if reasons:
        more = f" ({len(reasons)} such nodes in all)" if len(reasons) > 1 else ""
        raise UnsupportedError(
            f"{name}: {reasons[-1]}{more}. No two runs of the model agree, so it cannot be verified; replace what is drawn "
            "by a constant or an input, or cut the model before it"
        )


def _with_inner_nodes(node: onnx.NodeProto, constants: Constants) -> Iterator[tuple[onnx.NodeProto, Constants]]:
    """Yields the node and all nodes of its subgraphs, each with the constants that it may read."""
    yield node, constants
    for graph in graphs_of(node):
        visible = {**constants, **_constants(graph)}
        for inner in graph.node:
            yield from _with_inner_nodes(inner, visible)


def _constants(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """Returns the initializers and the values of Constant nodes, by name."""
    values = {
        n.output[0]: n.attribute[0].t for n in graph.node if n.op_type == "Constant" and n.attribute[0].HasField("t")
    }
    return values | {i.name: i for i in graph.initializer}
