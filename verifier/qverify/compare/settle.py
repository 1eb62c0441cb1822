"""Settles a pair's verdict by its forced verdicts: what they excuse, what they make FAILED, what was not judged."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from qverify.compare.documented_rounding import FIXED_POINT
from qverify.compare.error_bounds.functions import PERIODIC
from qverify.compare.forced import Forcing
from qverify.compare.judge import Judged
from qverify.compare.node_by_node import agree_recomputed, judge_node_by_node
from qverify.compare.options import Options
from qverify.model_bin.float_functions import NAMES
from qverify.model_bin.graph import Graph
from qverify.model_bin.islands import in_order
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced, NotJudged, OtherDifferences
from qverify.report.weakenings import describe_not_judged

OVERFLOWING = "the reference's float32 intermediates overflow or underflow there"
BEYOND_PERIODS = (
    "an argument of sin, cos or tan is beyond 2^20 there, or the reference's float32 intermediates overflow"
)


def settle_pair(
    force: Forcing, units: list[Unit], forced: Mapping[str, Forced], options: Options, distrusted: Collection[str] = ()
) -> None:
    """Sets the pair's final verdict and counts the differences outside its scope. distrusted: as for blame.culprits;
    such a node is not evidence in a pair with the reference."""
    judged = force.judged
    if (judged.pair.a == "reference" or judged.b.recording.kernels) and not options.strict:
        judge_node_by_node(judged, force.graph, units, forced, options.nan_equal)
    spared = set(distrusted) if judged.pair.a == "reference" else set()
    _condemn(judged, units, forced, spared, options.relax_board)
    _state_not_judged(judged, force.graph, units, forced)
    _state_unexplained(judged, units, forced)
    judged.pair.others = other_differences(judged, agree_recomputed(force.graph, units, forced, known_bytes(judged)))


def known_bytes(judged: Judged) -> dict[str, bool]:
    """Returns, by declared tensor, whether both sides have the same bytes of it, as far as digests or bytes already
    sent tell; nothing is pulled from a board."""
    equal = {}
    for p in judged.declared:
        row = judged.rows.get(p.name)
        one, two = judged.a.digest(p.a), judged.b.digest(p.b)
        if row is not None:
            equal[p.name] = row.bit_equal
        elif one is not None and two is not None:
            equal[p.name] = one == two
        elif (same := judged.held_bytes_equal(p)) is not None:
            equal[p.name] = same
    return equal


def _condemn(
    judged: Judged, units: list[Unit], forced: Mapping[str, Forced], distrusted: set[str], relax_board: bool
) -> None:
    """Makes the pair FAILED where a unit fails when recomputed from its recorded inputs, whatever its final outputs and
    the gates say; with --relax-board the verdict line names the unit instead. Another runtime (a dump) is left to
    triage."""
    pair = judged.pair
    failed = [
        o for u in units if u.name not in distrusted for o in u.outputs if o in forced and forced[o].verdict == "FAILED"
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


def _state_not_judged(judged: Judged, graph: Graph, units: list[Unit], forced: Mapping[str, Forced]) -> None:
    """Lists the elements for which the reference has no meaningful value. A pair that would pass is INCONCLUSIVE if every
    element compared of its final outputs is one, is NaN or Inf on one side because of one, or depends on a tensor of
    nothing else."""
    pair = judged.pair
    for unit in units:
        for name, found in ((o, forced[o]) for o in unit.outputs if o in forced):
            if found.not_judged:
                pair.not_judged.append(NotJudged(name, found.not_judged, found.elements, _say_why(unit)))
    if not pair.not_judged or pair.verdict != "PASSED":
        return
    wild = {name: one for name, (one, _) in judged.not_finite.items() if one}
    lost = {n.tensor: max(n.elements, wild.get(n.tensor, 0)) for n in pair.not_judged}
    whole = {n.tensor for n in pair.not_judged if lost[n.tensor] >= n.of}
    whole |= {r.name for r in judged.rows.values() if wild.get(r.name, 0) >= r.elements}
    for step in in_order(graph.islands, units, (*graph.inputs, *graph.constants)):
        if whole.intersection(step.inputs):
            whole.update(step.outputs)
    if whole.issuperset(r.name for r in judged.rows.values() if r.final):
        pair.verdict, pair.cause, pair.why = "INCONCLUSIVE", "not_judged", describe_not_judged(pair.not_judged)


def _state_unexplained(judged: Judged, units: list[Unit], forced: Mapping[str, Forced]) -> None:
    """Names the first node whose differences the documented kernels of the board do not explain, and those that a known
    kernel gives bit for bit."""
    if fixed := [o for o, f in forced.items() if f.why == FIXED_POINT and f.mismatched]:
        others = f" (and {len(fixed) - 1} more)" if len(fixed) > 1 else ""
        judged.pair.notes.append(f"{fixed[0]}{others}: {FIXED_POINT}")
    found = [(o, forced[o]) for u in units for o in u.outputs if o in forced and forced[o].unexplained]
    if found:
        name, one = found[0]
        more = f" (and {count(len(found) - 1, 'more tensor')})" if len(found) > 1 else ""
        judged.pair.notes.append(f"{name}: within {one.limit} when recomputed, but {one.why}{more}")


def _say_why(unit: Unit) -> str:
    periodic = any(n.op == "elementwise_float" and NAMES.get(n.words[0]) in PERIODIC for n in unit.nodes)
    return BEYOND_PERIODS if periodic else OVERFLOWING


def other_differences(judged: Judged, agreeing: Collection[str] = ()) -> OtherDifferences | None:
    """Returns what differs outside the scope of a pair that passed; None where it did not pass, or nothing differs.
    agreeing: tensors known to agree when recomputed."""
    if judged.pair.verdict != "PASSED":
        return None
    outside = [n for n, same in known_bytes(judged).items() if not same and n not in judged.rows]
    return OtherDifferences(len(outside), outside[0], set(outside) <= set(agreeing)) if outside else None
