"""Makes a Graph of the part of another Graph between chosen tensors."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import may_be_interior


def find_needed_nodes(graph: Graph, outputs: Collection[str], given: Collection[str]) -> list[Node]:
    """Returns the nodes that compute `outputs` from `given`, in running order. Raises KeyError for a tensor that no
    node computes."""
    makers, nodes, todo = graph.producers(), dict[str, Node](), [n for n in outputs if n not in given]
    while todo:
        node = makers[todo.pop()]
        if node.name in nodes:
            continue
        nodes[node.name] = node
        todo += [n for n in node.inputs if n is not None and n not in given and n not in graph.constants]
    return [n for n in graph.nodes if n.name in nodes]


def cut(graph: Graph, given: Collection[str], outputs: tuple[str, ...]) -> Graph:
    """Returns the part of the graph that computes `outputs` from `given`. Given tensors that are not used are left
    out."""
    nodes = find_needed_nodes(graph, outputs, given)
    read = {n for node in nodes for n in node.inputs if n is not None}
    inputs = tuple(n for n in graph.tensors if n in given and (n in read or n in outputs))
    names = {*read, *inputs, *outputs, *(o for node in nodes for o in node.outputs)}
    part = Graph(
        nodes,
        {n: s for n, s in graph.tensors.items() if n in names},
        {n: v for n, v in graph.constants.items() if n in names},
        inputs,
        outputs,
        graph.rounding,
        graph.producer,
    )
    inside = may_be_interior(part)
    part.tensors = {n: replace(s, interior=s.interior and n in inside) for n, s in part.tensors.items()}
    return part
