"""Settles a pair's verdict by its forced verdicts: what they excuse, what they make FAILED, what was not judged."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from qverify.compare.forced import Forcing
from qverify.compare.judge import Judged
from qverify.compare.node_by_node import agree_recomputed, judge_node_by_node
from qverify.compare.options import Options
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced, OtherDifferences


def settle_pair(
    force: Forcing, units: list[Unit], forced: Mapping[str, Forced], options: Options, distrusted: Collection[str] = ()
) -> None:
    """Sets the pair's final verdict and counts the differences outside its scope. distrusted: as for blame.culprits;
    such a node is not evidence in a pair with the reference."""
    judged = force.judged
    if judged.pair.a == "reference" and not options.strict:
        judge_node_by_node(judged, force.graph, units, forced)
    spared = set(distrusted) if judged.pair.a == "reference" else set()
    _condemn(judged, units, forced, spared, options.relax_board)
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


def other_differences(judged: Judged, agreeing: Collection[str] = ()) -> OtherDifferences | None:
    """Returns what differs outside the scope of a pair that passed; None where it did not pass, or nothing differs.
    agreeing: tensors known to agree when recomputed."""
    if judged.pair.verdict != "PASSED":
        return None
    outside = [n for n, same in known_bytes(judged).items() if not same and n not in judged.rows]
    return OtherDifferences(len(outside), outside[0], set(outside) <= set(agreeing)) if outside else None
