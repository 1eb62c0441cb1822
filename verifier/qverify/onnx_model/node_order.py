"""Sorts the nodes of a graph into running order, and walks through the subgraphs of nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import onnx

from qverify.errors import BadFileError


def sort_nodes(graph: onnx.GraphProto, name: str) -> None:
    """Sorts the nodes, in place, so that each comes after those that compute its inputs; a graph that is already in
    such an order is not changed. Raises BadFileError for a cycle and for a tensor that two nodes compute."""
    nodes = list(graph.node)
    makers = _makers(nodes, name)
    waits = [{makers[n] for n in outer_reads(node) if n in makers} for node in nodes]
    readers: dict[int, list[int]] = {}
    for at, needed in enumerate(waits):
        for maker in needed:
            readers.setdefault(maker, []).append(at)
    if all(maker < at for at, needed in enumerate(waits) for maker in needed):
        return
    ready, order = [at for at, needed in reversed(list(enumerate(waits))) if not needed], list[int]()
    while ready:
        order.append(ready.pop())
        for reader in reversed(readers.get(order[-1], [])):
            waits[reader].discard(order[-1])
            if not waits[reader]:
                ready.append(reader)
    if len(order) < len(nodes):
        stuck = nodes[min(set(range(len(nodes))) - set(order))]
        raise BadFileError(
            f"{name}: node {stuck.name or stuck.output[0]!r} ({stuck.op_type}) waits for its own result: the graph has a cycle"
        )
    copies = [onnx.NodeProto.FromString(nodes[at].SerializeToString()) for at in order]
    del graph.node[:]
    graph.node.extend(copies)


def _makers(nodes: list[onnx.NodeProto], name: str) -> dict[str, int]:
    """Returns the position of the node that computes each tensor. Raises BadFileError if two nodes compute the same."""
    makers: dict[str, int] = {}
    for at, node in enumerate(nodes):
        for output in filter(None, node.output):
            if makers.setdefault(output, at) != at:
                raise BadFileError(f"{name}: two nodes make the tensor {output!r}; rename one of them")
    return makers


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """Yields every tensor that the node reads, also inside its subgraphs."""
    for inner in inner_nodes(node):
        yield from inner.input
        for graph in graphs_of(inner):
            yield from (o.name for o in graph.output)


def computing_nodes(
    nodes: Sequence[onnx.NodeProto], makers: Mapping[str, int], given: Collection[str], outputs: Iterable[str]
) -> tuple[list[onnx.NodeProto], set[str]]:
    """Returns the nodes that compute `outputs` from the tensors `given` and from constants, in the order of `nodes`, and
    every tensor that is an output or is read by one of them. makers: the position in `nodes` of each tensor's node."""
    positions, used, todo = set[int](), set[str](), list(outputs)
    while todo:
        name = todo.pop()
        used.add(name)
        if name not in given and (at := makers.get(name)) is not None and at not in positions:
            positions.add(at)
            todo += [n for n in reads(nodes[at]) if n]
    return [nodes[at] for at in sorted(positions)], used


def outer_reads(node: onnx.NodeProto) -> set[str]:
    """Returns the tensors outside of the node that it reads, also inside its subgraphs, which may define others of the
    same names."""
    names = set(node.input)
    for graph in graphs_of(node):
        inner = {o.name for o in graph.output}.union(*map(outer_reads, graph.node))
        own = {v.name for v in (*graph.input, *graph.initializer)} | {o for n in graph.node for o in n.output}
        names |= inner - own
    return names - {""}


def inner_nodes(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Yields the node and all nodes of its subgraphs."""
    todo = [node]
    while todo:
        current = todo.pop()
        yield current
        for graph in graphs_of(current):
            todo += graph.node


def graphs_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Returns the node's subgraphs."""
    return [g for a in node.attribute for g in [*a.graphs, *([a.g] if a.HasField("g") else [])]]
