"""The arithmetic that a board is stated to have (VERDICTS.md, "A board whose arithmetic is stated"): which units it
states, and which tensors may have other bytes all the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from qverify.compare.regions import Region
from qverify.model_bin.graph import Graph
from qverify.model_bin.islands import in_order
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced


@dataclass(frozen=True, slots=True)
class StatedArithmetic:
    """The arithmetic under which a graph was compiled. name: that of its file. forms: by op, or by op and kind of
    nodes, "" for one that is not known; a node without one computes as the reference does, and so do those named in
    `without`."""

    name: str
    forms: Mapping[str, str]
    without: frozenset[str] = frozenset()

    def states(self, unit: Unit, graph: Graph) -> bool:
        """Returns whether every byte of the unit is stated. An op that only moves values computes nothing."""
        from qverify.compare.error_bounds.region import MOVING
        from qverify.model_bin.kinds_of_nodes import find_of_node

        if isinstance(unit, Region) or any(graph.spec(o).numpy_dtype.kind == "f" for o in unit.outputs):
            return False
        node = unit.nodes[-1 if unit.op == "quantize" else 0]
        return node.op in MOVING or (node.name not in self.without and bool(find_of_node(self.forms, node, graph)))

    def states_all(self, units: Iterable[Unit], graph: Graph) -> bool:
        """Returns whether every byte of all these units is stated."""
        return all(self.states(unit, graph) for unit in units)

    def describe(self, units: Iterable[Unit], graph: Graph) -> str:
        """Returns the name, how many nodes are stated, and the ops of integers without a form, and those of nodes that cannot have
        the form that is stated."""
        members = [u for u in units if any(graph.spec(o).quantized for o in u.outputs)]
        lacking = [u for u in members if not self.states(u, graph)]
        unfit = [u for u in lacking if not isinstance(u, Region) and u.nodes[0].name in self.without]
        ops = ", ".join(dict.fromkeys(u.nodes[0].op for u in lacking if u not in unfit))
        stated = ", ".join(f"{op} ({form})" for op, form in self._list_forms(unfit, graph).items())
        without = f"; without a form: {ops}" if ops else ""
        without += f"; stated in a form that the simulator cannot compute: {stated}" if stated else ""
        return f"arithmetic {self.name}: {len(members) - len(lacking)} of {count(len(members), 'node')}{without}"

    def _list_forms(self, members: Iterable[Unit], graph: Graph) -> dict[str, str]:
        from qverify.model_bin.kinds_of_nodes import find_of_node

        return {u.nodes[0].op: find_of_node(self.forms, u.nodes[0], graph) or "" for u in members}


def read_stated(graph: Graph | None) -> StatedArithmetic | None:
    """Returns the arithmetic under which a graph was compiled; None if it computes as the reference does, or all of it in
    one rounding mode."""
    options = {} if graph is None else graph.meta.get("options")
    stored = options.get("arithmetic") if isinstance(options, dict) else None
    if not isinstance(stored, dict) or not isinstance(forms := stored.get("ops"), dict):
        return None
    without = graph.meta.get("without_form") if graph is not None else None
    names = frozenset(map(str, without)) if isinstance(without, dict) else frozenset[str]()
    return StatedArithmetic(str(stored.get("name", "")), {str(op): str(form) for op, form in forms.items()}, names)


def find_after_unstated(
    stated: StatedArithmetic, graph: Graph, units: list[Unit], forced: Mapping[str, Forced]
) -> set[str]:
    """Returns the names of the tensors of which the arithmetic does not state every byte: those of units that it does
    not state and that have other bytes when recomputed, and of all units that depend on them."""
    names: set[str] = set()
    for step in in_order(graph.islands, units, (*graph.inputs, *graph.constants)):
        open_here = isinstance(step, Unit) and not stated.states(step, graph)
        differs = open_here and any(o in forced and forced[o].mismatched != 0 for o in step.outputs)
        if differs or any(n in names for n in step.inputs):
            names.update(step.outputs)
    return names
