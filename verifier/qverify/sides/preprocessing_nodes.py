"""The preprocessing nodes, which compute the network's inputs from the bytes that the board receives (INPUTS.md section
7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from qverify import ops
from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.recording import Array

OPS = ("unpack", "resizer", "yuv_to_rgb", "normalize", "transpose")


def preprocessing_of(graph: Graph, names: Iterable[str]) -> list[Node]:
    """Returns the nodes that compute these network inputs, in running order, or [] if they are inputs of the graph.
    Raises BadFileError if an input is computed by no node, or by an op that is not one of preprocessing."""
    makers, nodes, todo = graph.producers(), dict[str, Node](), [n for n in names if n not in graph.inputs]
    while todo:
        name = todo.pop()
        node = makers.get(name)
        if node is None or node.op not in OPS:
            raise BadFileError(
                f"model.bin: network input {name!r} is neither an input of the graph nor computed by preprocessing nodes"
            )
        nodes[node.name] = node
        todo += [n for n in node.inputs if n is not None and n not in graph.inputs and n not in graph.constants]
    return [node for node in graph.nodes if node.name in nodes]


def run_preprocessing(graph: Graph, nodes: list[Node], values: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the nodes' outputs by name. values: arrays of the graph's inputs. Raises BadFileError for a node that
    cannot run."""
    outputs: dict[str, Array] = {}
    for node in nodes:
        try:
            ops.words(node)
            outputs |= ops.simulate_node(graph, node, {**values, **outputs})
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
            raise BadFileError(f"model.bin node {node.name!r} ({node.op}): {error}") from error
    return outputs
