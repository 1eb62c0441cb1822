"""Finds the arithmetics of the catalogue that give every element of a recorded tensor.

A few elements, of which only the sums are computed, exclude most. The others differ from the nearest integer near ties
of the exact value only, so that all other elements are compared once for all of them; of a change of the quantization,
one element of each input value stands for all."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.linear import is_wide
from qverify.arithmetic.multipliers import bits
from qverify.compare.arithmetics import Rounded, Run, visit_runs
from qverify.compare.catalogue import FAR, LEGAL, LITERT_ADD, RULES, SINGLE, TWICE_HALF_UP, ZERO_INSIDE, is_coarse
from qverify.compare.error_bounds.bounded_values import Reals
from qverify.compare.error_bounds.documented_kernels import ADD_MULTIPLIERS, StatedOperands, rounded_twice
from qverify.compare.scaled_sums import At, Sums
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.tensors.recording import Array

Mask = npt.NDArray[np.bool_]
SAMPLE = 24, 8  # elements by which arithmetics are excluded first: that differ, and that do not
CANDIDATES = 4096  # elements among which those are looked for before all are
MOST_DIFFERING, LEAST_SHARE = (
    2048,
    0.05,
)  # elements by which the nearest arithmetic is chosen, and the share it must give
AT_ONCE = 1 << 13  # elements that one arithmetic is computed for at once
TWICE = ("gemmlowp", "cmsis", TWICE_HALF_UP)  # round twice, first to a part of a step that depends on the scale

NEAR_TIE = 2.0**-5  # LSB from a tie, up to which it is evidence enough that an element lies there
BELOW = 1 - 1e-6  # scales that were multiplied in float32 may be a little smaller
SHORT = 2.0**-5  # LSB up to which only elements near ties are computed
LARGEST = 384  # LSB of 8 bits, beyond which every value is clipped
PAIR = 510  # largest magnitude of two 8-bit operands together
EXACT = 2.0**-20  # LSB by which float64 may miss a tie
SINGLE_SCALES = 1e-6  # relative error of scales that were computed in float32


def find_arithmetics(rounded: Rounded, made: Array, recorded: Array, among: Collection[str] | None = None) -> list[str]:
    """Returns the names of the arithmetics that give every recorded element, legal or not. made: what the other
    side computes from the same inputs, by which the first elements to try are chosen. among: the names to try, all of
    them if None."""
    flat = recorded.reshape(-1)
    sample = _choose_sample(made.reshape(-1) != flat, *SAMPLE)
    tried = [name for name in rounded.formulas if among is None or name in among]
    least = _find_least_reach(rounded, flat, sample)
    left = [n for n in tried if find_reach(rounded, n) >= least and _gives(rounded, n, sample, flat[sample])]
    if not left:
        return []
    rest = _Remaining(rounded, flat, left)
    return [name for name in left if rest.is_given_by(name)]


def _gives(rounded: Rounded, name: str, at: At, wanted: Array) -> bool:
    """Returns whether the arithmetic gives these elements; not if it cannot represent the scales."""
    try:
        return np.array_equal(rounded.formulas[name](at), wanted)
    except ValueError:
        return False


def _find_least_reach(rounded: Rounded, flat: Array, at: Array) -> float:
    """Returns the distance from a tie that an arithmetic must reach to give these elements, as far as those show it that
    are not the nearest integer."""
    exact = rounded.exact
    if exact is None:
        return 0.0
    steps = exact.steps(at)
    wrong = rounded.formulas["half even"](at) != flat[at]
    return float((0.5 - np.abs(steps - np.rint(steps))).max(initial=0.0, where=wrong)) - EXACT


def _may_be_nearest(rounded: Rounded, flat: Array, at: Array, reach: float) -> Array:
    """Returns a mask of these elements that an arithmetic with this reach may give."""
    exact = rounded.exact
    if exact is None or rounded.unit.nodes[1:]:
        return np.ones(len(at), bool)
    value, reach = exact.steps(at) + exact.zero, reach + EXACT
    low, high = (np.clip(f(value + by), *exact.limits) for f, by in ((np.ceil, -0.5 - reach), (np.floor, 0.5 + reach)))
    return np.asarray((low <= flat[at]) & (flat[at] <= high))


def find_nearest(rounded: Rounded, made: Array, recorded: Array) -> tuple[str, Array] | None:
    """Returns the legal arithmetic that gives most of the recorded elements that differ from `made`, and what it makes of
    the inputs; None if none gives a share of them that counts, or if it gives fewer elements in all."""
    flat = recorded.reshape(-1)
    at = _spread(np.flatnonzero(made.reshape(-1) != flat), MOST_DIFFERING)
    tried = [n for n in rounded.formulas if n in LEGAL and not is_coarse(n)]
    reach = max((find_reach(rounded, n) for n in tried), default=0.5)
    possible = at if reach >= 0.5 else at[_may_be_nearest(rounded, flat, at, reach)]  # the others none of them gives
    given = dict[str, int]()
    for name in tried:
        with contextlib.suppress(ValueError):  # scales that this arithmetic cannot represent
            given[name] = int(np.count_nonzero(rounded.formulas[name](possible) == flat[possible]))
    name = max(given, key=lambda n: given[n], default="")
    if not name or given[name] < max(2, LEAST_SHARE * len(at)):
        return None
    whole = compute_all(rounded, name).reshape(recorded.shape)
    return (name, whole) if np.count_nonzero(whole != recorded) < np.count_nonzero(made != recorded) else None


def compute_all(rounded: Rounded, name: str) -> Array:
    """Returns what this arithmetic makes of all elements, flat."""
    size, spec = rounded.graph.spec(rounded.output).elements, rounded.graph.spec(rounded.output)
    reach = find_reach(rounded, name)
    if reach >= 0.5 or rounded.exact is None or rounded.exact.sums is None:
        return np.concatenate([rounded.formulas[name](at) for at in _cut(np.arange(size))])
    whole, near = np.empty(size, spec.numpy_dtype), dict[int, Array]()

    def visit(number: int, found: Run) -> None:
        whole[found.run] = found.integers
        near[number] = np.flatnonzero(found.from_tie <= reach) + found.run.start

    visit_runs(rounded, visit)
    for at in (part for some in near.values() for part in _cut(some)):
        whole[at] = rounded.formulas[name](at)
    return whole


def _cut(at: Array) -> Iterator[Array]:
    return (at[start : start + AT_ONCE] for start in range(0, len(at), AT_ONCE))


def _choose_sample(differing: Array, most_differing: int, most_others: int) -> Array:
    """Returns flat positions: some that differ and some that do not, evenly spread."""
    some = np.arange(0, len(differing), max(1, len(differing) // CANDIDATES))
    parts = []
    for kind, most in ((differing, most_differing), (np.logical_not(differing), most_others)):
        where = some[kind[some]]
        parts.append(_spread(where if len(where) >= most else np.flatnonzero(kind), most))
    return np.concatenate(parts)


def _spread(where: Array, most: int) -> Array:
    """Returns at most this number of positions, evenly spread."""
    return where[:: max(1, len(where) // max(1, most))][:most]


Part = tuple[At, Array]  # elements, and what is recorded of them


class _Remaining:
    """Compares the elements that the sample left out.

    Of elements whose value depends on a code of a few, one of each code stands for all. Of sums that are scaled, only
    those near a tie count, beyond which all that reach little give the nearest integer, and of these the smallest and
    the largest of each recorded integer."""

    def __init__(self, rounded: Rounded, flat: Array, names: Collection[str]):
        self._rounded, self._flat, self._exact = rounded, flat, rounded.exact
        self._narrow = rounded.graph.spec(rounded.output).numpy_dtype.itemsize == 1
        self._reaches = {r for n in names if (r := find_reach(rounded, n)) < 0.5}
        self._near = dict[float, list[Part] | None]()

    def is_given_by(self, name: str) -> bool:
        """Returns whether this arithmetic gives every element."""
        parts = self._choose_parts(name)
        return parts is not None and all(_gives(self._rounded, name, at, wanted) for at, wanted in parts)

    def _choose_parts(self, name: str) -> list[Part] | None:
        """Returns the elements that show whether an arithmetic gives every one, or None if it does not."""
        reach = find_reach(self._rounded, name)
        if self._exact is not None and self._exact.codes is not None:
            return None if self._coded is None else self._coded.within(reach)
        if self._exact is None or self._exact.sums is None or not self._narrow:
            return self._every
        if reach >= 0.5:
            return self._extremes
        return self._near_ties(max(r for r in self._reaches if (r <= SHORT) == (reach <= SHORT)))

    @cached_property
    def _every(self) -> list[Part]:
        return self._cut(np.arange(self._flat.size))

    def _cut(self, at: Array) -> list[Part]:
        return [(some, self._flat[some]) for some in _cut(at)]

    @cached_property
    def _coded(self) -> _Coded | None:
        """One element of each code, or None if elements of one code differ."""
        assert self._exact is not None and self._exact.codes is not None
        codes = self._exact.codes()
        made, at = np.zeros(1 << 16, self._flat.dtype), np.full(1 << 16, -1)
        made[codes] = self._flat
        if not np.array_equal(made[codes], self._flat):
            return None
        at[codes] = np.arange(len(codes))
        return _Coded.of(self._rounded, self._flat, at[at >= 0])

    @cached_property
    def _extremes(self) -> list[Part]:
        """The elements that stand for all."""
        return self._reduce(None) or self._every

    def _reduce(self, at: Array | None) -> list[Part] | None:
        """Returns the smallest and largest sums of these elements, or of all; None if they are not fewer, or do not stand for the
        others, because lookups follow."""
        assert self._exact is not None and self._exact.sums is not None
        found = None if self._rounded.unit.nodes[1:] else self._exact.sums.find_extremes(self._flat, at)
        if found is None:
            return None
        sums, wanted = found
        starts = range(0, len(wanted), AT_ONCE)
        cut = [slice(start, start + AT_ONCE) for start in starts]
        return [(Sums(sums.acc[some], sums.number[some]), wanted[some]) for some in cut]

    def _near_ties(self, reach: float) -> list[Part] | None:
        """Returns the elements within this distance of a tie, or None if one elsewhere is not the nearest integer."""
        if reach not in self._near:
            self._near[reach] = self._find_near_ties(reach)
        return self._near[reach]

    def _find_near_ties(self, reach: float) -> list[Part] | None:
        near, wrong = dict[int, Array](), list[int]()

        def visit(number: int, found: Run) -> None:
            is_near = found.from_tie <= reach
            if wrong or not (is_near | (found.integers == self._flat[found.run])).all():
                wrong.append(number)
            else:
                near[number] = np.flatnonzero(is_near) + found.run.start

        count = visit_runs(self._rounded, visit)
        if wrong:
            return None
        at = np.concatenate([near[number] for number in range(count)])
        return self._reduce(at) or self._cut(at)


@dataclass(frozen=True, slots=True)
class _Coded:
    """Elements that stand for all of their code: flat positions, what is recorded, the distance of the exact value from a
    tie, and whether the recorded one is the nearest integer. The last two are None for outputs of 16 bits."""

    at: Array
    recorded: Array
    from_tie: Reals | None
    is_nearest: Mask | None

    @staticmethod
    def of(rounded: Rounded, flat: Array, at: Array) -> _Coded:
        """Returns the elements at these positions."""
        exact = rounded.exact
        if exact is None or np.dtype(exact.dtype).itemsize > 1:
            return _Coded(at, flat[at], None, None)
        steps = exact.steps(at)
        from_tie = 0.5 - np.abs(steps - np.rint(steps))
        return _Coded(at, flat[at], from_tie, rounded.formulas["half even"](at) == flat[at])

    def within(self, reach: float) -> list[Part] | None:
        """Returns the elements within this distance of a tie, or None if one farther away is not the nearest integer."""
        if self.from_tie is None or self.is_nearest is None or reach >= 0.5:
            return [(self.at, self.recorded)]
        inside = self.from_tie <= reach
        if not (inside | self.is_nearest).all():
            return None
        return [(self.at[inside], self.recorded[inside])]


def find_reach(rounded: Rounded, name: str) -> float:
    """Returns the distance from a tie of the exact value, in LSB, beyond which this arithmetic gives the nearest integer,
    or 0.5 if there is none."""
    exact, mode = rounded.exact, name.partition(", ")[0]
    if exact is None or mode in FAR or np.dtype(exact.dtype).itemsize > 1:
        return 0.5
    if mode in RULES or name == ZERO_INSIDE:
        return EXACT
    node = rounded.unit.nodes[0]
    if node.op == "add":
        largest = max(1.0, float(np.abs(exact.scales).max()))
        each = ADD_MULTIPLIERS if name == LITERT_ADD else PAIR * 2.0 ** -min(bits(mode, False), 30)
        return min(0.5, EXACT + largest * each)
    operands = [rounded.graph.spec(n).dtype for n in node.inputs[:2] if n is not None and n in rounded.graph.tensors]
    wide = node.op not in ("lookup", "concat") and is_wide(*operands)
    relative = 2.0 ** -bits(mode, wide) + (SINGLE_SCALES if name.endswith(SINGLE) else 0.0)
    twice = rounded.first_rounding if name.startswith(TWICE) and not wide else 0.0
    return min(0.5, EXACT + LARGEST * relative + twice)


def needs_evidence(unit: Unit, graph: Graph, name: str) -> bool:
    """Returns whether an arithmetic gives other integers than the nearest so far from ties that a fault of a few elements
    may look like it."""
    node = unit.nodes[0]
    if is_coarse(name) or not name.startswith(TWICE) or node.op == "add":
        return is_coarse(name)
    if node.op in ("lookup", "concat"):
        stated = [graph.spec(n or "").scale[0] for n in node.inputs[: 1 if node.op == "lookup" else None]]
        scales = np.asarray(stated) / graph.spec(node.outputs[0]).scale[0]
    else:
        scales = np.atleast_1d(StatedOperands(node, graph, {}).rq)
    return bool(2 * rounded_twice(scales * BELOW).max() > NEAR_TIE)
