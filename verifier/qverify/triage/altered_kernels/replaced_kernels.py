"""Computes a unit with other kernels for the nodes of some ops; all other nodes are computed by the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify import ops
from qverify.model_bin.graph import Graph, Node
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant

Array = npt.NDArray[Any]
LIKELY, UNLIKELY = 5.0, 16.0  # bits of a plain mistake, and of one of hundreds of formats and approximations
Kernel = Callable[[Node, list[Array], Graph], Array | tuple[Array, ...]]


def nodes_of(case: Case, *stems: str) -> list[Node]:
    """Returns the unit's nodes of these ops, in running order."""
    return [node for node in case.unit.nodes if node.op in stems]


def operands(case: Case, node: Node) -> list[Array]:
    """Returns the values and constants that a node of the unit reads; absent inputs are empty."""
    values = _healthy_values(case)
    constants = case.graph.constants
    return [np.zeros(0) if n is None else constants[n] if n in constants else values[n] for n in node.inputs]


def _healthy_values(case: Case) -> dict[str, Array]:
    return dict(case.compute_once("unit values", lambda: _compute_values(case, {})))


def with_kernels(case: Case, kernels: Mapping[str, Kernel]) -> Array:
    """Returns the output computed with these kernels by op. A kernel returns its output (or a tuple of all its outputs)
    as exact values in any shape."""
    return _compute_values(case, kernels)[case.output]


def _compute_values(case: Case, kernels: Mapping[str, Kernel]) -> dict[str, Array]:
    graph, values = case.graph, dict(case.inputs)
    before = _healthy_values(case) if kernels else {}
    changed = set[str]()
    for node in case.unit.nodes:
        if node.op in kernels:
            operand_values = [
                np.zeros(0) if n is None else graph.constants[n] if n in graph.constants else values[n]
                for n in node.inputs
            ]
            result = kernels[node.op](node, operand_values, graph)
            for name, value in zip(node.outputs, result if isinstance(result, tuple) else (result,), strict=True):
                spec = graph.spec(name)
                values[name] = value.astype(spec.dtype).reshape(spec.shape)
            changed |= set(node.outputs)
        elif before and not changed & set(node.inputs):
            values |= {n: before[n] for n in node.outputs}
        else:
            values |= ops.simulate_node(graph, node, values, _state(case, node))
            changed |= set(node.outputs)
    return values


def _state(case: Case, node: Node) -> Any:
    if node.name not in case.states:
        case.states[node.name] = ops.prepare(node, case.graph)
    return case.states[node.name]


def kernel_variant(text: str, kernels: Mapping[str, Kernel], bits: float = 0.0) -> FaultVariant:
    """Returns the fault of a runtime with these kernels."""
    return FaultVariant(text, partial(with_kernels, kernels=kernels), bits)
