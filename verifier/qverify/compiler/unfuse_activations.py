"""--no-fuse: turns activations that clamp to less than the type's range into nodes of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qverify.errors import UnsupportedError
from qverify.model_bin.graph import Graph, Node
from qverify.ops import page
from qverify.tensors.spec import TensorSpec

SUFFIX = "preactivation"


def unfuse_activations(graph: Graph) -> Graph:
    """Returns the graph with each narrowed [act_min, act_max] replaced by a lookup after its node. The results are the
    same; each such unit has one more tensor.

    The tensor in between is called `NAME/preactivation`, as in the integer ONNX. If onnxruntime has no integer kernel
    for the node, the reference does not have this tensor, and it is interior."""
    nodes: list[Node] = []
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    by_host = {n for island in graph.islands for n in island.made}
    for node in graph.nodes:
        limits = _narrowed(node, tensors[node.outputs[0]])
        if limits is None:
            nodes.append(node)
            continue
        spec = tensors[node.outputs[0]]
        before, table = f"{spec.name}/{SUFFIX}", f"{spec.name}/clip"
        if {before, table} & {*tensors, *by_host}:
            raise UnsupportedError(f"--no-fuse: the tensor name {before!r} or {table!r} is taken; rename that tensor")
        whole = np.iinfo(spec.dtype)
        all_values = np.arange(whole.min, whole.max + 1)
        tensors[before] = replace(spec, name=before, interior=not node.integer_reference)
        constants[table] = np.clip(all_values, *limits).astype(spec.dtype)
        tensors[table] = TensorSpec(table, spec.dtype, all_values.shape)
        words = (*node.words[:-2], int(whole.min), int(whole.max))
        core, activation = node.covers[:-1], node.covers[-1:]
        nodes.append(replace(node, name=before, outputs=(before,), words=words, covers=core))
        nodes.append(Node(spec.name, "lookup", (before, table), (spec.name,), (), activation, node.integer_reference))
    return replace(graph, nodes=nodes, tensors=tensors, constants=constants)


def _narrowed(node: Node, spec: TensorSpec) -> tuple[int, int] | None:
    """Returns the node's output limits if they are narrower than its dtype, else None."""
    if page(node.op).WORDS[-2:] != ("act_min", "act_max") or spec.numpy_dtype.kind == "f":
        return None
    low, high = node.words[-2:]
    limits = np.iinfo(spec.dtype)
    return (low, high) if low > limits.min or high < limits.max else None
