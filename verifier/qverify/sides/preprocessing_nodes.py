"""The nodes in front of the network: what makes its inputs of the bytes that the board is fed (INPUTS.md section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from qverify import ops
from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.recording import Array

OPS = ("unpack", "resizer", "yuv_to_rgb", "normalize", "transpose")


def preprocessing_of(graph: Graph, names: Iterable[str]) -> list[Node]:
    """What makes these network inputs, in running order; [] where they are the graph's own. BadFileError where another
    op than those of preprocessing does it, or nothing."""
    makers, found, todo = graph.producers(), dict[str, Node](), [n for n in names if n not in graph.inputs]
    while todo:
        name = todo.pop()
        node = makers.get(name)
        if node is None or node.op not in OPS:
            raise BadFileError(f"model.bin: network input {name!r} is neither fed nor made by preprocessing nodes")
        found[node.name] = node
        todo += [n for n in node.inputs if n is not None and n not in graph.inputs and n not in graph.constants]
    return [node for node in graph.nodes if node.name in found]


def run_preprocessing(graph: Graph, nodes: list[Node], values: Mapping[str, Array]) -> dict[str, Array]:
    """Their outputs by name. values: of the graph inputs."""
    found: dict[str, Array] = {}
    for node in nodes:
        try:
            ops.words(node)
            found |= ops.simulate_node(graph, node, {**values, **found})
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
            raise BadFileError(f"model.bin node {node.name!r} ({node.op}): {error}") from error
    return found
