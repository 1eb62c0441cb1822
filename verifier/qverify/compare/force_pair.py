"""Forces the nodes and regions of a pair of sides, and states in it where the sides begin to differ and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from qverify.compare.blame import find_first_divergence
from qverify.compare.forced import Forcing
from qverify.compare.judge import Judged
from qverify.compare.kernel_sets import accept_kernel_sets
from qverify.compare.one_arithmetic import accept_one_arithmetic, name_arithmetics
from qverify.compare.regions import (
    describe_open,
    describe_region,
    find_inside,
    list_single,
)
from qverify.compare.settle import map_known_equality
from qverify.compare.shipped_arithmetics import NO_FAULT, describe_rounded_otherwise, find_rounded_otherwise
from qverify.compare.straight_concats import StraightConcats
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced, worst
from qverify.report.side_names import named

Progress = Callable[[int, int], None]


def force_pair(force: Forcing, units: list[Unit], progress: Progress | None, everywhere: bool) -> dict[str, Forced]:
    """Returns the forced verdicts, by tensor, of units and regions of which side b declares all inputs and outputs. A pair
    whose gate passes is forced only where tensors were judged or bytes are known to differ, unless `everywhere` is
    set."""
    judged = force.judged
    per_node = all("per_node" in s.recording.capabilities for s in (judged.a, judged.b))
    todo = units if per_node or judged.pair.verdict != "PASSED" else []
    if judged.pair.verdict == "PASSED" and not everywhere:
        differing = {n for n, same in map_known_equality(judged).items() if not same}
        todo = [
            u
            for u in todo
            if any(o in judged.rows for o in u.outputs) or differing.intersection((*u.inputs, *u.outputs))
        ]
    force.prefetch(todo)
    verdicts: dict[str, Forced] = {}
    for i, unit in enumerate(todo):
        found, region = force.force_unit(unit), describe_region(unit, judged.pair.b)
        verdicts |= found if region is None else {o: replace(f, region=region) for o, f in found.items()}
        if progress is not None:
            progress(i + 1, len(todo))
    if force.is_foreign and not force.graph.is_of_operators:
        free = [u for u in list_single(todo) if force.stated is None or not force.stated.states(u, force.graph)]
        accept_one_arithmetic(free, verdicts, force.gives_all, force.needs_evidence)
        StraightConcats(free, force.graph, force.read_recorded, force.gives_all).accept(verdicts)
        force.rounded_otherwise = find_rounded_otherwise(
            force.stated, force.graph, list_single(todo), verdicts, force.gives_all, force.needs_evidence
        )
    accept_kernel_sets(todo, verdicts, force.giving, force.gives_all_by_kernels, not force.graph.is_of_operators)
    for name, verdict in verdicts.items():
        if name in judged.rows:
            judged.rows[name].forced = verdict
    return verdicts


def combine_forced(
    a: str, b: str, matrix: Mapping[tuple[str, str], dict[str, Forced]], judged: Judged
) -> dict[str, Forced]:
    """Returns the forced verdicts of a pair of which neither side runs single nodes: for each tensor of which both sides'
    verdicts beside the same side of this host are known, the worse of the two."""
    host = next((h for h in ("simulator", "reference") if (h, a) in matrix and (h, b) in matrix), "")
    ours, theirs = matrix.get((host, a), {}), matrix.get((host, b), {})
    combined = {
        name: forced if worst([forced.verdict, ours[name].verdict]) == forced.verdict else ours[name]
        for name, forced in theirs.items()
        if name in ours
    }
    for name in combined.keys() & judged.rows.keys():
        judged.rows[name].forced = combined[name]
    return combined


def fails(judged: Judged, unit: Unit) -> bool:
    """Returns whether an output of the unit failed the gate."""
    return any(o in judged.rows and judged.rows[o].verdict == "FAILED" for o in unit.outputs)


def is_one_node(unit: Unit) -> bool:
    """Returns whether the unit stands for a single node of the ONNX."""
    return sum(max(len(node.covers), 1) for node in unit.nodes) == 1


def explain_pair(force: Forcing, units: list[Unit], verdicts: dict[str, Forced]) -> None:
    """Sets the pair's first divergence and, if it FAILED, its cause (node, region, accumulated_rounding, other_rounding or unlocated) and the
    arithmetic of a side that is not qvrt."""
    pair = force.judged.pair
    pair.first_divergence = find_first_divergence(units, force.same, pair.b)
    failed = [name for name, f in verdicts.items() if f.verdict == "FAILED"]
    if pair.verdict != "FAILED":
        return
    inside = find_inside(units, {o for o, f in verdicts.items() if f.verdict == "PASSED"})
    unknown = [
        u
        for u in units
        if u.name not in inside
        and not all(
            o in verdicts and verdicts[o].verdict == "PASSED" for o in u.outputs if not force.graph.spec(o).interior
        )
    ]
    if failed:
        pair.cause = "node" if any(verdicts[name].region is None for name in failed) else "region"
    elif unknown or not units or (force.exact and not force.rounded_otherwise):
        pair.cause = "unlocated"
        why = next((describe_open(verdicts[o]) for u in unknown for o in u.outputs if o in verdicts), "")
        pair.notes.append(_describe_unlocated(len(unknown), len(units), why, force.exact))
    else:
        pair.cause = "accumulated_rounding"
    if force.is_foreign and not force.graph.is_of_operators:
        pair.arithmetics, everywhere = name_arithmetics(
            list_single(units), verdicts, force.gives_all, force.needs_evidence
        )
        by_one = everywhere or bool(force.rounded_otherwise)
        pair.cause = "other_rounding" if by_one and pair.cause == "accumulated_rounding" else pair.cause
        pair.notes += pair.arithmetics
        lines = describe_rounded_otherwise(force.stated, list_single(units), force.rounded_otherwise, named(pair.b))
        pair.relaxed += lines
        pair.notes += [NO_FAULT.format(line) for line in lines]


def _describe_unlocated(unknown: int, total: int, why: str, exact: bool) -> str:
    if unknown:
        return f"{unknown} of {count(total, 'node')} could not be forced" + (f": {why}" if why else "")
    if exact:
        return "every node, when forced, gives the board's bytes: its inputs or its run differ from those recorded; repeat the run"
    return "no node to force"
