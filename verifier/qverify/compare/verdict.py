"""Makes one Report from all Recordings: judges every pair, forces the nodes where the two sides differ, and assigns
blame, in this order."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from itertools import combinations

from qverify.compare.blame import find_culprits, find_first_divergence
from qverify.compare.combine_reports import sum_by_name
from qverify.compare.containers import state_containers, unwrap
from qverify.compare.drawings.add_drawings import add_drawings
from qverify.compare.find_channels import find_channels
from qverify.compare.find_orders import find_orders, leave_reordered_open, list_failed, list_orders_found
from qverify.compare.find_scales import find_other_scales
from qverify.compare.forced import Forcing, Located, is_foreign
from qverify.compare.gate import requires_equal_bits
from qverify.compare.judge import Judge, Judged
from qverify.compare.kernel_sets import RunUnit, accept_kernel_sets
from qverify.compare.later import Later
from qverify.compare.measured_rows import MeasuredRows
from qverify.compare.one_arithmetic import accept_one_arithmetic, name_arithmetics
from qverify.compare.options import Options
from qverify.compare.placement import judge_placement, list_placements
from qverify.compare.regions import (
    describe_open,
    describe_region,
    find_inside,
    find_steps,
    list_single,
    names_inside,
    replace_by_regions,
)
from qverify.compare.same_arrays import SameArrays
from qverify.compare.scale import find_scales, state_unseen_scales
from qverify.compare.settle import find_other_differences, map_known_equality, settle_pair
from qverify.compare.shipped_arithmetics import NO_FAULT, describe_rounded_otherwise, find_rounded_otherwise
from qverify.compare.stated_arithmetic import read_stated
from qverify.compare.straight_concats import StraightConcats
from qverify.compare.untapped import judge_untapped, name_optimization
from qverify.compare.values import Pull, Values
from qverify.errors import UsageError
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.model_bin.units import units as all_units
from qverify.plural import count
from qverify.report.distance import Distance
from qverify.report.document import Blame, Forced, NetworkUnit, Pair, ReportDocument, TensorRow, worst
from qverify.report.side_names import named
from qverify.tensors.recording import NO_VALUES, Array, Recording

_ORDER = ("reference", "simulator", "board", "dump", "A", "B")  # A and B: two dumps that are compared with each other
Progress = Callable[[int, int], None]
Locate = Callable[[Judged], list[Blame]]


def judge_all(
    recordings: dict[str, Recording],
    graph: Graph | None,
    units: list[Unit],
    options: Options,
    run_unit: Mapping[str, RunUnit],
    pull: Pull | None = None,
    inputs: Mapping[str, Array] | None = None,
    progress: Progress | None = None,
    distrusted: Collection[str] = (),
    located: list[Located] | None = None,
    recomputes: bool = True,
    locate: Locate | None = None,
    made: Collection[str] = (),
    kernel_sets: Mapping[str, RunUnit] | None = None,
    model: Graph | None = None,
    later: Later | None = None,
) -> ReportDocument:
    """Returns the report on all pairs of sides. Raises UsageError if two recordings are of the same side, or if there
    are fewer than two sides.

    Args:
        recordings: recordings by label, each of a different side. One of the float side is ignored: it belongs to
            triage.
        graph: the compiled model, or None if it is not known.
        units: the units of the graph.
        options: how to judge.
        run_unit: functions that run one unit, by side.
        pull: function that requests tensors from the board.
        inputs: the graph's inputs.
        progress: function that is called with the number of forced units and the number of all units to force.
        distrusted: as in blame.find_culprits().
        located: list to which the results of forcing are appended, pair by pair. If given, pairs whose gate passes are
            forced everywhere, too.
        recomputes: whether sides can run single nodes. If not, a node is only judged from equal inputs, if one of its
            outputs fails the gate, and if it does not stand for several nodes of the ONNX.
        locate: function that locates the differences of a pair whose graph is not given, and returns whom to blame.
        made: tensors of the graph that the compiler made, which no board can give by their names.
        kernel_sets: as for Forcing; those of the reference.
        model: the model of dumps whose graph is not given, which states scales and outputs for findings.
        later: as for Judge.
    """
    sides = _unwrap_all(_sort_sides(recordings), graph)
    values = {label: Values(r, pull if r.side == "board" else None) for label, r in sides}
    for label, side_values in values.items():
        side_values.peers = [r for other_label, r in sides if other_label != label]
    _share([r for _, r in sides])
    judged, forcing, cache, measured = [], list[tuple[Forcing, list[Unit]]](), SameArrays(), MeasuredRows()
    matrix: dict[tuple[str, str], dict[str, Forced]] = {}
    located_blame, stated, distances = list[Blame](), read_stated(graph), list[Distance]()
    for (label_a, a), (label_b, b) in combinations(sides, 2):
        if stated is not None and a.side == "reference" and not b.is_engine:
            continue  # a side that rounds in its own way is not judged by the reference
        judge = Judge(values[label_a], values[label_b], graph, options, measured, later=later)
        judged_pair = judge.run(_name_side(label_a, a), _name_side(label_b, b))
        judged.append(judged_pair)
        if graph is not None and judged_pair.pair.cause != "does_not_run":
            exact = requires_equal_bits(a, b)
            force = Forcing(judged_pair, graph, run_unit.get(a.side), exact, inputs or {}, cache, kernel_sets)
            to_force = units if recomputes else [u for u in units if _fails(judged_pair, u) and _is_one_node(u)]
            steps = find_steps(to_force, graph, force.is_offered, recomputes, force.refused, made)
            matrix[(a.side, b.side)] = (
                _combine_forced(a.side, b.side, matrix, judged_pair)
                if a.is_engine
                else _force_pair(force, steps, progress, located is not None)
            )
            found, failed = matrix[(a.side, b.side)], list_failed(judged_pair)
            needs_orders = force.is_foreign or any(f.verdict == "FAILED" for f in found.values())
            if needs_orders:
                judged_pair.orders = find_orders(judged_pair, graph, options.frame)
                leave_reordered_open(judged_pair, steps, found)
            forcing.append((force, replace_by_regions(units, steps)))
            settle_pair(*forcing[-1], found, options, distrusted)
            if not needs_orders:  # a pair that passes node by node is not searched
                judged_pair.orders = find_orders(judged_pair, graph, options.frame, failed)
        elif graph is None:
            judged_pair.orders = find_orders(judged_pair, model, options.frame)
            located_blame += locate(judged_pair) if locate is not None else []
            judged_pair.pair.others = find_other_differences(judged_pair)
    suspect = {*distrusted}
    if suspect:
        suspect |= {u.name for _, parts in forcing for u in parts if names_inside(u) & {*distrusted}}
    engines = [r.side for _, r in sides if r.is_engine]
    is_compiled = graph is None or not graph.is_of_operators
    for force, _ in forcing:
        key = (force.judged.a.recording.side, force.judged.b.recording.side)
        matrix[key] = (
            matrix[key] | force.rounded_otherwise
        )  # of the pair they stay FAILED, and nobody is blamed for them
    blamed = _blame_devices(units, matrix, suspect, ["board", *engines], is_compiled) if _any_failed(judged) else []
    blamed = [*blamed, *located_blame]
    for force, parts in forcing:
        key = (force.judged.a.recording.side, force.judged.b.recording.side)
        if located is not None:
            located.append(Located(*key, force.same, matrix[key]))
        _explain(force, parts, matrix[key])
    for judged_pair in judged:
        judge_untapped(judged_pair, graph, options)
        name_optimization(judged_pair)
        judge_placement(judged_pair, options)
        state_containers(judged_pair)
        if judged_pair.exchanges:
            from qverify.compare.find_exchanges import state_exchanges

            state_exchanges(judged_pair)
        _keep_rows(judged_pair, options)
    if stated is not None and graph is not None:
        distances = _measure_distances(judged, values, graph, options)
        _hold_to_gate([j.pair for j in judged if not _has_engine(j)], distances, options)
    with_forced = [(j, matrix.get((j.a.recording.side, j.b.recording.side), {})) for j in judged]
    add_drawings(with_forced, graph, blamed[0] if blamed else None, options.drawings)
    report = _make_report([j.pair for j in judged], blamed, recordings, options)
    report.distance = distances
    report.notes += list_placements(r for _, r in sides)
    if not report.pairs:
        report.verdict = worst([report.verdict, *(d.verdict for d in distances)])
    is_whole = graph is not None and units is graph.once(all_units)
    report.units = [*graph.once(_describe_units)] if is_whole and graph is not None else [*map(_describe_unit, units)]
    state_unseen_scales(report.pairs)
    scales = find_other_scales(judged, graph or model, options.frame)
    named_scales = {f.tensor for f in scales}
    factors = [f for f in find_scales(report.pairs) if f.tensor not in named_scales]
    report.findings = [*scales, *factors, *list_orders_found(judged)]
    if graph is None and not blamed:
        report.findings += find_channels(j for j in judged if j.pair.verdict == "FAILED" and not j.orders)
    return report


def _has_engine(judged: Judged) -> bool:
    """Returns whether a side is a further engine, whose arithmetic is not stated."""
    return judged.a.recording.is_engine or judged.b.recording.is_engine


def _measure_distances(
    judged: list[Judged], values: Mapping[str, Values], graph: Graph, options: Options
) -> list[Distance]:
    """Returns the distance of the simulator from the reference, and that of the board where it has other bytes."""
    from qverify.compare.reference_distance import measure_reference_distance

    by_side = {v.recording.side: v for v in values.values() if v.recording.state not in NO_VALUES}
    reference = by_side.get("reference")
    apart = [j for j in judged if not j.pair.bit_equal and not _has_engine(j)]
    sides = [s for s in ("simulator", "board") if s in by_side and (s == "simulator" or apart)]
    if reference is None:
        return []
    return [measure_reference_distance(reference, by_side[side], graph, options) for side in sides]


def _hold_to_gate(pairs: list[Pair], distances: list[Distance], options: Options) -> None:
    """Gives pairs that would pass the verdict of a gate that was given for the distance from the reference: FAILED if a
    side misses it, INCONCLUSIVE if it could not be applied."""
    from qverify.compare.reference_distance import has_gate

    missed = [(d.verdict, f"{d.side} ~ reference: {d.misses}") for d in distances if d.verdict != "PASSED"]
    if not distances and has_gate(options):
        missed.append(
            ("INCONCLUSIVE", "the gate that was given is one of the distance from the reference, which did not run")
        )
    if not missed:
        return
    verdict = worst([verdict for verdict, _ in missed])
    for pair in (p for p in pairs if p.verdict == "PASSED" or (p.verdict, verdict) == ("INCONCLUSIVE", "FAILED")):
        pair.notes += [pair.why] if pair.why else []
        pair.verdict, pair.cause = verdict, "distance"
        pair.why = next(why for found, why in missed if found == verdict)


def _any_failed(judged: list[Judged]) -> bool:
    return any(j.pair.verdict == "FAILED" for j in judged)


def _blame_devices(
    units: list[Unit],
    matrix: Mapping[tuple[str, str], dict[str, Forced]],
    suspect: Collection[str],
    devices: list[str],
    is_compiled: bool,
) -> list[Blame]:
    """Returns every side to blame once: the board and each engine is judged beside reference and simulator by itself."""
    blamed: dict[str, Blame] = {}
    for device in devices:
        pairs = {(a, "board" if b == device else b): m for (a, b), m in matrix.items() if b in ("simulator", device)}
        for blame in find_culprits(units, pairs, suspect, device, is_compiled):
            blamed.setdefault(blame.side, blame)
    return [*blamed.values()]


def _unwrap_all(sides: list[tuple[str, Recording]], graph: Graph | None) -> list[tuple[str, Recording]]:
    """Returns the recordings; of sides that are not qvrt with the tensors in other containers read as the graph's."""
    if graph is None:
        return sides
    hosts = [r for _, r in sides if r.side in ("reference", "simulator")]
    return [(label, unwrap(r, graph.tensors, hosts) if is_foreign(r) else r) for label, r in sides]


def _sort_sides(recordings: dict[str, Recording]) -> list[tuple[str, Recording]]:
    """Returns the recordings that are compared, with their labels. Raises UsageError as judge_all() does."""
    sides = sorted((r for r in recordings.items() if r[1].side in _ORDER or r[1].is_engine), key=_rank)
    if len({r.side for _, r in sides}) < len(sides):
        raise UsageError(f"two recordings of one side: {', '.join(f'{label} ({r.side})' for label, r in sides)}")
    if len(sides) < 2:
        names = ", ".join(recordings) or "none"
        raise UsageError(f"nothing to compare: got {names}, wanted two of {', '.join(_ORDER[:4])}")
    return sides


def _rank(labelled: tuple[str, Recording]) -> float:
    """Returns the place of a side: engines stand after the simulator and before the board."""
    side = labelled[1]
    return _ORDER.index("simulator") + 0.5 if side.is_engine else _ORDER.index(side.side)


def _share(recordings: list[Recording]) -> None:
    """Replaces arrays with the same bytes (according to their digests) by one array, so that memory contains each only
    once."""
    arrays: dict[tuple[str, str], Array] = {}
    for recording in recordings:
        tensors = recording.tensors
        if not isinstance(tensors, dict):
            continue
        for name, digest in recording.digests.items():
            if name in tensors:
                value = tensors[name]
                first = arrays.setdefault((name, digest), value)
                if (first.shape, first.dtype) == (value.shape, value.dtype):
                    tensors[name] = first


def _name_side(label: str, recording: Recording) -> str:
    """Returns the side's name in the report: its role, or for a dump the label that it was given."""
    return label if recording.side == "dump" else recording.side


def _force_pair(force: Forcing, units: list[Unit], progress: Progress | None, everywhere: bool) -> dict[str, Forced]:
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


def _combine_forced(
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


def _fails(judged: Judged, unit: Unit) -> bool:
    """Returns whether an output of the unit failed the gate."""
    return any(o in judged.rows and judged.rows[o].verdict == "FAILED" for o in unit.outputs)


def _is_one_node(unit: Unit) -> bool:
    """Returns whether the unit stands for a single node of the ONNX."""
    return sum(max(len(node.covers), 1) for node in unit.nodes) == 1


def _explain(force: Forcing, units: list[Unit], verdicts: dict[str, Forced]) -> None:
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


def _keep_rows(judged: Judged, options: Options) -> None:
    """Chooses the rows of the report, in graph order: all with dump_all, else the final outputs and those that did not
    pass."""
    rows: list[TensorRow] = [r for r in judged.rows.values() if options.dump_all or r.final or r.verdict != "PASSED"]
    judged.pair.tensors = rows
    shown = {r.name for r in rows}
    judged.pair.same_bytes = {n: same for n, same in map_known_equality(judged).items() if n not in shown}
    if judged.pair.verdict == "FAILED" and judged.pair.cause is None:
        judged.pair.cause = "unlocated"


def _describe_units(graph: Graph) -> list[NetworkUnit]:
    """Returns all units of a graph as the report has them."""
    return [_describe_unit(unit) for unit in graph.once(all_units)]


def _describe_unit(unit: Unit) -> NetworkUnit:
    covers = dict.fromkeys(name for node in unit.nodes for name in node.covers)
    return NetworkUnit(unit.nodes[-1].name, unit.op, list(covers), list(unit.inputs), list(unit.outputs))


def _make_report(
    pairs: list[Pair], blamed: list[Blame], recordings: dict[str, Recording], options: Options
) -> ReportDocument:
    report = ReportDocument(
        verdict=worst([p.verdict for p in pairs]),
        blame=blamed[0] if blamed else None,
        decimals={"digits": options.digits, "rule": options.rule},
        pairs=pairs,
        blamed=blamed,
        link=sum_by_name(r.link for r in recordings.values()),
        dump_all=options.dump_all,
        criteria=options.criteria,
        boards=[r.host for r in recordings.values() if r.side == "board" and r.host],
        facts=dict(options.facts),
    )
    for label, r in recordings.items():
        report.sides.append(
            {
                "name": label,
                "engine": r.engine,
                "version": r.version,
                "settings": r.settings,
                "seconds": round(r.duration_s, 6),
                "host": r.host or platform.machine(),
                "state": r.state,
                "why": r.why,
                **({"node_seconds": r.node_seconds} if r.node_seconds else {}),
                **({"placement": [asdict(p) for p in r.placement]} if r.placement else {}),
                **({"ledger": r.ledger} if r.ledger else {}),
                **({"inventory": r.inventory} if r.inventory else {}),
                **({"tags": r.tags} if r.tags else {}),
            }
        )
    if not blamed and any(p.cause == "unlocated" for p in pairs) and (hint := _hint_by_outputs(pairs)):
        report.notes.append(hint)
    return report


def _hint_by_outputs(pairs: list[Pair]) -> str:
    """Returns a hint that names the one side that differs from both others, or "" if there is none. It is for reports
    in which nothing can be forced."""
    if len(pairs) != 3 or not all(p.coverage.compared for p in pairs):
        return ""
    agreeing = [p for p in pairs if p.verdict == "PASSED"]
    if len(agreeing) != 1 or sum(p.verdict == "FAILED" for p in pairs) != 2:
        return ""
    odd_side = next(s for p in pairs for s in (p.a, p.b) if s not in (agreeing[0].a, agreeing[0].b))
    return f"{agreeing[0].a} and {agreeing[0].b} agree; {named(odd_side)} differs from both"
