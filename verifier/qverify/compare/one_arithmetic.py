"""Accepts the nodes of a side that is not qvrt of which one arithmetic of the catalogue gives every element: the same
one at all nodes of an op, and at all nodes that round sums if it does not round to the nearest integer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from qverify.compare.catalogue import FLOOR, LEGAL, OPS, OWN_KERNELS, SUMS, choose_name, describe
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced

# Whether an arithmetic gives every recorded element of a unit; None if it cannot be asked
GivesAll = Callable[[Unit, str], bool | None]
NeedsEvidence = Callable[[Unit, str], bool]  # as find_arithmetics.needs_evidence(), without the graph


def accept_one_arithmetic(
    units: list[Unit], forced: dict[str, Forced], gives_all: GivesAll, needs_evidence: NeedsEvidence
) -> None:
    """Sets the FAILED verdicts of an op to PASSED where one legal arithmetic gives every element. It must give every
    element of the op's other nodes, too, apart from those that no verdict accepts. Of several, one that is no chance
    counts, and of these the one that accepts most nodes. An arithmetic far from ties that so few elements show that a fault may fit it by chance makes the nodes
    INCONCLUSIVE.

    Args:
        units: the units of the graph.
        forced: the forced verdicts by tensor, which are changed.
        gives_all: asked for the units whose bytes are equal, or which passed.
        needs_evidence: asked for the units that are accepted.
    """
    for op in OPS:
        members = [u for u in units if u.nodes[0].op == op and u.outputs[0] in forced]
        failed = [u for u in members if may_be_rounding(forced[u.outputs[0]])]
        tried = dict.fromkeys(n for u in failed for n in forced[u.outputs[0]].arithmetics if n in LEGAL)
        passed = [u for u in members if forced[u.outputs[0]].verdict == "PASSED"]
        accepted = {n: [u for u in failed if n in forced[u.outputs[0]].arithmetics] for n in tried}
        shown = {n: _is_shown(n, accepted[n], forced.values(), needs_evidence) for n in tried}
        for name in sorted(tried, key=lambda n: (not shown[n], -len(accepted[n]), LEGAL.index(n))):
            if all(_gives(name, u, forced, gives_all) for u in (*passed, *_others(name, units, members, forced))):
                for unit in accepted[name]:
                    forced[unit.outputs[0]] = _accept(forced[unit.outputs[0]], name, shown[name])
                break


def may_be_rounding(found: Forced) -> bool:
    """Returns whether a failing verdict may be one on another rounding: not if it is the other side that is wrong by more than
    1 LSB (a sum that wraps), which no arithmetic of this side explains."""
    return found.verdict == "FAILED" and not (found.at_fault == found.by and (found.max_lsb or 0) > 1)


def _accept(found: Forced, name: str, shown: bool) -> Forced:
    """Returns the verdict on a node of which this arithmetic gives every element. shown: whether it is no chance."""
    if shown:
        limit = f"every element is that of {describe(name)}"
        return replace(found, verdict="PASSED", limit=limit, why="", unexplained=0, at_fault="")
    fits = f"{describe(name)} gives every element, but too few differ to tell this from a fault (run more inputs)"
    why = f"{found.why}; {fits}"
    return replace(found, verdict="INCONCLUSIVE", why=why, at_fault="")


def _is_shown(name: str, accepted: list[Unit], forced: Iterable[Forced], needs_evidence: NeedsEvidence) -> bool:
    """Returns whether it is no chance that the arithmetic gives every element of the units that it would accept."""
    from qverify.compare.find_arithmetics import EVIDENCE_BITS

    weak = any(needs_evidence(unit, name) for unit in accepted)
    return not weak or _measure_evidence(name, forced) >= EVIDENCE_BITS


def _measure_evidence(name: str, forced: Iterable[Forced]) -> float:
    """Returns measure_evidence() over all nodes that differ and of which the arithmetic gives every element."""
    from qverify.compare.find_arithmetics import measure_evidence

    return sum(measure_evidence(f) for f in forced if f.mismatched and name in f.arithmetics)


def choose_shown(found: Forced, verdicts: Iterable[Forced]) -> str:
    """Returns the arithmetic that gives every recorded element of a node, if the elements that differ are enough
    evidence for it, else "". verdicts: those of all nodes of the side."""
    from qverify.compare.find_arithmetics import EVIDENCE_BITS

    if not found.arithmetics:
        return ""
    name = choose_name(found.arithmetics)
    return name if _measure_evidence(name, verdicts) >= EVIDENCE_BITS else ""


def _others(name: str, units: list[Unit], members: list[Unit], forced: Mapping[str, Forced]) -> list[Unit]:
    """Returns the nodes of other ops that must round alike: all that round sums, if the arithmetic does not round to the
    nearest integer."""
    if not name.startswith(FLOOR):
        return []
    others = [u for u in units if u.nodes[0].op in SUMS and u not in members and u.outputs[0] in forced]
    return [u for u in others if forced[u.outputs[0]].verdict != "INCONCLUSIVE"]


def _gives(name: str, unit: Unit, forced: Mapping[str, Forced], gives_all: GivesAll) -> bool:
    """Returns whether nothing shows that the unit rounds otherwise."""
    return name in forced[unit.outputs[0]].arithmetics or gives_all(unit, name) is not False


def name_arithmetics(
    units: list[Unit], forced: Mapping[str, Forced], gives_all: GivesAll, needs_evidence: NeedsEvidence
) -> tuple[list[str], bool]:
    """Returns lines on the arithmetics that give every byte of the nodes that differ, one for each op, or a single line
    if one arithmetic gives every byte of all nodes that round sums; and whether that is so. Nothing is named if no
    arithmetic of the catalogue fits, or if so few elements differ that it fits by chance."""
    by_op: dict[str, list[Unit]] = {}
    for unit in units:
        judged = unit.outputs[0] in forced and forced[unit.outputs[0]].verdict != "INCONCLUSIVE"
        if unit.nodes[0].op in OPS and judged:
            by_op.setdefault(unit.nodes[0].op, []).append(unit)
    found = {
        op: {n for n in _find_common(members, forced, gives_all) if _is_shown_by(n, members, forced, needs_evidence)}
        for op, members in by_op.items()
    }
    differing = {op: names for op, names in found.items() if any(forced[u.outputs[0]].mismatched for u in by_op[op])}
    if not differing:
        return [], False
    rounding = [names for op, names in differing.items() if op not in OWN_KERNELS]
    everywhere = set.intersection(*rounding, *(n for op, n in found.items() if op in SUMS)) if rounding else set()
    if everywhere:
        sums = {u.outputs[0] for op in found if op not in OWN_KERNELS for u in by_op[op]}
        whole = all(f.mismatched == 0 for name, f in forced.items() if name not in sums)
        given = f"all {count(len(forced), 'tensor')}" if whole else f"{count(len(sums), 'tensor')} of sums"
        return [f"{describe(choose_name(everywhere))} gives every byte of {given}"], True
    return [
        f"{op}: {describe(choose_name(names))} gives every byte of {count(len(by_op[op]), 'tensor')}"
        for op, names in differing.items()
        if names
    ], False


def _is_shown_by(name: str, members: list[Unit], forced: Mapping[str, Forced], needs_evidence: NeedsEvidence) -> bool:
    """Returns whether it is no chance that the arithmetic gives every element of those of these units that differ."""
    return _is_shown(name, [u for u in members if forced[u.outputs[0]].mismatched], forced.values(), needs_evidence)


def _find_common(members: list[Unit], forced: Mapping[str, Forced], gives_all: GivesAll) -> set[str]:
    """Returns the arithmetics that give every element of all these units."""
    members = [u for u in members if forced[u.outputs[0]].verdict != "INCONCLUSIVE"]
    differing = [set(forced[u.outputs[0]].arithmetics) for u in members if forced[u.outputs[0]].mismatched]
    names = set.intersection(*differing) if differing else {*LEGAL}
    equal = [u for u in members if not forced[u.outputs[0]].mismatched]
    return {n for n in names if all(gives_all(u, n) is not False for u in equal)}
