"""Settles a pair's verdict by its forced verdicts: which rows they excuse, whether they make the pair FAILED, and which
elements were not judged."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from qverify.compare.documented_rounding import FIXED_POINT
from qverify.compare.documented_rounding import NAMES as DOCUMENTED
from qverify.compare.error_bounds.functions import PERIODIC
from qverify.compare.forced import Forcing
from qverify.compare.judge import Judged
from qverify.compare.kernel_sets import ACCEPTED, differ_wholly
from qverify.compare.node_by_node import find_agreeing, judge_node_by_node
from qverify.compare.options import Options
from qverify.compare.regions import UNTOLD, names_inside
from qverify.model_bin.float_functions import NAMES
from qverify.model_bin.graph import Graph
from qverify.model_bin.islands import in_order
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced, NotJudged, OtherDifferences
from qverify.report.weakenings import describe_not_judged

WHY_OVERFLOW = "the reference's float32 intermediates overflow or underflow there"
WHY_VARIANCE = f"{WHY_OVERFLOW}, or its variance cancels"
WHY_LARGE_ARGUMENT = (
    "an argument of sin, cos or tan is beyond 2^20 there, or the reference's float32 intermediates overflow"
)


def settle_pair(
    force: Forcing, units: list[Unit], forced: Mapping[str, Forced], options: Options, distrusted: Collection[str] = ()
) -> None:
    """Sets the pair's final verdict and counts the differences outside its scope. distrusted: as in
    blame.find_culprits(); such a node is no evidence in a pair with the reference."""
    judged = force.judged
    if (judged.pair.a == "reference" or force.is_foreign) and not options.strict:
        kernels = force.kernels or _find_kernels(force, units, forced)
        judge_node_by_node(judged, force.graph, units, forced, options.nan_equal, kernels, force.stated)
    ignored = set(distrusted) if judged.pair.a == "reference" else set()
    _fail_by_forced(judged, units, forced, ignored, options.relax_board)
    if force.is_foreign:
        _leave_unevaluated_open(judged, force.graph, units, forced, options.strict)
        _state_unreadable(judged, force.graph, force.unreadable)
    if force.graph.is_of_operators:
        _leave_other_outputs_open(judged, forced)
    _state_not_judged(judged, force.graph, units, forced)
    _state_fixed_point(judged, forced)
    if find_other_differences(judged) is not None:
        agreeing = find_agreeing(force.graph, units, forced, map_known_equality(judged))
        judged.pair.others = find_other_differences(judged, agreeing)


def _find_kernels(force: Forcing, units: list[Unit], forced: Mapping[str, Forced]) -> str:
    """Returns the documented kernels that gave every byte of a pair that FAILED although each of its nodes is right: a runner
    does not say what it runs."""
    pair, graph = force.judged.pair, force.graph
    if pair.verdict != "FAILED" or force.stated is not None or not force.is_foreign or graph.is_of_operators:
        return ""
    outputs = [o for u in units for o in u.outputs if not graph.spec(o).interior]
    if any(o not in forced or forced[o].verdict != "PASSED" for o in outputs):
        return ""
    if kernels := force.find_kernels(units):
        pair.notes.append(f"{DOCUMENTED[kernels]} on this host give every byte of every node from its recorded inputs")
    return kernels


def map_known_equality(judged: Judged) -> dict[str, bool]:
    """Returns, by declared tensor, whether both sides have the same bytes, as far as this is known from digests or from
    bytes that were sent already. Nothing is pulled from a board."""
    if judged.known_equality is not None:
        return dict(judged.known_equality)
    equal = {}
    for p in judged.declared:
        row = judged.rows.get(p.name)
        digest_a, digest_b = judged.a.digest(p.a), judged.b.digest(p.b)
        if row is not None:
            equal[p.name] = row.bit_equal
        elif digest_a is not None and digest_b is not None:
            equal[p.name] = digest_a == digest_b
        elif (same := judged.has_equal_local_bytes(p)) is not None:
            equal[p.name] = same
    in_containers = judged.a.recording.containers or judged.b.recording.containers  # whose rows change later
    if len(equal) == len(judged.declared) and not in_containers:
        judged.known_equality = dict(equal)
    return equal


def _fail_by_forced(
    judged: Judged, units: list[Unit], forced: Mapping[str, Forced], distrusted: set[str], relax_board: bool
) -> None:
    """Makes the pair FAILED if a unit fails when recomputed from its recorded inputs, even if its final outputs pass
    every gate. With --relax-board the verdict line names the unit instead. Pairs with a dump are left to triage."""
    pair = judged.pair
    failed = [
        o
        for u in units
        if not distrusted & {u.name, *names_inside(u)}
        for o in u.outputs
        if o in forced and forced[o].verdict == "FAILED"
    ]
    if not failed or pair.verdict == "FAILED" or judged.b.recording.side == "dump":
        return
    more = f" (and {count(len(failed) - 1, 'more tensor')})" if len(failed) > 1 else ""
    if relax_board:
        pair.relaxed.append(f"{failed[0]} fails when recomputed from its recorded inputs{more}")
        return
    hole = pair.why if pair.verdict == "INCONCLUSIVE" else ""
    pair.notes += [hole] if hole else []
    pair.verdict, pair.why = "FAILED", f"{failed[0]} fails when recomputed from its recorded inputs{more}"


def hold_to_nodes(
    judged: Judged, units: list[Unit], forced: Mapping[str, Forced], excepted: Collection[str], relax_board: bool
) -> bool:
    """Makes a pair of dumps that its gate would pass FAILED if a tensor in its scope fails when recomputed from what a dump
    recorded. One outside the scope is named in the verdict line, and with relax_board every such one. Returns whether the pair
    FAILED. excepted: tensors whose verdicts are no findings."""
    failed = [
        o for u in units for o in u.outputs if o in forced and forced[o].verdict == "FAILED" and o not in excepted
    ]
    if not failed:
        _hold_to_open(judged, forced, [o for o in _list_open(units, forced) if o not in excepted], relax_board)
        return False
    inside = [] if relax_board else [o for o in failed if o in judged.rows]
    first = (inside or failed)[0]
    more = f" (and {count(len(inside or failed) - 1, 'more tensor')})" if len(inside or failed) > 1 else ""
    text = f"{first} fails when recomputed from its recorded inputs{more}"
    if not inside:
        judged.pair.relaxed.append(text)
        return False
    judged.pair.verdict, judged.pair.why = "FAILED", text
    return True


def _hold_to_open(judged: Judged, forced: Mapping[str, Forced], names: list[str], relax_board: bool) -> None:
    """Makes a pair of dumps that its gate would pass INCONCLUSIVE if a tensor in its scope differs when recomputed and cannot
    be judged; the verdict line names the others, and those that roundings inside of a region may explain."""
    open_inside = [o for o in names if UNTOLD not in forced[o].why and o in judged.rows]
    if relax_board or not open_inside or judged.pair.verdict != "PASSED":
        _state_open(judged, forced, names)
        return
    more = f" (and {count(len(open_inside) - 1, 'more tensor')})" if len(open_inside) > 1 else ""
    first = open_inside[0]
    why = f"{first} differs and cannot be judged when recomputed{more}: {forced[first].why}"
    judged.pair.verdict, judged.pair.cause, judged.pair.why = "INCONCLUSIVE", "not_judged", why


def _leave_unevaluated_open(
    judged: Judged, graph: Graph, units: list[Unit], forced: Mapping[str, Forced], strict: bool
) -> None:
    """Makes a pair INCONCLUSIVE that would pass although a unit differs when recomputed and cannot be evaluated: no gate
    shows that such differences are of a right board. Of a graph of an engine's operators, also one that only misses the
    decimals behind such a unit: none of its operators is known to be wrong."""
    open_units = _list_open(units, forced)
    wrong = any(f.verdict == "FAILED" for f in forced.values())
    only_decimals = graph.is_of_operators and not wrong and not strict and not judged.gate.extra
    excused = ("PASSED", "FAILED") if only_decimals else ("PASSED",)
    if not open_units or judged.pair.verdict not in excused or judged.b.recording.side in ("dump", "B"):
        return
    within_bound = [o for o in open_units if UNTOLD in forced[o].why]
    if len(within_bound) == len(open_units) and not graph.is_of_operators:
        return _state_open(judged, forced, within_bound)  # roundings may explain it, and the user's gate allows it
    judged.pair.notes += [judged.pair.why] if judged.pair.why else []
    more = f" (and {count(len(open_units) - 1, 'more tensor')})" if len(open_units) > 1 else ""
    why = f"{open_units[0]} differs and cannot be judged when recomputed{more}: {forced[open_units[0]].why}"
    judged.pair.verdict, judged.pair.cause, judged.pair.why = "INCONCLUSIVE", "not_judged", why


def _list_open(units: list[Unit], forced: Mapping[str, Forced]) -> list[str]:
    """Returns the tensors that differ when recomputed and cannot be judged."""
    outputs = [o for u in units for o in u.outputs if o in forced]
    return [o for o in outputs if forced[o].verdict == "INCONCLUSIVE" and forced[o].mismatched]


def _state_open(judged: Judged, forced: Mapping[str, Forced], names: list[str]) -> None:
    """Names in the verdict line of a pair that its gate passes what the recorded inputs neither explain nor refute."""
    if names and judged.pair.verdict == "PASSED":
        more = f" (and {count(len(names) - 1, 'more tensor')})" if len(names) > 1 else ""
        judged.pair.relaxed.append(
            f"judged by the gate alone, as recomputing it does not tell roundings from faults: {names[0]}{more}"
        )


def _leave_other_outputs_open(judged: Judged, forced: Mapping[str, Forced]) -> None:
    """Makes a pair INCONCLUSIVE that would pass node by node because other kernels of the engine give the bytes of nodes, if a
    final output of it is wholly different from the reference's: kernels that only round otherwise do not explain that."""
    pair, prefix = judged.pair, ACCEPTED.format("")
    if pair.verdict != "PASSED" or not any(f.limit.startswith(prefix) for f in forced.values()):
        return
    for row in (r for r in judged.rows.values() if r.final and r.node_by_node):
        name_a, name_b = next(((p.a, p.b) for p in judged.declared if p.name == row.name), (row.name, row.name))
        a, b = judged.a.get_local(name_a), judged.b.get_local(name_b)
        if a is not None and b is not None and differ_wholly(a, b):
            pair.verdict, pair.cause = "INCONCLUSIVE", "not_judged"
            pair.why = f"{row.name} is wholly different from the reference's, though other kernels of the engine give each node: which ones are wrong is not known"
            return


def _state_unreadable(judged: Judged, graph: Graph, names: list[str]) -> None:
    """States in the verdict line that tensors were not recomputed: real values that stand for no integers, and floats of
    fewer digits than the model's."""
    quantized = [n for n in names if graph.spec(n).quantized]
    floats = [n for n in names if n not in quantized]
    for kind, some in (("real values that stand for no integers", quantized), ("float16", floats)):
        if some:
            given = count(len(some), "tensor", "is", "are")
            judged.pair.relaxed.append(f"{given} given as {kind}, and not recomputed, first {some[0]}")


def _state_not_judged(judged: Judged, graph: Graph, units: list[Unit], forced: Mapping[str, Forced]) -> None:
    """Lists the elements for which the reference has no meaningful value. A pair that would pass is INCONCLUSIVE if
    every compared element of its final outputs is such an element, is NaN or Inf on one side because of one, or is
    computed from a tensor that consists of such elements only."""
    pair = judged.pair
    for unit in units:
        for name, verdict in ((o, forced[o]) for o in unit.outputs if o in forced):
            if verdict.not_judged:
                pair.not_judged.append(NotJudged(name, verdict.not_judged, verdict.elements, _explain_not_judged(unit)))
    if not pair.not_judged or pair.verdict != "PASSED":
        return
    not_finite = {name: one_sided for name, (one_sided, _) in judged.not_finite.items()}
    meaningless = {n.tensor: max(n.elements, not_finite.get(n.tensor, 0)) for n in pair.not_judged}
    wholly_lost = {n.tensor for n in pair.not_judged if meaningless[n.tensor] >= n.of}
    wholly_lost |= {r.name for r in judged.rows.values() if not_finite.get(r.name, 0) >= r.elements}
    for step in in_order(graph.islands, units, (*graph.inputs, *graph.constants)):
        if wholly_lost.intersection(step.inputs):
            wholly_lost.update(step.outputs)
    if wholly_lost.issuperset(r.name for r in judged.rows.values() if r.final):
        pair.verdict, pair.cause, pair.why = "INCONCLUSIVE", "not_judged", describe_not_judged(pair.not_judged)


def _state_fixed_point(judged: Judged, forced: Mapping[str, Forced]) -> None:
    """Adds a note that names the outputs that a known kernel computes bit for bit."""
    if fixed := [o for o, f in forced.items() if f.why == FIXED_POINT and f.mismatched]:
        others = f" (and {len(fixed) - 1} more)" if len(fixed) > 1 else ""
        judged.pair.notes.append(f"{fixed[0]}{others}: {FIXED_POINT}")


def _explain_not_judged(unit: Unit) -> str:
    """Returns the reason why elements of the unit's output are not judged."""
    if any(n.op in ("layer_norm", "group_norm") for n in unit.nodes):
        return WHY_VARIANCE
    periodic = any(n.op == "elementwise_float" and NAMES.get(n.words[0]) in PERIODIC for n in unit.nodes)
    return WHY_LARGE_ARGUMENT if periodic else WHY_OVERFLOW


def find_other_differences(judged: Judged, agreeing: Collection[str] = ()) -> OtherDifferences | None:
    """Returns a summary of the differences outside the scope of a pair that passed, or None if the pair did not pass or
    nothing differs. agreeing: tensors that are known to agree when recomputed."""
    if judged.pair.verdict != "PASSED":
        return None
    outside = [n for n, same in map_known_equality(judged).items() if not same and n not in judged.rows]
    outside = [n for n in outside if not judged.stands_for_equal(n)]
    return OtherDifferences(len(outside), outside[0], set(outside) <= set(agreeing)) if outside else None
