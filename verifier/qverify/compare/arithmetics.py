"""The arithmetics of the catalogue for one node. Each is computed for single elements from the inputs that a side
recorded, so that a few elements exclude those that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from qverify.compare.accumulators import CHANNEL_AXIS, NodeSums
from qverify.compare.arithmetics_of_kernels import (
    list_functions,
    list_kernels_of_sums,
    list_quantizations,
    list_resizes,
    list_softmax,
)
from qverify.compare.arithmetics_of_one_dnn import list_byte_pairs
from qverify.compare.arithmetics_of_ops import (
    Compute,
    Exact,
    Known,
    list_additions,
    list_changes,
    list_concats,
    list_linear,
    list_pools,
    list_products,
)
from qverify.compare.catalogue import DOWN, FLOOR, FLOOR_MEANS, MEANS, MISTAKES, RULES, ZERO_INSIDE
from qverify.compare.error_bounds.bounded_values import Array, NoBound, Reals
from qverify.compare.error_bounds.documented_kernels import rounded_twice
from qverify.compare.scaled_sums import At
from qverify.model_bin.changes_of_quantization import is_change_of_quantization
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit

SLIGHTLY = 1 + 1e-6  # factor by which scales may be larger or smaller that were multiplied in float32


@dataclass(frozen=True)
class Rounded:
    """One output of a unit that the catalogue may explain. given: the recorded inputs."""

    unit: Unit
    output: str
    graph: Graph
    given: Mapping[str, Array]

    @cached_property
    def sums(self) -> NodeSums:
        """The accumulator of the first node."""
        return NodeSums(self.unit.nodes[0], self.graph, self.given)

    @cached_property
    def formulas(self) -> dict[str, Compute]:
        """The arithmetics of the catalogue for this unit, by name; empty if it has none."""
        named, exact = self._known
        if exact is not None and exact.sums is not None:
            named = named | list_kernels_of_sums(self.unit.nodes[0], self.graph, exact.sums)
            named |= list_byte_pairs(self.unit.nodes[0], self.graph, self.given, exact.scales)
        rules = dict(_list_rules(exact)) if exact is not None else {}
        floor = rules.get(DOWN) if self.unit.nodes[0].op in MEANS else named.get(FLOOR)
        divided = {FLOOR_MEANS: floor} if floor is not None else {}
        return {name: self._through(compute) for name, compute in {**named, **rules, **divided}.items()}

    @property
    def exact(self) -> Exact | None:
        """The exact value of the first node, or None if the catalogue has none."""
        return self._known[1]

    @cached_property
    def first_rounding(self) -> float:
        """The largest part of a step of the output to which gemmlowp rounds first, halved."""
        assert self.exact is not None
        scales = np.abs(self.exact.scales) / SLIGHTLY
        largest = float(scales.max(initial=0.0, where=scales < 0.5))  # larger ones are rounded once
        return float(rounded_twice(min(largest * SLIGHTLY**2, 0.499))) if largest else 0.0

    @cached_property
    def _known(self) -> Known:
        first, *others = self.unit.nodes
        if any(n.op != "lookup" for n in others) or self.graph.spec(self.output).numpy_dtype.kind not in "iu":
            return {}, None
        try:
            if first.op in CHANNEL_AXIS:
                return list_linear(first, self.graph, self.given, self.sums)
            if first.op == "add":
                return list_additions(first, self.graph, self.given)
            if first.op == "mul":
                return list_products(first, self.graph, self.given)
            if first.op == "average_pool":
                return list_pools(first, self.graph, self.given)
            if first.op == "softmax":
                return list_softmax(first, self.graph, self.given), None
            if first.op == "quantize":
                return list_quantizations(first, self.graph, self.given), None
            if first.op == "resize_linear":
                return list_resizes(first, self.graph, self.given), None
            if first.op == "concat":
                return list_concats(first, self.graph, self.given)
            if first.op == "lookup" and is_change_of_quantization(first, self.graph):
                return list_changes(first, self.graph, self.given)
            if first.op == "lookup":
                return list_functions(first, self.graph, self.given), None
        except (NoBound, KeyError, IndexError, ValueError):  # inputs or scales that do not fit
            pass
        return {}, None

    def _through(self, compute: Compute) -> Compute:
        """Returns the computation followed by the unit's lookups."""
        return (lambda at: self.look_up(compute(at))) if self.unit.nodes[1:] else compute

    def look_up(self, values: Array) -> Array:
        """Returns what the unit's lookups make of the first node's integers."""
        for node in self.unit.nodes[1:]:
            lowest = int(np.iinfo(self.graph.spec(node.inputs[0] or "").dtype).min)
            values = self.graph.constants[node.inputs[1] or ""][values.astype(np.int64) - lowest]
        return values


def _list_rules(exact: Exact) -> Iterator[tuple[str, Compute]]:
    """Yields the rules by which the exact value is rounded."""

    def by_rule(at: At, rule: Callable[[Reals], Reals], inside: int = 0) -> Array:
        return np.clip(rule(exact.steps(at) + inside) + (exact.zero - inside), *exact.limits).astype(exact.dtype)

    for name, rule in (RULES | MISTAKES).items():
        yield name, partial(by_rule, rule=rule)
    yield ZERO_INSIDE, partial(by_rule, rule=np.rint, inside=exact.zero)
