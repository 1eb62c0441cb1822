"""Inlines the functions that a model defines, so that its graph contains operators only."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx.inliner

from qverify.errors import BadFileError
from qverify.printable import describe_error

MAX_NODES = 1 << 18
MAX_DEPTH = 64
Key = tuple[str, str]


def inline_functions(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Returns the model with its functions inlined. Raises BadFileError for functions that call themselves or that
    would become more than MAX_NODES nodes."""
    if not model.functions:
        return model
    bodies = {(_domain(f.domain), f.name): f for f in model.functions}
    sizes: dict[Key, int] = {}
    if _count_inlined_nodes(model.graph.node, bodies, sizes, (), name) > MAX_NODES:
        raise BadFileError(f"{name}: its functions written out have more than {MAX_NODES} nodes")
    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:  # of the C++ library
        raise BadFileError(f"{name}: its functions cannot be written out: {describe_error(error)}") from error


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _count_inlined_nodes(
    nodes: Iterable[onnx.NodeProto],
    bodies: dict[Key, onnx.FunctionProto],
    sizes: dict[Key, int],
    inside: tuple[Key, ...],
    name: str,
) -> int:
    """Returns the number of nodes that these become. inside: the functions around them, to find recursion."""
    total = 0
    for node in nodes:
        key = (_domain(node.domain), node.op_type)
        total += 1
        for attribute in node.attribute:
            for graph in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
                total += _count_inlined_nodes(graph.node, bodies, sizes, inside, name)
        if key not in bodies:
            continue
        if key in inside or len(inside) > MAX_DEPTH:
            raise BadFileError(f"{name}: function {node.op_type!r} calls itself, or functions call each other too deep")
        if key not in sizes:
            sizes[key] = _count_inlined_nodes(bodies[key].node, bodies, sizes, (*inside, key), name)
        total += sizes[key]
    return total
