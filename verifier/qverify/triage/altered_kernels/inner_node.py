"""The node of a unit that does its work, by itself: without the dequantize nodes before it and the quantize nodes after
it."""

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
    """Returns the case of that node alone, the unit's own case where it is one node; None where more than one node is
    left, or a border has a scale for each channel. recorded of another case is what a healthy node computes."""
    found: Case | None = case.compute_once("inner case", lambda: _inner(case))
    return found


def _inner(case: Case) -> Case | None:
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
    made = ops.simulate_node(case.graph, node, inputs)[name]
    return Case(case.graph, unit, inputs, name, made, case.board, case.previous)


def _after(case: Case) -> list[Node]:
    """Returns the quantize and dequantize nodes at the unit's end that have one scale, in running order."""
    makers = {o: n for n in case.unit.nodes for o in n.outputs}
    found: list[Node] = []
    node: Node | None = makers.get(case.output)
    while node is not None and node.op in BORDERS:
        if any(len(case.graph.spec(n or "").scale) > 1 for n in (node.inputs[0], node.outputs[0])):
            return []
        found.insert(0, node)
        node = makers.get(node.inputs[0] or "")
    return found


def finished(case: Case, value: Array) -> Array:
    """Returns the unit's output elements, flat, from elements of the inner node's output, of any shape."""
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
