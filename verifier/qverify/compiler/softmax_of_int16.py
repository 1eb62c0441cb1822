"""Writes a softmax between int16 tensors, which the compiler has in floats, as one op on integers where an arithmetic states
how it is computed (verifier/ARITHMETICS.md)."""

from __future__ import annotations

from dataclasses import replace

from qverify.arithmetic.forms import SEGMENTS, Form
from qverify.arithmetic.softmax_in_segments import MOST_DEPTH, OUTPUT_SCALE, make_table
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

KEY = "softmax, of int16"  # of the arithmetic's forms


def with_integer_softmax(graph: Graph, form: Form | None) -> Graph:
    """Returns the graph with a node `softmax` for each softmax of floats between a dequantized int16 and a quantized one.
    form: what the arithmetic states for them, or None."""
    if form != Form("half up", method=SEGMENTS):
        return graph
    made_by, readers = graph.producers(), dict[str, list[Node]]()
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name or "", []).append(node)
    nodes, tensors, constants = list[Node](), dict(graph.tensors), dict(graph.constants)
    dropped = set[str]()
    for node in graph.nodes:
        softmax = made_by.get(node.inputs[0] or "") if node.op == "quantize" else None
        source = made_by.get(softmax.inputs[0] or "") if softmax is not None else None
        if softmax is None or source is None or not _fits(graph, source, softmax, node, readers):
            nodes.append(node)
            continue
        x, y = graph.spec(source.inputs[0] or ""), graph.spec(node.outputs[0])
        table = make_table(x.scale[0])
        name = f"{y.name}/table"
        constants[name], tensors[name] = table, TensorSpec(name, "int16", table.shape)
        nodes.append(
            Node(node.name, "softmax", (x.name, name), node.outputs, (*softmax.words[:3], 0), node.covers, False)
        )
        dropped |= {softmax.name, *([source.name] if len(readers[source.outputs[0]]) == 1 else [])}
    gone = {o for n in nodes if n.name in dropped for o in n.outputs}
    return replace(
        graph,
        nodes=[n for n in nodes if n.name not in dropped],
        tensors={n: t for n, t in tensors.items() if n not in gone},
        constants=constants,
    )


def _fits(graph: Graph, source: Node, softmax: Node, node: Node, readers: dict[str, list[Node]]) -> bool:
    """Returns whether these are dequantize, softmax_float and quantize of int16, whose floats nothing else reads, with an
    output of steps of 2^-15."""
    if (source.op, softmax.op) != ("dequantize", "softmax_float") or len(readers[softmax.outputs[0]]) != 1:
        return False
    if softmax.outputs[0] in graph.outputs or source.outputs[0] in graph.outputs:
        return False
    x, y = graph.spec(source.inputs[0] or ""), graph.spec(node.outputs[0])
    plain = x.dtype == y.dtype == "int16" and len(x.scale) == 1 and x.zero_point == (0,)
    return plain and y.scale == (OUTPUT_SCALE,) and y.zero_point == (0,) and softmax.words[1] <= MOST_DEPTH
