"""Accepts a Concat whose operands a side computed straight in the quantization of the result, as many accelerators do: the
node before it writes into the joined tensor, and the operand that the side gives beside it takes no part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from qverify.compare.catalogue import LEGAL, SUMS, choose_name, describe
from qverify.compare.one_arithmetic import GivesAll, may_be_rounding
from qverify.compare.paired_values import bits_equal
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit
from qverify.report.document import Forced
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

Read = Callable[[str], Array | None]  # returns what a side recorded of a tensor, as the graph stores it
CLIPPED = (*SUMS, "average_pool")  # ops whose last words are the limits of their output


@dataclass(frozen=True, slots=True)
class StraightConcats:
    """The concats of a pair.

    Attributes:
        units: the units that were recomputed.
        graph: their graph.
        read: returns the tensors of the side that is judged.
        gives_all: as in one_arithmetic.accept_one_arithmetic().
    """

    units: list[Unit]
    graph: Graph
    read: Read
    gives_all: GivesAll

    def accept(self, forced: dict[str, Forced]) -> None:
        """Sets FAILED verdicts of concats to PASSED where each operand, computed from the recorded inputs of the node
        before it in the quantization of the result, gives every element, in an arithmetic that all nodes of that op
        have; to INCONCLUSIVE where too few elements differ to show it."""
        from qverify.compare.find_arithmetics import EVIDENCE_BITS, measure_evidence

        for unit in self.units:
            found = forced.get(unit.outputs[0])
            if unit.nodes[0].op != "concat" or len(unit.nodes) > 1 or found is None or not may_be_rounding(found):
                continue
            said = self._describe(unit)
            if said is None:
                continue
            if measure_evidence(found) >= EVIDENCE_BITS:
                verdict = replace(found, verdict="PASSED", limit=f"every element is that of {said}", why="")
                forced[unit.outputs[0]] = replace(verdict, unexplained=0, at_fault="")
            else:
                why = f"{found.why}; {said} gives every element, but too few differ to tell this from a fault (run more inputs)"
                forced[unit.outputs[0]] = replace(found, verdict="INCONCLUSIVE", why=why, at_fault="")

    def _describe(self, unit: Unit) -> str | None:
        """Returns how the operands of a concat were computed, in words; None if not so."""
        from qverify.model_bin.changes_of_quantization import has_other_quantization

        node, recorded = unit.nodes[0], self.read(unit.outputs[0])
        y = self.graph.spec(unit.outputs[0])
        if recorded is None or recorded.shape != y.shape or recorded.dtype != y.numpy_dtype:
            return None
        straight = []
        for x, part in _cut(node, self.graph, recorded):
            if not has_other_quantization(x, y):
                value = self.graph.constants[x.name] if x.name in self.graph.constants else self.read(x.name)
                if value is None or not bits_equal(np.asarray(value), part):
                    return None
                continue
            name = self._find_arithmetic(x, y, part)
            if name is None:
                return None
            straight.append(f"{self._maker(x.name).name} by {describe(name)}")
        return f"{', '.join(straight)}, straight in the quantization of {y.name}" if straight else None

    def _maker(self, name: str) -> Unit:
        return next(u for u in self.units if name in u.outputs)

    def _find_arithmetic(self, x: TensorSpec, y: TensorSpec, part: Array) -> str | None:
        """Returns the arithmetic by which the node that makes x gives every element of this part of y in y's
        quantization; None if there is none."""
        from qverify.compare.arithmetics import Rounded
        from qverify.compare.find_arithmetics import find_arithmetics

        maker = next((u for u in self.units if u.outputs == (x.name,) and len(u.nodes) == 1), None)
        if maker is None or maker.nodes[0].op not in CLIPPED:
            return None
        node = _in_quantization(maker.nodes[0], x, y)
        given = {n: v for n in maker.inputs if (v := self.read(n)) is not None}
        fits = all(v.shape == self.graph.spec(n).shape for n, v in given.items())
        if node is None or len(given) < len(maker.inputs) or not fits:
            return None
        spec = replace(x, scale=y.scale, zero_point=y.zero_point)
        graph = replace(self.graph, tensors={**self.graph.tensors, x.name: spec})
        names = find_arithmetics(Rounded(replace(maker, nodes=(node,)), x.name, graph, given), part, part)
        alike = [u for u in self.units if u.nodes[0].op == node.op]
        common = [n for n in names if n in LEGAL and all(self.gives_all(u, n) is not False for u in alike)]
        return choose_name(common) if common else None


def _cut(node: Node, graph: Graph, recorded: Array) -> Iterator[tuple[TensorSpec, Array]]:
    """Yields each operand and the part of the result that it becomes."""
    axis, start = node.words[0], 0
    for name in node.inputs:
        spec = graph.spec(name or "")
        end = start + spec.shape[axis]
        yield spec, recorded[(slice(None),) * axis + (slice(start, end),)]
        start = end


def _in_quantization(node: Node, x: TensorSpec, y: TensorSpec) -> Node | None:
    """Returns the node with the limits of its output in y's quantization; None if a limit is neither the type's nor the
    zero point."""
    limits, words = np.iinfo(x.dtype), []
    ends = {int(limits.min): int(limits.min), int(limits.max): int(limits.max), x.zero_point[0]: y.zero_point[0]}
    for word in node.words[-2:]:
        if word not in ends:
            return None
        words.append(ends[word])
    return replace(node, words=(*node.words[:-2], *words))
