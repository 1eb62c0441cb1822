"""What follows a node whose reference is float: judged by its nodes, each recomputed from the recorded inputs.

Such a node has no integer kernel in onnxruntime, so two correct sides may round a value to neighbouring steps, and every later
tensor may differ although each node computes what it should. The gate then says nothing; the forced verdicts do.
"""

from __future__ import annotations

from collections.abc import Mapping

from qverify.compare.judge import Judged, conclude
from qverify.compare.limits import float_inside
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.report.document import Forced, NodeByNode, TensorRow


def after_float(units: list[Unit]) -> set[str]:
    """Names of the tensors that a unit with float inside (limits.float_inside) makes, or feeds through any number of units."""
    found: set[str] = set()
    for unit in units:
        if float_inside(unit) or any(n in found for n in unit.inputs):
            found.update(unit.outputs)
    return found


def agree_recomputed(
    graph: Graph, units: list[Unit], forced: Mapping[str, Forced], same: Mapping[str, bool]
) -> set[str]:
    """Names of the tensors of which every unit before them, their own included, is known to pass recomputed. same: tensors whose
    bytes are known to be equal, or not; a unit that makes the same of the same need not be recomputed."""
    found = set(graph.inputs)
    equal = {n for n, alike in same.items() if alike} | found
    for unit in units:
        judged = [o for o in unit.outputs if not graph.spec(o).interior]
        passed = all(o in forced and forced[o].verdict == "PASSED" for o in judged)
        if (passed or equal.issuperset((*unit.inputs, *judged))) and all(n in found for n in unit.inputs):
            found.update(judged)
    return found


def judge_node_by_node(judged: Judged, graph: Graph, units: list[Unit], forced: Mapping[str, Forced]) -> None:
    """Rows that fail by decimals alone, after such a node, pass where every unit before them passes recomputed; the pair is
    concluded anew. Only where model.bin rounds as the reference does. Extra gates that were asked for speak to the values as they came out and are left alone."""
    if judged.pair.verdict != "FAILED" or judged.gate.bits or not judged.gate.decimals or judged.gate.extra:
        return
    if graph.rounding != "ref-exact":  # integer nodes may then be off by much more than a step of a float node
        return
    settled = after_float(units) & agree_recomputed(graph, units, forced, {})
    rows = [r for r in judged.rows.values() if r.name in judged.decimals_only and r.name in settled]
    if not rows:
        return
    strict = next(r for r in judged.rows.values() if r.verdict == "FAILED")
    judged.pair.notes.append(f"--strict would have FAILED: {strict.name}: {strict.why}")
    for row in rows:
        row.verdict, row.why, row.node_by_node = "PASSED", "", True
    judged.pair.node_by_node = NodeByNode(len(rows), _largest_lsb(rows), _largest_abs(rows))
    conclude(judged)


def _largest_lsb(rows: list[TensorRow]) -> int | None:
    """None where none of them is quantized."""
    return max((n for r in rows if isinstance(n := r.metrics.get("max_lsb"), int)), default=None)


def _largest_abs(rows: list[TensorRow]) -> float | None:
    return max((n for r in rows if isinstance(n := r.metrics.get("max_abs"), float)), default=None)
