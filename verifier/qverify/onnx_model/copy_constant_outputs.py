"""Makes every constant that is an output of the graph the output of an Identity, which is computed like any node."""

from __future__ import annotations

import onnx
from onnx import helper

CONSTANT = ("Constant", "Shape", "Size")


def copy_constant_outputs(graph: onnx.GraphProto) -> None:
    """Renames initializers, and what Constant, Shape and Size return, if they are outputs of the graph, in place. An
    Identity returns each under its old name. Other nodes read the renamed one, or, of an initializer, a copy: they may
    read its integers with a scale, which those of the output do not have."""
    finals = {o.name for o in graph.output}
    taken = {i.name for i in graph.initializer} | {name for node in graph.node for name in node.output}
    renamed = dict[str, str]()
    nodes = list[onnx.NodeProto]()
    for initializer in [i for i in graph.initializer if i.name in finals]:
        old = initializer.name
        copy = graph.initializer.add()
        copy.CopyFrom(initializer)
        initializer.name = _free_name(old, taken)
        copy.name = renamed[old] = _free_name(old, taken)
        nodes.append(helper.make_node("Identity", [initializer.name], [old]))
    for node in graph.node:
        if node.op_type in CONSTANT and node.output[0] in finals:
            old, node.output[0] = node.output[0], _free_name(node.output[0], taken)
            renamed[old] = node.output[0]
            nodes += [node, helper.make_node("Identity", [node.output[0]], [old])]
        else:
            nodes.append(node)
        for i, name in enumerate(node.input):
            node.input[i] = renamed.get(name, name)
    if renamed:
        kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(kept)


def _free_name(name: str, taken: set[str]) -> str:
    """Returns NAME/constant, made different from all taken names, and takes it."""
    free = f"{name}/constant"
    while free in taken:
        free += "~"
    taken.add(free)
    return free
