"""Writes a model's own functions out, so that the graph has operators only."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx.inliner

from qverify.errors import BadFileError
from qverify.printable import said_by

MOST_NODES = 1 << 18
MOST_DEPTH = 64
Key = tuple[str, str]


def inline_functions(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Returns the model without functions of its own. Raises BadFileError for functions that call themselves, or that
    would become more nodes than any model has."""
    if not model.functions:
        return model
    bodies = {(_domain(f.domain), f.name): f for f in model.functions}
    sizes: dict[Key, int] = {}
    if _written_out(model.graph.node, bodies, sizes, (), name) > MOST_NODES:
        raise BadFileError(f"{name}: its functions written out have more than {MOST_NODES} nodes")
    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:  # of the C++ library
        raise BadFileError(f"{name}: its functions cannot be written out: {said_by(error)}") from error


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _written_out(
    nodes: Iterable[onnx.NodeProto],
    bodies: dict[Key, onnx.FunctionProto],
    sizes: dict[Key, int],
    inside: tuple[Key, ...],
    name: str,
) -> int:
    """Returns the number of nodes that these become. inside: the functions that are being written out."""
    total = 0
    for node in nodes:
        key = (_domain(node.domain), node.op_type)
        total += 1
        for attribute in node.attribute:
            for graph in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
                total += _written_out(graph.node, bodies, sizes, inside, name)
        if key not in bodies:
            continue
        if key in inside or len(inside) > MOST_DEPTH:
            raise BadFileError(f"{name}: function {node.op_type!r} calls itself, or functions call each other too deep")
        if key not in sizes:
            sizes[key] = _written_out(bodies[key].node, bodies, sizes, (*inside, key), name)
        total += sizes[key]
    return total
