"""Fits an arithmetic to a recording: each op over all its nodes at once, from the inputs and outputs that a side
recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from qverify.arithmetic.forms import Form
from qverify.arithmetic.functions64 import log2_choices
from qverify.compare.arithmetics import Rounded
from qverify.compare.catalogue import LEGAL, MEANS, MISTAKES, RULES, WRONG_KERNELS, choose_name
from qverify.compare.error_bounds.region import MOVING
from qverify.compare.find_arithmetics import EVIDENCE_BITS, find_arithmetics, needs_evidence
from qverify.compare.identify.solve import MOST_FORMS, Triples, neighbours
from qverify.compare.identify.solve import solve as solve_sums
from qverify.compare.identify.solve_additions import Additions, solve_additions
from qverify.compare.identify.solve_means import Means, solve_means
from qverify.model_bin.graph import Graph
from qverify.model_bin.kinds_of_nodes import KINDS, find_of_node, key_of
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.learned import REFERENCE, Contradiction, FreeRun, LearnedOp
from qverify.tensors.recording import Array

Read = Callable[[str], Array | None]  # a recorded tensor as the graph stores it; None if it is not there
RunUnit = Callable[[Unit, Mapping[str, Array]], Mapping[str, Array]]  # as the reference computes a unit
FORMS = (REFERENCE, *LEGAL, *MISTAKES, *WRONG_KERNELS)
ONLY_POWERS = "every scale here is a power of two: nothing shows how others are multiplied"
SEVERAL_MEANS = "several ways to round the mean give every element: other sizes and scales may tell which"
AT_TIE = 2.0**-40  # of the value in LSB; closer, it lies at a tie
MOST_KINDS = 2  # into which the nodes of an op are divided, beside the others
LEAST_OF_KIND = 2  # nodes of a kind that has a form of its own
MIXING = 2654435761  # an odd number by which neighbouring elements come into either half
MOST_SOLVED = 24  # solved forms that are listed
MOST_NEIGHBOURS = 12  # forms near a form of the catalogue that are listed
LEAST_DECIDED = 8  # elements that must tell a solved form from those of the catalogue
COUNTED = 8192  # elements of a node at which forms that do not fit are counted


@dataclass(frozen=True)
class RecordedUnit:
    """A unit with its recorded inputs and output. made: its output as the reference computes it."""

    unit: Unit
    graph: Graph
    given: Mapping[str, Array]
    recorded: Array
    made: Array

    @property
    def output(self) -> str:
        """The name of the output."""
        return self.unit.outputs[0]

    @cached_property
    def rounded(self) -> Rounded:
        """The unit for the catalogue."""
        return Rounded(self.unit, self.output, self.graph, self.given)

    @cached_property
    def fitting(self) -> tuple[str, ...]:
        """The forms that give every element."""
        names = [REFERENCE] if np.array_equal(self.made, self.recorded) else []
        return (*names, *find_arithmetics(self.rounded, self.made, self.recorded))

    def compute(self, form: str) -> Array:
        """Returns the output under a form. Raises ValueError for scales that the form cannot represent, KeyError for a
        form that the unit does not have."""
        if form == REFERENCE:
            return self.made
        every = np.arange(self.recorded.size)
        if form in self.rounded.formulas:
            return self.rounded.formulas[form](every).reshape(self.recorded.shape)
        if self.triples is None:
            raise KeyError(form)
        return self.triples.compute(Form.parse(form)).astype(self.recorded.dtype).reshape(self.recorded.shape)

    @cached_property
    def triples(self) -> Triples | None:
        """The sums, scales and stored integers; None for a unit that is no sum of one scale and 8 bits."""
        return triples_of(self)

    def gives(self, form: str) -> bool:
        """Returns whether the form gives every element."""
        if form == REFERENCE or form in self.rounded.formulas:
            return form in self.fitting
        return self.fewest is not None and self.fewest.is_given_by(Form.parse(form))

    @cached_property
    def fewest(self) -> Triples | None:
        """Those of `triples` that stand for all."""
        return None if self.triples is None else self.triples.fewest()

    def count_wrong(self, form: str) -> int | None:
        """Returns at how many of the elements that tell most the form gives another integer, or None if the unit does not
        have the form."""
        flat = self.recorded.reshape(-1)
        if form == REFERENCE:
            return int(np.count_nonzero(self.made.reshape(-1) != flat))
        try:
            return int(np.count_nonzero(self.rounded.formulas[form](self._telling) != flat[self._telling]))
        except (KeyError, ValueError):
            return None

    @cached_property
    def ties(self) -> tuple[int, int] | None:
        """The number of elements whose exact value lies at a tie, and how many of these are below the zero point; None if
        the exact value is not known."""
        if self.rounded.exact is None:
            return None
        steps = self.rounded.exact.steps(self._telling)
        at = np.abs(steps - np.floor(steps) - 0.5) <= AT_TIE * np.maximum(1.0, np.abs(steps))
        return int(np.count_nonzero(at)), int(np.count_nonzero(at & (steps < 0)))

    @cached_property
    def _telling(self) -> Array:
        """Flat positions of the elements nearest to a tie, where forms differ."""
        every = np.arange(self.recorded.size)
        if every.size <= COUNTED or self.rounded.exact is None:
            return every[:: max(1, every.size // COUNTED)]
        steps = self.rounded.exact.steps(every)
        return np.sort(np.argpartition(np.abs(steps - np.floor(steps) - 0.5), COUNTED)[:COUNTED])


def triples_of(member: RecordedUnit, at: Array | None = None) -> Triples | None:
    """Returns the sums, scales and stored integers of a unit at flat positions; of all elements if these are None. None
    for a unit that is neither a sum of one scale nor an addition, of 8 bits."""
    exact, flat = member.rounded.exact, member.recorded.reshape(-1)
    if exact is None or member.unit.nodes[1:] or flat.dtype.itemsize > 1:
        return None
    at = np.arange(flat.size) if at is None else at
    if exact.operands is not None:
        first, second = exact.operands(at)
        ratios = float(exact.scales[0]), float(exact.scales[1])
        return Additions(first, {}, flat[at].astype(np.int64), exact.zero, exact.limits, second, ratios)
    if exact.sums is None:
        return None
    sums, out = exact.sums.read(at), flat[at]
    ways = {how.removeprefix(", "): scale for how, scale in (exact.ways or {"": exact.scales}).items()}
    scales = {how: np.broadcast_to(scale[sums.number], sums.acc.shape) for how, scale in ways.items()}
    acc, out = sums.acc.astype(np.int64), out.astype(np.int64)
    if member.unit.nodes[0].op not in MEANS:
        return Triples(acc, scales, out, exact.zero, exact.limits)
    x, y = (member.graph.spec(n or "") for n in (member.unit.nodes[0].inputs[0], member.output))
    counts = (
        sums.number + 1 if member.unit.nodes[0].op == "average_pool" else np.full(acc.shape, x.elements // y.elements)
    )
    ratio = float(np.float64(x.scale[0]) / np.float64(y.scale[0]))
    return Means(acc, scales, out, exact.zero, exact.limits, counts.astype(np.int64), ratio, x.zero_point[0])


def collect(units: Iterable[Unit], graph: Graph, read: Read, run_unit: RunUnit) -> list[RecordedUnit]:
    """Returns the units of which everything is recorded, and whose first output is of integers."""
    found = []
    for unit in units:
        spec, recorded = graph.spec(unit.outputs[0]), read(unit.outputs[0])
        given = {name: value for name in unit.inputs if (value := read(name)) is not None}
        if not spec.quantized or spec.numpy_dtype.kind not in "iu" or len(given) < len(unit.inputs):
            continue
        if recorded is None or (recorded.shape, recorded.dtype) != (spec.shape, spec.numpy_dtype):
            continue
        if any((v.shape, v.dtype) != (graph.spec(n).shape, graph.spec(n).numpy_dtype) for n, v in given.items()):
            continue
        made = run_unit(unit, given)[unit.outputs[0]]
        found.append(RecordedUnit(unit, graph, given, recorded, made))
    return found


def fit(recorded: Iterable[RecordedUnit], solving: bool = True) -> list[LearnedOp]:
    """Returns what the recorded units show of each op, in running order. solving: whether kinds of nodes are told apart,
    and parameters solved, if no form of the catalogue fits."""
    by_op: dict[str, list[RecordedUnit]] = {}
    for one in recorded:
        if one.unit.nodes[0].op in MOVING:  # nothing is computed
            continue
        by_op.setdefault(one.unit.nodes[0].op, []).append(one)
    every = [m for members in by_op.values() for m in members]
    if not solving:
        return [_fit_op(op, members, every, False) for op, members in by_op.items()]
    return [found for op, members in by_op.items() for found in _fit_kinds(op, members, every)]


def _fit_kinds(op: str, members: list[RecordedUnit], every: list[RecordedUnit]) -> list[LearnedOp]:
    """Returns what is learned of an op: of all its nodes, or of the fewest kinds of nodes of which each has a form of its
    own."""
    whole = _fit_op(op, members, every, True)
    changes = [m for m in members if not KINDS["of a function"](m.unit.nodes[0], m.graph)]
    if (
        whole.form == REFERENCE and changes and len(changes) < len(members)
    ):  # functions say nothing of how changes round
        return [replace(_fit_op(op, changes, every, True), nodes=whole.nodes, elements=whole.elements)]
    for kinds in (k for number in range(1, MOST_KINDS + 1) for k in combinations(KINDS, number) if not whole.form):
        parts: dict[str, list[RecordedUnit]] = {}
        for one in members:
            kind = next((k for k in kinds if KINDS[k](one.unit.nodes[0], one.graph)), "")
            parts.setdefault(key_of(op, kind), []).append(one)
        if len(parts) != len(kinds) + 1 or any(
            len(some) < LEAST_OF_KIND or not _common(some) for some in parts.values()
        ):
            continue
        return [_fit_op(key, parts[key], every, False) for key in sorted(parts)]
    return [whole]


def _common(members: list[RecordedUnit]) -> list[str]:
    """Returns the forms that give every element of all these units."""
    first = [*members[0].fitting]
    return [f for f in FORMS if f in first and all(f in m.fitting for m in members)]


def _fit_op(op: str, members: list[RecordedUnit], every: list[RecordedUnit], solving: bool) -> LearnedOp:
    elements = sum(m.recorded.size for m in members)
    common = _common(members)
    if common:
        powers = _has_powers_of_two(members)
        form = _choose(common, powers)
        alike = (*(f for f in common if f != form), *(_list_neighbours(members, form, common) if solving else ()))
        nearest = _find_nearest(members, [f for f in FORMS if f not in common])
        decided, against = (nearest.elements, nearest.form) if nearest is not None else (None, "")
        why = _doubt(members, every, form) or (ONLY_POWERS if powers else "")
        return LearnedOp(op, form, len(members), elements, decided, against, alike, _count_ties(members), why=why)
    nearest = _find_nearest(members, FORMS)
    if solving and nearest is not None and (solved := _solve(members)) is not None:
        (first, *others), held_out = solved
        why = "" if nearest.elements >= LEAST_DECIDED else "too few elements tell it from a fault"
        if len({first.method, *(f.method for f in others)}) > 1:
            why = SEVERAL_MEANS
        return LearnedOp(
            op, str(first), len(members), elements, nearest.elements, nearest.form, tuple(map(str, others)),
            _count_ties(members), why=why, held_out=held_out,
        )  # fmt: skip
    if all(m.fitting for m in members):
        parts = {m.unit.name: m.fitting for m in members}
        return LearnedOp(op, "", len(members), elements, parts=parts, nearest=nearest, why="not one arithmetic")
    left = [m.unit.name for m in members if not m.fitting]
    why = f"no form of the catalogue gives every element of {count(len(left), 'node')}, first {left[0]}"
    return LearnedOp(op, "", len(members), elements, nearest=nearest, why=why)


def _list_neighbours(members: list[RecordedUnit], form: str, common: list[str]) -> list[str]:
    """Returns neighbours of a form that give every element, too, narrow multipliers first, at most MOST_NEIGHBOURS."""
    scaled = [m for m in members if not KINDS["of a function"](m.unit.nodes[0], m.graph)]
    if not scaled or any(m.fewest is None for m in scaled):
        return []
    found = list[str]()
    for near in sorted(neighbours(Form.parse(form)), key=lambda f: f.bits or f.fraction):
        if str(near) not in common and all(m.gives(str(near)) for m in scaled):
            found.append(str(near))
            if len(found) == MOST_NEIGHBOURS:
                break
    return found


def _solve(members: list[RecordedUnit]) -> tuple[list[Form], int] | None:
    """Returns the forms that are solved from one half of the elements of each node and give the other half, too, and the
    number of elements in that; None if there are none."""
    halves: tuple[list[Triples], list[Triples]] = [], []
    held_out = 0
    for m in members:
        every = np.arange(m.recorded.size)
        is_shown = (every * MIXING >> 7) % 2 == 0
        for half, at in zip(halves, (every[is_shown], every[~is_shown]), strict=True):
            triples = triples_of(m, at)
            if triples is None:
                return None
            half.append(triples.fewest())
        held_out += int(np.count_nonzero(~is_shown))
    found = [f for f in solve(halves[0]) if all(t.is_given_by(f) for t in halves[1])]
    return (found[:MOST_SOLVED], held_out) if found else None


def solve(shown: Sequence[Triples], most: int = MOST_FORMS) -> list[Form]:
    """Returns the forms that are solved from sums of one scale, or from additions, at most about `most`."""
    additions = [one for one in shown if isinstance(one, Additions)]
    if additions:
        return solve_additions(additions, most) if len(additions) == len(shown) else []
    means = [one for one in shown if isinstance(one, Means)]
    return solve_sums(shown, most) or (solve_means(means, most) if means and len(means) == len(shown) else [])


def _count_ties(members: list[RecordedUnit]) -> tuple[int, int] | None:
    known = [m.ties for m in members if m.ties is not None]
    return (sum(t for t, _ in known), sum(n for _, n in known)) if known else None


def _has_powers_of_two(members: list[RecordedUnit]) -> bool:
    """Returns whether every scale by which integers are multiplied is a power of two, so that multipliers of any number of
    bits are exact."""
    scales = [np.abs(m.rounded.exact.scales) for m in members if m.rounded.exact is not None]
    return bool(scales) and len(scales) == len(members) and all((np.frexp(s)[0] == 0.5).all() for s in scales)


def _choose(common: list[str], powers: bool) -> str:
    """Returns the form to name of several that give the same bytes: the reference's; of powers of two a rule for the exact
    value, which says nothing of multipliers; else as the catalogue chooses. powers: whether every scale is a power of
    two."""
    if REFERENCE in common:
        return REFERENCE
    rules = [f for f in common if f in RULES]
    return choose_name(rules if powers and rules else common)


def _find_nearest(members: list[RecordedUnit], forms: Iterable[str]) -> Contradiction | None:
    """Returns the form that fewest elements contradict, of those that all members have; None if there is none."""
    found: list[Contradiction] = []
    for form in forms:
        wrong = [(m.count_wrong(form), m) for m in members]
        if wrong and all(n is not None for n, _ in wrong):
            total = sum(n or 0 for n, _ in wrong)
            node = next((m.unit.name for n, m in wrong if n), "")
            found.append(Contradiction(form, total, sum(min(m.recorded.size, COUNTED) for m in members), node))
    return min((c for c in found if c.elements), key=lambda c: c.elements, default=None)


def _doubt(members: list[RecordedUnit], every: list[RecordedUnit], form: str) -> str:
    """Returns why a form that gives every element may be chance, or "": one that differs from the nearest integer far
    from ties, of which too few elements of all recorded units are evidence."""
    if form == REFERENCE or not any(needs_evidence(m.unit, m.graph, form) for m in members):
        return ""
    bits = 0.0
    for m in every:
        if form not in m.fitting:
            continue
        differ = int(np.count_nonzero(m.made != m.recorded))
        bits += log2_choices(m.recorded.size, differ) + differ
    return "" if bits >= EVIDENCE_BITS else "too few elements tell it from a fault"


def run_free(units: Iterable[Unit], graph: Graph, read: Read, run_unit: RunUnit, forms: Mapping[str, str]) -> FreeRun:
    """Returns how far a simulation in which every op computes by its form gives the recorded tensors, from the first
    recorded tensors on. forms: by op, or by op and kind."""
    values = {n: v for n in graph.inputs if (v := read(n)) is not None}
    equal, compared, first, started, unknown = 0, 0, "", list[str](), list[str]()
    for unit in units:
        given = {n: v for n in unit.inputs if (v := values.get(n)) is not None}
        recorded = {o: v for o in unit.outputs if (v := read(o)) is not None}
        if len(given) < len(unit.inputs):  # an input of the network that is not recorded, or what follows it
            values |= recorded
            started += recorded
            continue
        made = dict(run_unit(unit, given))
        output, form = unit.outputs[0], find_of_node(forms, unit.nodes[0], graph) or ""
        if form and form != REFERENCE:
            with contextlib.suppress(KeyError, ValueError):  # a node that does not have the form
                made[output] = RecordedUnit(unit, graph, given, made[output], made[output]).compute(form)
        elif not form and unit.nodes[0].op not in MOVING and graph.spec(output).quantized:
            unknown.append(output)
        values |= made
        for name, value in recorded.items():
            compared += 1
            same = np.array_equal(made[name], value) or (
                value.dtype.kind == "f" and np.array_equal(made[name], value, equal_nan=True)
            )
            equal += same
            first = first or ("" if same else name)
    return FreeRun(equal, compared, first, tuple(started), tuple(unknown))
