"""Replaces every If whose condition is a constant by the nodes of the branch that is taken. torch exports such an If
around Squeeze, with a condition that depends on shapes only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import onnx
from onnx import helper

from qverify.onnx_model.held_data import value_of
from qverify.onnx_model.node_order import graphs_of, inner_nodes


def inline_branches(graph: onnx.GraphProto) -> bool:
    """Replaces each If of the graph that has a constant condition, in place, and returns whether there was one.

    An If inside the branch that is taken remains, as a node of the graph. The outputs of the If keep their names;
    tensors of the branch get new ones where the graph has a tensor of the same name."""
    conditions = {i.name: i for i in graph.initializer if i.data_type == onnx.TensorProto.BOOL}
    branches = [_branch_taken(node, conditions) for node in graph.node]
    if all(branch is None for branch in branches):
        return False
    names, nodes = _Names(graph), list[onnx.NodeProto]()
    for node, branch in zip(graph.node, branches, strict=True):
        if branch is None:
            nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
            continue
        inlined = _Branch(branch, node, names)
        nodes += inlined.nodes()
        graph.initializer.extend(inlined.constants())
    del graph.node[:]
    graph.node.extend(nodes)
    return True


def _branch_taken(node: onnx.NodeProto, conditions: Mapping[str, onnx.TensorProto]) -> onnx.GraphProto | None:
    """Returns the branch of an If that is always taken, None for other nodes."""
    if node.op_type != "If" or node.domain not in ("", "ai.onnx") or node.input[0] not in conditions:
        return None
    value = value_of(conditions[node.input[0]])
    wanted = "then_branch" if value.size == 1 and value.reshape(-1)[0] else "else_branch"
    branch = next((a.g for a in node.attribute if a.name == wanted), None)
    usable = value.size == 1 and branch is not None and not branch.sparse_initializer
    return branch if usable else None


class _Names:
    """The names of all tensors of a graph, also inside the subgraphs of its nodes."""

    def __init__(self, graph: onnx.GraphProto):
        self._top = {v.name for v in (*graph.input, *graph.output, *graph.initializer)}
        self._top |= {o for node in graph.node for o in node.output}
        self._inside = Counter(name for node in graph.node for name in _defined_inside(node))

    def fresh(self, name: str, node: onnx.NodeProto) -> str:
        """Returns the name with `~` appended while a tensor outside of the node has it, and reserves it."""
        own = _defined_inside(node)
        while name in self._top or self._inside[name] > (name in own):
            name += "~"
        self._top.add(name)
        return name


def _defined_inside(node: onnx.NodeProto) -> set[str]:
    """Returns the names of the tensors that the node's subgraphs define."""
    graphs = [graph for inner in inner_nodes(node) for graph in graphs_of(inner)]
    return {v.name for g in graphs for v in (*g.input, *g.initializer)} | {
        o for g in graphs for inner in g.node for o in inner.output if o
    }


class _Branch:
    """The branch of one If. names: the names of the graph's tensors; new ones are added."""

    def __init__(self, branch: onnx.GraphProto, node: onnx.NodeProto, names: _Names):
        self._branch = branch
        self._ends = [(o.name, end) for o, end in zip(branch.output, node.output, strict=False) if end]
        made = {o for inner in branch.node for o in inner.output if o}
        self._renamed: dict[str, str] = {}
        for inside, end in self._ends:  # the first output that a tensor of the branch becomes gives it its name
            if inside in made:
                self._renamed.setdefault(inside, end)
        for name in (*sorted(made), *(i.name for i in branch.initializer)):
            if name not in self._renamed:
                self._renamed[name] = names.fresh(name, node)

    def nodes(self) -> Iterator[onnx.NodeProto]:
        """Yields the nodes of the branch, renamed, and an Identity for each output of the If that is another tensor."""
        for inner in self._branch.node:
            copy = onnx.NodeProto.FromString(inner.SerializeToString())
            rename(copy, self._renamed)
            yield copy
        for inside, end in self._ends:
            source = self._renamed.get(inside, inside)
            if source != end:
                yield helper.make_node("Identity", [source], [end], name=end)

    def constants(self) -> Iterator[onnx.TensorProto]:
        """Yields the branch's initializers, renamed."""
        for constant in self._branch.initializer:
            copy = onnx.TensorProto.FromString(constant.SerializeToString())
            copy.name = self._renamed[constant.name]
            yield copy


def rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Renames what the node reads and computes, in place, also what its subgraphs read from outside themselves."""
    node.input[:] = [names.get(n, n) for n in node.input]
    node.output[:] = [names.get(n, n) for n in node.output]
    for graph in graphs_of(node):
        own = {v.name for v in (*graph.input, *graph.initializer)} | {o for n in graph.node for o in n.output}
        outer = {n: to for n, to in names.items() if n not in own}
        for inner in graph.node:
            rename(inner, outer)
        for output in graph.output:
            output.name = outer.get(output.name, output.name)
