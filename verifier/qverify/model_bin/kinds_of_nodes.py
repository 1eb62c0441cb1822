"""Kinds of nodes for which one op may have further arithmetics (verifier/ARITHMETICS.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import frexp
from typing import TypeVar

from qverify.model_bin.changes_of_quantization import is_change_of_quantization
from qverify.model_bin.graph import Graph, Node

T = TypeVar("T")
CLOSE = 8  # powers of two


def _is_function(node: Node, graph: Graph) -> bool:
    return node.op == "lookup" and not is_change_of_quantization(node, graph)


def _changes_type(node: Node, graph: Graph) -> bool:
    types = {graph.spec(n or "").dtype for n in (node.inputs[0], node.outputs[0])}
    return node.op in ("lookup", "concat") and len(types) > 1


def _reads_uint8(node: Node, graph: Graph) -> bool:
    return node.op != "lookup" and graph.spec(node.inputs[0] or "").dtype == "uint8"


def _reads_int16(node: Node, graph: Graph) -> bool:
    return graph.spec(node.inputs[0] or "").dtype == "int16"


def _is_function_of_int16(node: Node, graph: Graph) -> bool:
    return _is_function(node, graph) and _reads_int16(node, graph)


def _is_depthwise_uint8(node: Node, graph: Graph) -> bool:
    return is_depthwise(node, graph) and _reads_uint8(node, graph)


def is_depthwise(node: Node, graph: Graph) -> bool:
    """Returns whether a node convolves each of several input channels with filters of its own."""
    return (
        node.op == "conv" and graph.spec(node.inputs[0] or "").shape[1] > graph.spec(node.inputs[1] or "").shape[1] == 1
    )


def _is_depthwise_of_stride_2(node: Node, graph: Graph) -> bool:
    """Returns whether each channel has one filter that is larger than 1x1 and moves by 2 along both axes, and the scales
    of the sums, as powers of two, are less than 8 apart."""
    if not is_depthwise(node, graph) or node.words[2:4] != (2, 2) or node.words[:2] == (1, 1):
        return False
    x, w, y = (graph.spec(n or "") for n in (*node.inputs[:2], node.outputs[0]))
    exponents = [frexp(x.scale[0] * s / y.scale[0])[1] for s in w.scale] if y.scale else [0]
    return w.shape[0] == x.shape[1] and max(exponents) - min(exponents) < CLOSE


def _has_one_scale(node: Node, graph: Graph) -> bool:
    return node.op in ("conv", "fully_connected") and len(graph.spec(node.inputs[1] or "").scale) == 1


def _is_tall(node: Node, graph: Graph) -> bool:
    """Returns whether a whole image is averaged that has more than 8 rows and 64 elements."""
    rows, columns = ([1, *graph.spec(node.inputs[0] or "").shape])[-2:]
    return node.op == "global_average_pool" and rows > 8 and rows * columns > 64


def _multiplies_by_one_or_more(node: Node, graph: Graph) -> bool:
    """Returns whether a step of the product of two tensors is at least a step of the output."""
    if node.op != "mul":
        return False
    a, b, y = (graph.spec(n or "") for n in (*node.inputs[:2], node.outputs[0]))
    return bool(y.scale) and a.scale[0] * b.scale[0] >= y.scale[0]


def _keeps_dimensions(node: Node, graph: Graph) -> bool:
    ranks = {len(graph.spec(n or "").shape) for n in (node.inputs[0], node.outputs[0])}
    return node.op == "reduce_mean" and len(ranks) == 1


KINDS: dict[str, Callable[[Node, Graph], bool]] = {  # a node is of the first kind that fits and that is asked for
    "of a function of int16": _is_function_of_int16,
    "of int16": _reads_int16,
    "of a function": _is_function,
    "to another type": _changes_type,
    "depthwise, stride 2, close scales": _is_depthwise_of_stride_2,
    "depthwise, of uint8": _is_depthwise_uint8,
    "of uint8": _reads_uint8,
    "one scale of weights": _has_one_scale,
    "of tall images": _is_tall,
    "dimensions kept": _keeps_dimensions,
    "scale of 1 or more": _multiplies_by_one_or_more,
}


def key_of(op: str, kind: str) -> str:
    """Returns the key of an arithmetic's table for the nodes of an op that are of a kind, "" for all others."""
    return f"{op}, {kind}" if kind else op


def find_key(found: Collection[str], node: Node, graph: Graph) -> str:
    """Returns the key under which something is stated for a node: the first kind that it is of and that is stated, else
    its op. found: the keys that are stated."""
    for kind, is_of in KINDS.items():
        key = key_of(node.op, kind)
        if key in found and is_of(node, graph):
            return key
    return node.op


def find_of_node(found: Mapping[str, T], node: Node, graph: Graph) -> T | None:
    """Returns what is stated for a node, by its key; None if nothing is. A kind of which it is stated that nothing is
    known ("" or None) does not get what is stated for its op."""
    return found.get(find_key(found, node, graph))
