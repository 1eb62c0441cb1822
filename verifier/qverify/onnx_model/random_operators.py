"""Operators that draw random numbers: no two runs of a model with one agree, so that no side can be verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx
from onnx import numpy_helper

from qverify.errors import UnsupportedError
from qverify.onnx_model.node_order import graphs_of, reads

RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
Constants = Mapping[str, onnx.TensorProto]


def draws(node: onnx.NodeProto, constants: Constants) -> str:
    """Returns why the node draws random numbers, or may; "" where it does not. Of its graphs it knows nothing.
    constants: at least those that a Dropout reads."""
    if node.op_type in RANDOM:
        return f"{node.op_type} draws random numbers"
    training = node.input[2] if node.op_type == "Dropout" and len(node.input) > 2 else ""
    if training and (training not in constants or numpy_helper.to_array(constants[training]).any()):
        return (
            "training_mode is not false, and a Dropout in training draws random numbers; export the model for inference"
        )
    return ""


def check_draws_nothing(model: onnx.ModelProto, name: str) -> None:
    """Raises UnsupportedError naming the first node that draws random numbers on the way to an output, also inside a
    graph of a node. Nodes must be in running order, and what depends on constants alone computed."""
    needed, constants = {o.name for o in model.graph.output}, _constants(model.graph)
    found: list[str] = []
    for node in reversed(model.graph.node):
        if needed.isdisjoint(node.output):
            continue
        needed.update(reads(node))
        said = next((why for one, known in _inside(node, constants) if (why := draws(one, known))), "")
        if said:
            found.append(f"node {node.name or next(filter(None, node.output))!r} ({node.op_type}): {said}")
    if found:
        more = f" ({len(found)} such nodes in all)" if len(found) > 1 else ""
        raise UnsupportedError(
            f"{name}: {found[-1]}{more}. No two runs of the model agree, so it cannot be verified; replace what is drawn "
            "by a constant or an input, or cut the model before it"
        )


def _inside(node: onnx.NodeProto, known: Constants) -> Iterator[tuple[onnx.NodeProto, Constants]]:
    """Yields the node and all nodes of its graphs, each with the constants that it may read."""
    yield node, known
    for graph in graphs_of(node):
        within = {**known, **_constants(graph)}
        for inner in graph.node:
            yield from _inside(inner, within)


def _constants(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    values = {
        n.output[0]: n.attribute[0].t for n in graph.node if n.op_type == "Constant" and n.attribute[0].HasField("t")
    }
    return values | {i.name: i for i in graph.initializer}
