"""The inner node of a unit: the one that does its work, without the dequantize nodes before it and the quantize nodes
after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify import ops
from qverify.arithmetic import float32
from qverify.model_bin.graph import Node
from qverify.model_bin.units import Unit
from qverify.ops.quantize import parameters
from qverify.triage.case import Case

Array = npt.NDArray[Any]
BORDERS = ("quantize", "dequantize")


def inner_case(case: Case) -> Case | None:
    """Returns the case of the inner node alone, which is the unit's own case if the unit has one node. None if more
    than one node does the work, or a quantize or dequantize node has a scale for each channel. The `recorded` of an
    inner case is the output of a healthy node, because the board's output of the inner node is not known."""
    inner: Case | None = case.compute_once("inner case", lambda: _make_inner_case(case))
    return inner


def _make_inner_case(case: Case) -> Case | None:
    if len(case.unit.nodes) == 1:
        return case
    after = _after(case)
    makers = {o: n for n in case.unit.nodes for o in n.outputs}
    name = after[0].inputs[0] or "" if after else case.output
    node = makers.get(name)
    work = [n for n in case.unit.nodes if n.op not in BORDERS]
    if node is None or work != [node]:
        return None
    values = dict(case.inputs)
    for before in case.unit.nodes:
        if before is node:
            break
        values |= ops.simulate_node(case.graph, before, values)
    names = tuple(dict.fromkeys(n for n in node.inputs if n is not None and n not in case.graph.constants))
    unit = Unit(node.name, node.op, (node,), names, node.outputs, node.integer_reference)
    inputs = {n: values[n] for n in names}
    healthy = ops.simulate_node(case.graph, node, inputs)[name]
    return Case(case.graph, unit, inputs, name, healthy, case.board, case.previous)


def _after(case: Case) -> list[Node]:
    """Returns the quantize and dequantize nodes at the unit's end in running order; [] if one of them has several
    scales."""
    makers = {o: n for n in case.unit.nodes for o in n.outputs}
    nodes: list[Node] = []
    node: Node | None = makers.get(case.output)
    while node is not None and node.op in BORDERS:
        if any(len(case.graph.spec(n or "").scale) > 1 for n in (node.inputs[0], node.outputs[0])):
            return []
        nodes.insert(0, node)
        node = makers.get(node.inputs[0] or "")
    return nodes


def finished(case: Case, value: Array) -> Array:
    """Returns the unit's output elements, flat, computed from elements of the inner node's output in any shape."""
    if len(case.unit.nodes) == 1:
        return value.reshape(-1)
    for node in _after(case):
        source, target = case.graph.spec(node.inputs[0] or ""), case.graph.spec(node.outputs[0])
        if node.op == "quantize":
            value = float32.quantize(value.astype(np.float32), *_flat(target), target.dtype)
        else:
            value = float32.dequantize(value, *_flat(source))
    return value.reshape(-1)


def _flat(spec: Any) -> tuple[Array, Array]:
    scale, zero = parameters(spec)
    return scale.reshape(-1), zero.reshape(-1)
