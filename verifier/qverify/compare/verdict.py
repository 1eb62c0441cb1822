"""Makes one Report from all Recordings: judges every pair, forces the nodes where the two sides differ, and assigns
blame, in this order."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from itertools import combinations

from qverify.compare.blame import find_culprits
from qverify.compare.combine_reports import sum_by_name
from qverify.compare.containers import state_containers, unwrap
from qverify.compare.drawings.add_drawings import add_drawings
from qverify.compare.find_channels import find_channels
from qverify.compare.find_orders import find_orders, leave_reordered_open, list_failed, list_orders_found
from qverify.compare.find_scales import find_other_scales
from qverify.compare.force_pair import Progress, combine_forced, explain_pair, fails, force_pair, is_one_node
from qverify.compare.forced import Forcing, Located, is_foreign
from qverify.compare.gate import requires_equal_bits
from qverify.compare.judge import Judge, Judged
from qverify.compare.kernel_sets import RunUnit
from qverify.compare.later import Later
from qverify.compare.measured_rows import MeasuredRows
from qverify.compare.options import Options
from qverify.compare.placement import judge_placement, list_placements
from qverify.compare.regions import (
    find_steps,
    names_inside,
    replace_by_regions,
)
from qverify.compare.same_arrays import SameArrays
from qverify.compare.scale import find_scales, state_unseen_scales
from qverify.compare.settle import find_other_differences, map_known_equality, settle_pair
from qverify.compare.stated_arithmetic import StatedArithmetic, read_stated
from qverify.compare.untapped import judge_untapped, name_optimization
from qverify.compare.values import Pull, Values
from qverify.errors import UsageError
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.model_bin.units import units as all_units
from qverify.report.distance import Distance
from qverify.report.document import Blame, Forced, NetworkUnit, Pair, ReportDocument, TensorRow, worst
from qverify.report.side_names import named
from qverify.tensors.recording import NO_VALUES, Array, Recording

_ORDER = ("reference", "simulator", "board", "dump", "A", "B")  # A and B: two dumps that are compared with each other
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
    job = _Job(
        graph,
        units,
        options,
        run_unit,
        inputs or {},
        progress,
        distrusted,
        located,
        recomputes,
        locate,
        made,
        kernel_sets,
        model,
        later,
        values,
    )
    for (label_a, a), (label_b, b) in combinations(sides, 2):
        if job.stated is not None and a.side == "reference" and not b.is_engine:
            continue  # a side that rounds in its own way is not judged by the reference
        job.judge_pair(label_a, label_b)
    blamed = job.blame_sides([r.side for _, r in sides if r.is_engine])
    job.explain_pairs()
    for judged_pair in job.judged:
        _finish_pair(judged_pair, graph, options)
    distances = job.hold_to_distances()
    with_forced = [(j, job.matrix.get((j.a.recording.side, j.b.recording.side), {})) for j in job.judged]
    add_drawings(with_forced, graph, blamed[0] if blamed else None, options.drawings)
    report = _make_report([j.pair for j in job.judged], blamed, recordings, options)
    report.distance = distances
    report.notes += list_placements(r for _, r in sides)
    if not report.pairs:
        report.verdict = worst([report.verdict, *(d.verdict for d in distances)])
    is_whole = graph is not None and units is graph.once(all_units)
    report.units = [*graph.once(_describe_units)] if is_whole and graph is not None else [*map(_describe_unit, units)]
    job.state_findings(report)
    return report


@dataclass(slots=True)
class _Job:
    """One call of judge_all(): its arguments, and what was found so far.

    Attributes:
        graph ... later: the arguments of judge_all().
        values: the values of each side by its label.
        stated: the arithmetic that the board is stated to have; None without one.
        judged: the pairs that were judged.
        forcing: for each pair that can be forced its forcing and the units and regions that were.
        matrix: the forced verdicts by pair of sides.
        located_blame: whom `locate` blames.
    """

    graph: Graph | None
    units: list[Unit]
    options: Options
    run_unit: Mapping[str, RunUnit]
    inputs: Mapping[str, Array]
    progress: Progress | None
    distrusted: Collection[str]
    located: list[Located] | None
    recomputes: bool
    locate: Locate | None
    made: Collection[str]
    kernel_sets: Mapping[str, RunUnit] | None
    model: Graph | None
    later: Later | None
    values: dict[str, Values]
    stated: StatedArithmetic | None = field(init=False)
    judged: list[Judged] = field(default_factory=list)
    forcing: list[tuple[Forcing, list[Unit]]] = field(default_factory=list)
    matrix: dict[tuple[str, str], dict[str, Forced]] = field(default_factory=dict)
    located_blame: list[Blame] = field(default_factory=list)
    _measured: MeasuredRows = field(default_factory=MeasuredRows)
    _cache: SameArrays = field(default_factory=SameArrays)

    def __post_init__(self) -> None:
        self.stated = read_stated(self.graph)

    def judge_pair(self, label_a: str, label_b: str) -> None:
        """Judges a pair by its gate, and locates where its sides differ."""
        a, b = self.values[label_a], self.values[label_b]
        judge = Judge(a, b, self.graph, self.options, self._measured, later=self.later)
        judged = judge.run(_name_side(label_a, a.recording), _name_side(label_b, b.recording))
        self.judged.append(judged)
        if self.graph is None:
            judged.orders = find_orders(judged, self.model, self.options.frame)
            self.located_blame += self.locate(judged) if self.locate is not None else []
            judged.pair.others = find_other_differences(judged)
        elif judged.pair.cause != "does_not_run":
            self._force(judged, self.graph)

    def _force(self, judged: Judged, graph: Graph) -> None:
        """Forces the units and regions of a pair, and settles by them what its gate left open."""
        a, b = judged.a.recording, judged.b.recording
        exact = requires_equal_bits(a, b)
        force = Forcing(judged, graph, self.run_unit.get(a.side), exact, self.inputs, self._cache, self.kernel_sets)
        to_force = self.units if self.recomputes else [u for u in self.units if fails(judged, u) and is_one_node(u)]
        steps = find_steps(to_force, graph, force.is_offered, self.recomputes, force.refused, self.made)
        if a.is_engine:
            found = combine_forced(a.side, b.side, self.matrix, judged)
        else:
            found = force_pair(force, steps, self.progress, self.located is not None)
        self.matrix[(a.side, b.side)] = found
        failed = list_failed(judged)
        needs_orders = force.is_foreign or any(f.verdict == "FAILED" for f in found.values())
        if needs_orders:
            judged.orders = find_orders(judged, graph, self.options.frame)
            leave_reordered_open(judged, steps, found)
        self.forcing.append((force, replace_by_regions(self.units, steps)))
        settle_pair(*self.forcing[-1], found, self.options, self.distrusted)
        if not needs_orders:  # a pair that passes node by node is not searched
            judged.orders = find_orders(judged, graph, self.options.frame, failed)

    def blame_sides(self, engines: list[str]) -> list[Blame]:
        """Returns whom to blame, if a pair FAILED. A node that another arithmetic explains stays FAILED in its pair only."""
        suspect = {*self.distrusted}
        if suspect:
            suspect |= {u.name for _, parts in self.forcing for u in parts if names_inside(u) & {*self.distrusted}}
        for force, _ in self.forcing:
            key = _sides_of(force.judged)
            self.matrix[key] = self.matrix[key] | force.rounded_otherwise
        if not any(j.pair.verdict == "FAILED" for j in self.judged):
            return self.located_blame
        is_compiled = self.graph is None or not self.graph.is_of_operators
        devices = ["board", *engines]
        return [*_blame_devices(self.units, self.matrix, suspect, devices, is_compiled), *self.located_blame]

    def explain_pairs(self) -> None:
        """States in every pair where it begins to differ and why, and gives `located` the results of forcing."""
        for force, parts in self.forcing:
            key = _sides_of(force.judged)
            if self.located is not None:
                self.located.append(Located(*key, force.same, self.matrix[key]))
            explain_pair(force, parts, self.matrix[key])

    def hold_to_distances(self) -> list[Distance]:
        """Returns how far sides of a stated arithmetic are from the reference, and holds the pairs to a gate on that."""
        if self.stated is None or self.graph is None:
            return []
        distances = _measure_distances(self.judged, self.values, self.graph, self.options)
        _hold_to_gate([j.pair for j in self.judged if not _has_engine(j)], distances, self.options)
        return distances

    def state_findings(self, report: ReportDocument) -> None:
        """States scales, orders of values and channels that are wrong."""
        state_unseen_scales(report.pairs)
        scales = find_other_scales(self.judged, self.graph or self.model, self.options.frame)
        named_scales = {f.tensor for f in scales}
        factors = [f for f in find_scales(report.pairs) if f.tensor not in named_scales]
        report.findings = [*scales, *factors, *list_orders_found(self.judged)]
        if self.graph is None and not report.blamed:
            report.findings += find_channels(j for j in self.judged if j.pair.verdict == "FAILED" and not j.orders)


def _sides_of(judged: Judged) -> tuple[str, str]:
    return judged.a.recording.side, judged.b.recording.side


def _finish_pair(judged: Judged, graph: Graph | None, options: Options) -> None:
    """Adds to a pair what does not depend on the blame."""
    judge_untapped(judged, graph, options)
    name_optimization(judged)
    judge_placement(judged, options)
    state_containers(judged)
    if judged.exchanges:
        from qverify.compare.find_exchanges import state_exchanges

        state_exchanges(judged)
    _keep_rows(judged, options)


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
