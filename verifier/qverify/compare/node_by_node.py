"""Judges the tensors that follow a node whose reference is float: node by node, each recomputed from the recorded
inputs.

Such a node has no integer kernel in onnxruntime. Two correct sides may therefore round one of its values to
neighbouring steps, and every later tensor may differ although each node is computed correctly. For these tensors the
forced verdicts decide, not the gate.
"""

from __future__ import annotations

from collections.abc import Mapping

from qverify.compare.documented_rounding import NAMES
from qverify.compare.judge import Judged, conclude, describe_alike
from qverify.compare.kernel_sets import ACCEPTED, OF_ENGINES
from qverify.compare.limits import float_inside
from qverify.compare.regions import Region
from qverify.compare.stated_arithmetic import StatedArithmetic, find_after_unstated
from qverify.model_bin.graph import Graph
from qverify.model_bin.islands import HostIsland, in_order
from qverify.model_bin.units import Unit
from qverify.report.document import Forced, NodeByNode, TensorRow

LITERT = "gemmlowp"  # rounding mode of a model.bin that was compiled from a .tflite alone
CHOICES = ("arg_max", "arg_min", "top_k", "non_max_suppression")  # ops that choose elements by their values


def find_after_float(graph: Graph, units: list[Unit]) -> set[str]:
    """Returns the names of the tensors that depend on a unit with float inside (limits.float_inside), directly or
    through any number of later units and host islands. A host island alone does not count as such a unit, because the
    same onnxruntime computes it for all sides."""
    names: set[str] = set()
    for step in in_order(graph.islands, units, (*graph.inputs, *graph.constants)):
        inside = isinstance(step, Unit) and float_inside(step)
        if inside or any(n in names for n in step.inputs):
            names.update(step.outputs)
    return names


def find_agreeing(graph: Graph, units: list[Unit], forced: Mapping[str, Forced], same: Mapping[str, bool]) -> set[str]:
    """Returns the names of the tensors for which every unit up to and including the one that computes them is known to
    pass when recomputed. The outputs of a host island agree if all its inputs do, because the host computes it from
    each side's own tensors. same: whether both sides have equal bytes, by tensor, as far as known; a unit with equal
    inputs and outputs need not be recomputed."""
    agreeing = set(graph.inputs)
    equal = {n for n, alike in same.items() if alike} | agreeing
    for unit in in_order(graph.islands, units, (*graph.inputs, *graph.constants)):
        if isinstance(unit, HostIsland):
            agreeing.update(unit.outputs if agreeing.issuperset(unit.inputs) else ())
            equal.update(unit.outputs if equal.issuperset(unit.inputs) else ())
            continue
        if not agreeing.issuperset(unit.inputs):
            continue
        judged = [o for o in unit.outputs if not graph.spec(o).interior]
        are_equal = equal.issuperset(judged) and equal.issuperset(unit.inputs)
        if are_equal or all(o in forced and forced[o].verdict == "PASSED" for o in judged):
            agreeing.update(judged)
    return agreeing


def find_after_meaningless(graph: Graph, units: list[Unit], forced: Mapping[str, Forced]) -> set[str]:
    """Returns the names of the tensors in which some elements of the reference mean nothing (Forced.not_judged), and of
    all tensors that depend on them."""
    names: set[str] = set()
    for unit in in_order(graph.islands, units, (*graph.inputs, *graph.constants)):
        if any(o in forced and forced[o].not_judged for o in unit.outputs) or any(n in names for n in unit.inputs):
            names.update(unit.outputs)
    return names


def judge_node_by_node(
    judged: Judged,
    graph: Graph,
    units: list[Unit],
    forced: Mapping[str, Forced],
    nan_equal: bool,
    kernels: str = "",
    stated: StatedArithmetic | None = None,
) -> None:
    """Sets rows that fail only the decimals (or bit equality) to PASSED if every unit before them passes when recomputed,
    and concludes the pair again.

    This applies to rows after a node whose reference is float, and to all rows of a board with documented kernels, if
    model.bin rounds as the reference does; of a board whose arithmetic is stated, to rows after a unit that it does not
    state. Elements that are NaN or Inf on one side are excused only if values of the
    reference mean nothing in this tensor or in one that it depends on; elements that are NaN or Inf on both sides make
    the row INCONCLUSIVE, unless nan_equal is set. Extra gates judge the free-running values, so a pair with extra gates
    is left unchanged. kernels: the documented kernels of the side that is not qvrt, or "". stated: the arithmetic that the board
    is stated to have."""
    if judged.pair.verdict != "FAILED":
        return
    if stated is None and (judged.gate.bits or not judged.gate.decimals or judged.gate.extra):
        return
    if stated is None and graph.rounding not in (("ref-exact", LITERT) if kernels else ("ref-exact",)):
        return  # integer nodes may then differ by much more than one step
    agreeing = find_agreeing(graph, units, forced, {})
    if stated is not None:
        agreeing &= find_after_unstated(stated, graph, units, forced)
    elif not kernels and not graph.is_of_operators:
        agreeing &= find_after_float(graph, units)
    excused, meaningless = set(judged.decimals_only), find_after_meaningless(graph, units, forced)
    excused |= {name for name, (one_sided, _) in judged.not_finite.items() if not one_sided or name in meaningless}
    rows = [r for r in judged.rows.values() if r.verdict == "FAILED" and r.name in excused and r.name in agreeing]
    if not rows:
        return
    first_failed = next(r for r in judged.rows.values() if r.verdict == "FAILED")
    strict = f"--strict would have FAILED: {first_failed.name}: {first_failed.why}"
    for row in rows:
        row.verdict, row.why, row.node_by_node = "PASSED", "", True
        if (alike := judged.not_finite.get(row.name, (0, 0))[1]) and not nan_equal:
            row.verdict, row.why = "INCONCLUSIVE", describe_alike(alike)
    choices = _list_choices(units, {row.name for row in rows}, kernels)
    how = _describe_open_arithmetic(stated, graph, units, forced) if stated is not None else NAMES.get(kernels, "")
    if graph.is_of_operators and not how:
        engines = [k for k in OF_ENGINES if any(f.limit == ACCEPTED.format(k) for f in forced.values())]
        how = " and ".join(["other kernels of LiteRT", *engines])
    judged.pair.node_by_node = NodeByNode(len(rows), _find_largest_lsb(rows), _find_largest_abs(rows), how)
    conclude(judged)
    judged.pair.notes += [*([strict] if judged.pair.verdict != "FAILED" else []), *choices]


def _describe_open_arithmetic(
    stated: StatedArithmetic, graph: Graph, units: list[Unit], forced: Mapping[str, Forced]
) -> str:
    """Returns what may have other bytes than the stated arithmetic: ops without a form, fused nodes, or both."""
    differs = [u for u in units if any(o in forced and forced[o].mismatched for o in u.outputs)]
    differs = [u for u in differs if not stated.states(u, graph)]
    fused = [u for u in differs if isinstance(u, Region) and stated.states_all(u.members, graph)]
    parts = [f"ops without a form in {stated.name}"] if len(fused) < len(differs) or not differs else []
    return " and ".join([*parts, *(["nodes that the board fuses"] if fused else [])])


def _list_choices(units: list[Unit], names: set[str], kernels: str) -> list[str]:
    """Returns a line for each node that chooses elements by their values and chose different ones on the two sides."""
    before = "that the roundings before it" if kernels else "that float nodes before it"
    return [
        f"{unit.name} ({unit.nodes[-1].op}) chooses other elements on the two sides, among values {before} "
        "left nearly equal (a tie); from the same inputs it chooses alike"
        for unit in units
        if unit.nodes[-1].op in CHOICES and names.intersection(unit.outputs)
    ]


def _find_largest_lsb(rows: list[TensorRow]) -> int | None:
    """Returns the largest difference in LSB, or None if no row has one."""
    return max((n for r in rows if isinstance(n := r.metrics.get("max_lsb"), int)), default=None)


def _find_largest_abs(rows: list[TensorRow]) -> float | None:
    """Returns the largest difference of real values, or None if no row has one."""
    return max((n for r in rows if isinstance(n := r.metrics.get("max_abs"), float)), default=None)
