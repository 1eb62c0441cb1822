"""Locates where two dumps of one model part: a side of this host recomputes each node from the tensors that a dump
recorded, for each dump by itself, and the blame follows from these verdicts as in a run with a board."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from qverify.compare.blame import find_culprits, find_first_divergence
from qverify.compare.distance import measure_distance
from qverify.compare.find_orders import is_written_otherwise, leave_reordered_open
from qverify.compare.first_nodes import CAUSE, Mistaken, leave_open, list_gross, name_mistake
from qverify.compare.forced import Forcing
from qverify.compare.judge import Judged, conclude
from qverify.compare.kernel_sets import RunUnit, accept_kernel_sets
from qverify.compare.node_by_node import judge_node_by_node
from qverify.compare.one_arithmetic import accept_one_arithmetic, name_arithmetics
from qverify.compare.options import Options
from qverify.compare.paired_values import bits_equal
from qverify.compare.regions import (
    describe_open,
    describe_region,
    find_inside,
    find_steps,
    list_single,
    replace_by_regions,
)
from qverify.compare.settle import hold_to_nodes, map_known_equality
from qverify.compare.shipped_arithmetics import (
    NO_FAULT,
    describe_rounded_otherwise,
    find_rounded_otherwise,
    name_shipped,
)
from qverify.compare.stated_arithmetic import read_stated
from qverify.compare.straight_concats import StraightConcats
from qverify.compare.values import Values
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Blame, Forced, Pair
from qverify.tensors.recording import Array, Recording


@dataclass(frozen=True, slots=True)
class HostUnits:
    """The means of this host for recomputing the nodes of dumps.

    Attributes:
        graph, units: the model of -m.
        run_unit: functions that run one unit, by side of this host: reference, simulator.
        recordings: what is known of a side of this host besides its values, by side; nothing if it is qvrt's.
        same_inputs: whether both dumps are known to be of the same inputs of the network.
        distrusted: as in blame.find_culprits().
        made, kernel_sets: as for judge_all().
        inputs: inputs of the network from which the first dump was computed, and which the second one's device was given
            as the user says.
        mistaken: what a device may have been given by a known mistake: for an input's name and values, the mistake in
            words and the values.
    """

    graph: Graph
    units: list[Unit]
    run_unit: Mapping[str, RunUnit]
    recordings: Mapping[str, Recording] = field(default_factory=dict)
    same_inputs: bool = False
    distrusted: Collection[str] = ()
    made: Collection[str] = ()
    kernel_sets: Mapping[str, RunUnit] = field(default_factory=dict)
    inputs: Mapping[str, Array] = field(default_factory=dict)
    mistaken: Mistaken | None = None


@dataclass(frozen=True, slots=True)
class _LocatedDump:
    """One dump, recomputed. steps: the units and regions that it offers. matrix: the forced verdicts by tensor, by
    side of this host. forcing: the forcing of each side of this host."""

    name: str
    steps: list[Unit]
    matrix: dict[str, dict[str, Forced]] = field(default_factory=dict)
    forcing: list[_DumpForcing] = field(default_factory=list)

    @property
    def verdicts(self) -> dict[str, Forced]:
        """The forced verdicts by the reference, or by the simulator if there is no reference."""
        return next(iter(self.matrix.values()), {})

    @property
    def rounded_otherwise(self) -> dict[str, Forced]:
        """Those of find_rounded_otherwise() among them."""
        return self.forcing[0].rounded_otherwise if self.forcing else {}


class _BothDumps(Forcing):
    """Knows which tensors two dumps have in common. It runs nothing. Inputs of the network are equal only if the dumps
    are known to be of the same inputs, or both have them."""

    def __init__(self, judged: Judged, host: HostUnits):
        super().__init__(judged, host.graph, None, False, {})
        self._graph_inputs = frozenset(host.graph.inputs if host.same_inputs else ())


class _DumpForcing(Forcing):
    """Forces the units of one dump by a side of this host. Whether inputs are the same is asked of both dumps. peer: the
    forcing by the other side of this host, which judges each unit first. Its verdict holds for this side, too, if both
    compute the same bytes and both, or neither, are held to the exact value."""

    def __init__(self, judged: Judged, host: HostUnits, run_unit: RunUnit, both: Forcing, peer: _DumpForcing | None):
        exact = read_stated(host.graph) is not None
        super().__init__(judged, host.graph, run_unit, exact, {}, kernel_sets=host.kernel_sets)
        self._both, self._peer = both, peer
        self.inputs = {n: value for n, value in host.inputs.items() if not self.is_offered(n)}
        self._last: tuple[str, Mapping[str, Array], dict[str, Forced]] = "", {}, {}
        self._given: dict[tuple[str, str], bool | None] = {} if peer is None else peer._given

    def same(self, name: str) -> bool | None:
        """Returns whether both dumps have the same bytes of this tensor, or None if this is not known."""
        return self._both.same(name)

    def is_offered(self, name: str) -> bool:
        """Returns whether the dump has this tensor."""
        recording, name_b = self.judged.b.recording, self._map_names(name)[1]
        return name_b not in recording.missing and (name_b in recording.tensors or name_b in recording.digests)

    def gives_all(self, unit: Unit, arithmetic: str) -> bool | None:
        """Returns Forcing.gives_all(), which both sides of this host answer alike."""
        key = unit.name, arithmetic
        if key not in self._given:
            self._given[key] = super().gives_all(unit, arithmetic)
        return self._given[key]

    def force_unit(self, unit: Unit) -> dict[str, Forced]:
        """Returns the forced verdict of each output, by name. What only inputs of the network determine, which no dump
        has, is accepted if both dumps have the same bytes."""
        outputs = [o for o in unit.outputs if not self.graph.spec(o).interior]
        known = [n for n in unit.inputs if n not in self.graph.inputs or self.is_offered(n)]
        if unit.inputs and not known and all(self.same(o) for o in outputs):
            why = "both dumps have the same bytes; the inputs of the network are in neither"
            return {o: replace(self._accept_equal(unit, o), why=why) for o in outputs}
        computed = self._compute(unit, outputs, False)
        if isinstance(computed, str):
            return {o: self._make_inconclusive(unit, o, computed) for o in outputs}
        peer = self._peer if self._peer is not None and self._peer.is_made_known == self.is_made_known else None
        if peer is not None and (verdicts := peer.find_verdicts(unit, computed)):
            return {o: self._as_own(verdict) for o, verdict in verdicts.items()}
        verdicts = {o: self._judge(unit, o, computed) for o in outputs}
        self._last = unit.name, computed, verdicts
        return verdicts

    def _judge(self, unit: Unit, name: str, computed: Mapping[str, Array]) -> Forced:
        """Returns the forced verdict; INCONCLUSIVE if both dumps have as many elements, and the model another number."""
        wanted = self.graph.spec(name)
        specs = [side.recording.specs.get(name) for side in (self._both.judged.a, self._both.judged.b)]
        sizes = {spec.elements for spec in specs if spec is not None}
        if None in specs or len(sizes) != 1 or wanted.elements in sizes:
            return super()._judge(unit, name, computed)
        given = f"{name} has {count(sizes.pop(), 'element')} in both dumps, {wanted.elements} in the model"
        return self._make_inconclusive(unit, name, f"{given} (-m of another network?)")

    def measure_from(self, unit: Unit, name: str, inputs: Mapping[str, Array]) -> Forced | None:
        """Returns the distance of a recorded output from what the unit gives if some of its inputs are others; None if it cannot be
        computed."""
        intended = self.inputs
        self.inputs = {**intended, **inputs}
        computed, recorded = self._compute(unit, [name], False), self._read_output(name)
        self.inputs = intended
        if isinstance(computed, str) or recorded is None or computed[name].shape != recorded.shape:
            return None
        pair, limit = self.judged.pair, self._choose_limit(unit, name)[0]
        return measure_distance(computed[name], recorded, self.graph.spec(name), limit, pair.a, pair.b)

    def find_verdicts(self, unit: Unit, computed: Mapping[str, Array]) -> dict[str, Forced]:
        """Returns the verdicts on the unit that was judged last if this side computed the same bytes, else {}."""
        name, own, verdicts = self._last
        return verdicts if name == unit.name and all(bits_equal(own[o], computed[o]) for o in verdicts) else {}

    def _as_own(self, verdict: Forced) -> Forced:
        """Returns a verdict of the other side of this host as this side's."""
        own = self.judged.pair.a
        return replace(verdict, by=own, at_fault=own if verdict.at_fault == verdict.by else verdict.at_fault)


def sort_rows(judged: Judged, graph: Graph) -> None:
    """Puts the rows of two dumps in the order of the network and names the nodes that compute them."""
    places = {name: at for at, name in enumerate((*graph.inputs, *graph.observable()))}
    makers = graph.producers()
    judged.rows = {n: judged.rows[n] for n in sorted(judged.rows, key=lambda n: places.get(n, len(places)))}
    for name, row in judged.rows.items():
        maker = makers.get(name)
        if maker is not None:
            row.node, row.op, row.covers = maker.name, maker.op, list(maker.covers)
            row.integer_reference = maker.integer_reference
    conclude(judged)


def locate(judged: Judged, host: HostUnits, options: Options) -> list[Blame]:
    """Recomputes the nodes of both dumps, and sets the pair's forced verdicts, first divergence and cause. Rows after a
    node whose reference is float pass if everything before them does when recomputed, in both dumps. Returns the blamed
    sides: a dump by its name, the compiler or the reference."""
    if judged.pair.cause == "does_not_run":
        return []
    sort_rows(judged, host.graph)
    passed = judged.pair.verdict == "PASSED"
    if passed and all(map_known_equality(judged).values()):
        return []
    both = _BothDumps(judged, host)
    stated = read_stated(host.graph)
    by = [side for side in host.run_unit if stated is None or side == "simulator"]  # the reference computes otherwise
    dumps = [
        _recompute(values, name, both, host, by)
        for values, name in ((judged.a, judged.pair.a), (judged.b, judged.pair.b))
    ]
    if stated is not None and (own := _recompute_as_reference(judged, both, host, dumps[0])) is not None:
        dumps[0] = own
        judged.pair.notes.append(
            f"{judged.pair.a} computes as the reference does, in every bit, not as --arithmetic states: only {judged.pair.b} is held to it; `-m MODEL,DUMP -i INPUT` judges that one by itself"
        )
    for dump in dumps:
        for verdicts in dump.matrix.values():
            leave_reordered_open(judged, dump.steps, verdicts)
    merged = _merge(dumps)
    if passed and not hold_to_nodes(judged, host.units, merged, _list_excepted(dumps, host), options.relax_board):
        return []
    for name, forced in merged.items():
        if name in judged.rows:
            judged.rows[name].forced = forced
    parts = replace_by_regions(host.units, dumps[1].steps)
    if not options.strict:
        judge_node_by_node(judged, host.graph, parts, merged, options.nan_equal, stated=stated)
    blamed = _find_blamed(dumps, host) if judged.pair.verdict == "FAILED" else []
    _explain(both, dumps, parts, merged, host)
    return blamed


def _list_excepted(dumps: list[_LocatedDump], host: HostUnits) -> set[str]:
    """Returns the tensors whose failing verdicts are no findings: of nodes that this host's onnxruntime computes otherwise, and those
    that another known rounding than the stated one gives."""
    distrusted = {o for u in host.units if u.name in host.distrusted for o in u.outputs}
    return distrusted | {o for dump in dumps for o in dump.rounded_otherwise}


def _recompute_as_reference(judged: Judged, both: Forcing, host: HostUnits, first: _LocatedDump) -> _LocatedDump | None:
    """Returns the first dump recomputed by the reference if that gives every bit of it and the stated arithmetic does not: it is
    the host's own run, beside which a chip's dump is laid. Else None."""
    if "reference" not in host.run_unit or all(f.verdict == "PASSED" for f in first.verdicts.values()):
        return None
    own = _recompute(judged.a, judged.pair.a, both, host, ["reference"])
    return own if own.verdicts and all(f.verdict == "PASSED" for f in own.verdicts.values()) else None


def _recompute(values: Values, name: str, both: Forcing, host: HostUnits, by: Iterable[str]) -> _LocatedDump:
    """Returns a dump with the verdicts of sides of this host on its nodes and regions. by: these sides."""
    located = _LocatedDump(name, [])
    stated = read_stated(host.graph)
    for side in by:
        run_unit = host.run_unit[side]
        pair, own = Pair(side, name, "INCONCLUSIVE"), Values(host.recordings.get(side) or Recording(side, ""))
        judged = Judged(pair, own, values, both.judged.gate, both.judged.names, {})
        peer = located.forcing[0] if located.forcing else None
        located.forcing.append(_DumpForcing(judged, host, run_unit, both, peer))
        located.matrix[side] = {}
    if located.forcing:
        first = located.forcing[0]
        located.steps.extend(find_steps(host.units, host.graph, first.is_offered, True, first.refused, host.made))
    for step in located.steps:
        region = describe_region(step, name)
        for forcing, verdicts in zip(located.forcing, located.matrix.values(), strict=True):
            verdicts |= {o: replace(f, region=region) for o, f in forcing.force_unit(step).items()}
    free = [u for u in list_single(located.steps) if stated is None or not stated.states(u, host.graph)]
    for forcing, verdicts in zip(located.forcing, located.matrix.values(), strict=True):
        if not host.graph.is_of_operators:
            accept_one_arithmetic(free, verdicts, forcing.gives_all, forcing.needs_evidence)
            StraightConcats(free, host.graph, forcing.read_recorded, forcing.gives_all).accept(verdicts)
            forcing.rounded_otherwise = find_rounded_otherwise(
                stated, host.graph, list_single(located.steps), verdicts, forcing.gives_all, forcing.needs_evidence
            )
        accept_kernel_sets(
            located.steps, verdicts, forcing.giving, forcing.gives_all_by_kernels, not host.graph.is_of_operators
        )
    if values is both.judged.b:
        for forcing, verdicts in zip(located.forcing, located.matrix.values(), strict=True):
            leave_open(located.steps, forcing.inputs, verdicts)
    return located


def _merge(dumps: list[_LocatedDump]) -> dict[str, Forced]:
    """Returns the worse verdict of both dumps, by tensor; that of the second one if they are alike. A tensor that is
    recomputed in one dump only has none."""
    first, second = (dump.verdicts for dump in dumps)
    return {
        name: min((second[name], first[name]), key=lambda f: ("FAILED", "INCONCLUSIVE", "PASSED").index(f.verdict))
        for name in second
        if name in first
    } | {
        name: f for one, other in ((first, second), (second, first)) for name, f in one.items() if _only(name, f, other)
    }


def _only(name: str, forced: Forced, other: Mapping[str, Forced]) -> bool:
    """Returns whether a failing verdict is the only one on its tensor."""
    return name not in other and forced.verdict == "FAILED"


def _find_blamed(dumps: list[_LocatedDump], host: HostUnits) -> list[Blame]:
    """Returns each blamed side once; the one with the earliest node first."""
    places = {unit.name: at for at, unit in enumerate(host.units)}
    blamed = dict[str, Blame]()
    for dump in dumps:
        matrix = {
            (side, "board"): verdicts | own.rounded_otherwise
            for (side, verdicts), own in zip(dump.matrix.items(), dump.forcing, strict=True)
        }
        for blame in find_culprits(host.units, matrix, host.distrusted, dump.name, not host.graph.is_of_operators):
            known = blamed.get(blame.side)
            if known is None or places[blame.node] < places[known.node]:
                blamed[blame.side] = blame
    return sorted(blamed.values(), key=lambda b: places[b.node])


def _lacks_input(unit: Unit, dump: _LocatedDump) -> bool:
    """Returns whether a dump does not have all that a unit reads, or nothing that it gives."""
    return any(not own.is_offered(n) for own in dump.forcing[:1] for n in unit.inputs)


def _explain(
    both: Forcing, dumps: list[_LocatedDump], parts: list[Unit], merged: Mapping[str, Forced], host: HostUnits
) -> None:
    """Sets the pair's first divergence and, if it FAILED, its cause and the arithmetics of the dumps."""
    pair = both.judged.pair
    pair.first_divergence = find_first_divergence(parts, both.same, pair.b)
    if pair.verdict != "FAILED":
        return
    failed = [
        f
        for dump in dumps
        for o, f in dump.verdicts.items()
        if o in merged and f.verdict == "FAILED" and o not in dump.rounded_otherwise
    ]
    rounded = {o for dump in dumps for o in dump.rounded_otherwise}
    right = rounded | {o for o, f in merged.items() if f.verdict == "PASSED"}
    inside = find_inside(parts, right)
    outputs = {u.name: [o for o in u.outputs if not both.graph.spec(o).interior] for u in parts}
    unknown = [u for u in parts if u.name not in inside and not right.issuperset(outputs[u.name])]
    if failed:
        pair.cause = "node" if any(f.region is None for f in failed) else "region"
    elif unknown and is_written_otherwise(both.judged):
        pair.cause = "written_order"
    elif unknown or not parts:
        pair.cause = "unlocated"
        sparse = [f"{dump.name} has too few tensors" for dump in dumps if not dump.steps]
        why = next(iter(sparse), "") or next(
            (describe_open(merged[o]) for u in unknown for o in outputs[u.name] if o in merged), ""
        )
        pair.notes.append(
            f"{len(unknown)} of {count(len(parts), 'node')} could not be forced" + (f": {why}" if why else "")
        )
    else:
        pair.cause = "accumulated_rounding"
    _suspect_inputs(both.judged, dumps[1], list_gross(unknown, both.graph, both.judged), merged, host)
    differing = [dump for dump in dumps if any(f.mismatched for f in dump.verdicts.values())]
    named = (
        []
        if both.graph.is_of_operators
        else [
            (dump.name, *name_arithmetics(list_single(dump.steps), dump.verdicts, own.gives_all, own.needs_evidence))
            for dump in differing
            for own in dump.forcing[:1]
        ]
    )
    pair.arithmetics = [f"{name}: {line}" for name, lines, _ in named for line in lines]
    lacking = all(_lacks_input(u, dump) for u in unknown for dump in differing)  # only what was not given is unknown
    explained = pair.cause == "accumulated_rounding" or (pair.cause == "unlocated" and bool(parts) and lacking)
    if explained and (rounded or (named and all(everywhere for _, _, everywhere in named))):
        pair.cause = "other_rounding"
    pair.notes += pair.arithmetics
    shipped = {
        name_shipped(lines, list_single(dump.steps), both.graph, dump.verdicts, dump.forcing[0].gives_all)
        for dump, (_, lines, _) in zip((dump for dump in differing if dump.forcing), named, strict=False)
        if lines
    }
    pair.notes += [
        f"the shipped arithmetic {name} computes so: --arithmetic {name} judges by it, bit for bit"
        for name in shipped
        if name and len(shipped) == 1
    ]
    for dump in dumps:
        lines = describe_rounded_otherwise(
            read_stated(both.graph), list_single(dump.steps), dump.rounded_otherwise, dump.name
        )
        pair.relaxed += lines
        pair.notes += [NO_FAULT.format(line) for line in lines]


def _suspect_inputs(
    judged: Judged, dump: _LocatedDump, gross: list[tuple[Unit, str]], merged: Mapping[str, Forced], host: HostUnits
) -> None:
    """Sets the cause of a pair that is not located to the second dump's input, or the first node, if nodes that could not be judged
    read the network's input and differ grossly, and others are right by themselves; and says, also beside a node that fails, which
    known mistake of the input explains the difference. gross: those nodes."""
    pair = judged.pair
    known = pair.cause in ("node", "region")  # a fault beside the input
    if not gross or not (known or pair.cause == "unlocated") or all(f.verdict != "PASSED" for f in merged.values()):
        return
    pair.cause, own = pair.cause if known else CAUSE, dump.forcing[0]
    text = name_mistake(gross, own.inputs, host.mistaken, own.measure_from) if host.mistaken is not None else ""
    pair.why = "; ".join(t for t in (text, pair.why) if t)
