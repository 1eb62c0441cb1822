"""Operands are exchanged, one is read twice, or another output of the node is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations

from qverify.triage.case import Array, Case, UnitChange
from qverify.triage.hypotheses import FaultVariant

NAME = "operand-order"
MAX_OPERANDS = 4  # of which every order is tried


def variants(case: Case) -> Iterator[FaultVariant]:
    names = case.unit.inputs
    for first, second in permutations(names, 2):
        if _alike(case, first, second):
            yield FaultVariant(f"{second} is read in place of {first}", partial(_twice, first=first, second=second))
    for first, second in combinations(sorted(names), 2):
        if _alike(case, first, second):
            yield FaultVariant(f"{first} and {second} are exchanged", partial(_exchanged, first=first, second=second))
    own_order = [i or "" for i in case.last.inputs]
    if case.last.op == "concat" and len(own_order) <= MAX_OPERANDS:
        for order in permutations(own_order):
            if list(order) != own_order:
                yield FaultVariant(f"operands in the order {', '.join(order)}", partial(_ordered, order=order))
    for other in case.unit.outputs:
        if other != case.output and case.graph.spec(other).shape == case.spec.shape:
            yield FaultVariant(f"the output is {other}", partial(_other, name=other))


def _alike(case: Case, first: str, second: str) -> bool:
    a, b = case.graph.spec(first), case.graph.spec(second)
    return (a.shape, a.dtype) == (b.shape, b.dtype)


def _twice(case: Case, first: str, second: str) -> Array:
    return case.recompute(UnitChange(inputs={first: case.inputs[second]}))


def _exchanged(case: Case, first: str, second: str) -> Array:
    return case.recompute(UnitChange(inputs={first: case.inputs[second], second: case.inputs[first]}))


def _ordered(case: Case, order: tuple[str, ...]) -> Array:
    node = replace(case.last, inputs=order)
    return case.recompute(UnitChange(nodes={node.name: node}))


def _other(case: Case, name: str) -> Array:
    return replace(case, output=name, cache={}).healthy
