"""Finds the arithmetics of the catalogue that give every element of a recorded tensor.

A few elements, of which only the sums are computed, exclude most. For the others, a few more elements stand for all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.functions64 import log2_choices, log2_of
from qverify.arithmetic.linear import is_wide
from qverify.arithmetic.multipliers import bits
from qverify.compare.arithmetics import Rounded
from qverify.compare.arithmetics_of_ops import Exact
from qverify.compare.catalogue import (
    FAR,
    KERNELS,
    LEGAL,
    LITERT_ADD,
    MISTAKES,
    OWN_SUMS,
    RULES,
    SINGLE,
    TWICE_HALF_UP,
    ZERO_INSIDE,
    is_coarse,
)
from qverify.compare.error_bounds.bounded_values import Reals
from qverify.compare.error_bounds.documented_kernels import ADD_MULTIPLIERS, StatedOperands, rounded_twice
from qverify.compare.scaled_sums import At, Sums, find_codes
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.report.document import Forced
from qverify.tensors.recording import Array

Mask = npt.NDArray[np.bool_]
SAMPLE = 24, 8  # elements by which arithmetics are excluded first: that differ, and that do not
PARTS, EACH = 16, 1024  # parts of a tensor, and the first elements of each, among which those are looked for first
MOST_DIFFERING, LEAST_SHARE = (
    2048,
    0.05,
)  # elements by which the nearest arithmetic is chosen, and the share it must give
AT_ONCE = 1 << 13  # elements that one arithmetic is computed for at once
TWICE = ("gemmlowp", "cmsis", TWICE_HALF_UP)  # round twice, first to a part of a step that depends on the scale

EVIDENCE_BITS = 10 + log2_of(len(LEGAL))  # a fault fits some arithmetic by chance once in a thousand times
NEAR_TIE = 2.0**-5  # LSB from a tie, up to which it is evidence enough that an element lies there
BELOW = 1 - 1e-6  # scales that were multiplied in float32 may be a little smaller
LARGEST = 384  # LSB of 8 bits, beyond which every value is clipped
PAIR = 510  # largest magnitude of two 8-bit operands together
EXACT = 2.0**-20  # LSB by which float64 may miss a tie
SINGLE_SCALES = 1e-6  # relative error of scales that were computed in float32


def find_arithmetics(rounded: Rounded, made: Array, recorded: Array) -> list[str]:
    """Returns the names of the arithmetics that give every recorded element, legal or not. made: what the other
    side computes from the same inputs, by which the first elements to try are chosen."""
    flat = recorded.reshape(-1)
    sample = _choose_sample(made.reshape(-1) != flat, *SAMPLE)
    least = _find_least_reach(rounded, flat, sample)
    tried = [n for n in rounded.formulas if find_reach(rounded, n) >= least]
    left = [n for n in tried if _gives(rounded, n, sample, flat[sample])]
    if not left:
        return []
    rest = _Remaining(rounded, flat)
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
    whole = _compute_all(rounded, name).reshape(recorded.shape)
    return (name, whole) if np.count_nonzero(whole != recorded) < np.count_nonzero(made != recorded) else None


def _compute_all(rounded: Rounded, name: str) -> Array:
    """Returns what this arithmetic makes of all elements, flat."""
    every = np.arange(rounded.graph.spec(rounded.output).elements)
    return np.concatenate([rounded.formulas[name](at) for at in _cut(every)])


def _cut(at: Array) -> Iterator[Array]:
    return (at[start : start + AT_ONCE] for start in range(0, len(at), AT_ONCE))


def _choose_sample(differing: Array, most_differing: int, most_others: int) -> Array:
    """Returns flat positions: some that differ and some that do not, spread."""
    part = max(1, len(differing) // PARTS)
    starts = np.arange(0, len(differing) - part + 1, part)
    some = (starts[:, None] + np.arange(min(EACH, part))).reshape(-1)
    parts = []
    for kind, most in ((True, most_differing), (False, most_others)):
        where = some[differing[some] == kind]
        parts.append(_spread(where if len(where) >= most else np.flatnonzero(differing == kind), most))
    return np.concatenate(parts)


def _spread(where: Array, most: int) -> Array:
    """Returns at most this number of positions, evenly spread."""
    return where[:: max(1, len(where) // max(1, most))][:most]


Part = tuple[At, Array]  # elements, and what is recorded of them


class _Remaining:
    """Compares the elements that the sample left out. Of those whose value depends on a code, one of each code stands for
    all; of sums that are scaled, the smallest and the largest of each scale and recorded integer."""

    def __init__(self, rounded: Rounded, flat: Array):
        self._rounded, self._flat, self._exact = rounded, flat, rounded.exact

    def is_given_by(self, name: str) -> bool:
        """Returns whether this arithmetic gives every element."""
        parts: list[Part] | None
        if name in OWN_SUMS:
            parts = self._every
        elif self._is_narrow and self._exact is not None and self._exact.codes is not None:
            parts = None if self._coded is None else self._coded.within(find_reach(self._rounded, name))
        else:
            parts = self._standing_for_all
        return parts is not None and all(_gives(self._rounded, name, at, wanted) for at, wanted in parts)

    @property
    def _is_narrow(self) -> bool:
        return self._flat.dtype.itemsize == 1

    @property
    def _every(self) -> list[Part]:
        return [(at, self._flat[at]) for at in _cut(np.arange(self._flat.size))]

    @cached_property
    def _standing_for_all(self) -> list[Part]:
        sums = None if self._exact is None or self._rounded.unit.nodes[1:] else self._exact.sums  # no lookups follow
        found = sums.find_extremes(self._flat) if sums is not None and self._is_narrow else None
        if found is None:
            return self._every
        extremes, wanted = found
        cut = [slice(start, start + AT_ONCE) for start in range(0, len(wanted), AT_ONCE)]
        return [(Sums(extremes.acc[some], extremes.number[some]), wanted[some]) for some in cut]

    @cached_property
    def _coded(self) -> _Coded | None:
        """The recorded integer of each code, or None if elements of one code differ."""
        assert self._exact is not None and self._exact.codes is not None
        found = find_codes(len(self._flat), self._exact.codes.join, self._flat)
        return None if found is None else _Coded.of(self._rounded, self._exact, *found)


@dataclass(frozen=True, slots=True)
class _Coded:
    """The codes that occur. decode: as in Codes. recorded: what is recorded of each. from_tie: distance of its exact value
    from a tie. is_nearest: whether the recorded one is the nearest integer."""

    decode: Callable[[Array], At]
    codes: Array
    recorded: Array
    from_tie: Reals
    is_nearest: Mask

    @staticmethod
    def of(rounded: Rounded, exact: Exact, codes: Array, recorded: Array) -> _Coded:
        """Returns these codes."""
        assert exact.codes is not None
        at = exact.codes.decode(codes)
        steps = exact.steps(at)
        from_tie = 0.5 - np.abs(steps - np.rint(steps))
        return _Coded(exact.codes.decode, codes, recorded, from_tie, rounded.formulas["half even"](at) == recorded)

    def within(self, reach: float) -> list[Part] | None:
        """Returns the codes within this distance of a tie, in parts, or None if one farther away is not the nearest
        integer."""
        inside = np.ones(len(self.codes), bool) if reach >= 0.5 else self.from_tie <= reach
        if not (inside | self.is_nearest).all():
            return None
        return [(self.decode(self.codes[at]), self.recorded[at]) for at in _cut(np.flatnonzero(inside))]


def find_reach(rounded: Rounded, name: str) -> float:
    """Returns the distance from a tie of the exact value, in LSB, beyond which this arithmetic gives the nearest integer,
    or 0.5 if there is none."""
    exact, mode = rounded.exact, name.partition(", ")[0]
    if exact is None or mode in FAR or name in KERNELS or np.dtype(exact.dtype).itemsize > 1:
        return 0.5
    if mode in RULES or name == ZERO_INSIDE:
        return EXACT + (LARGEST * SINGLE_SCALES if name.endswith(SINGLE) else 0.0)
    node = rounded.unit.nodes[0]
    if node.op == "add":
        largest = max(1.0, float(np.abs(exact.scales).max()))
        each = ADD_MULTIPLIERS if name == LITERT_ADD else PAIR * 2.0 ** -min(bits(mode, False), 30)
        return min(0.5, EXACT + largest * each)
    operands = [rounded.graph.spec(n).dtype for n in node.inputs if n is not None and n in rounded.graph.tensors]
    wide = node.op not in ("lookup", "concat") and is_wide(*operands)
    relative = 2.0 ** -bits(mode, wide) + (SINGLE_SCALES if name.endswith(SINGLE) else 0.0)
    twice = rounded.first_rounding if name.startswith(TWICE) and not wide else 0.0
    return min(0.5, EXACT + LARGEST * relative + twice)


def needs_evidence(unit: Unit, graph: Graph, name: str) -> bool:
    """Returns whether an arithmetic gives other integers than the nearest so far from ties that a fault of a few elements
    may look like it."""
    node = unit.nodes[0]
    if name in MISTAKES:
        return True
    if is_coarse(name) or not name.startswith(TWICE) or node.op == "add":
        return is_coarse(name)
    if name in KERNELS:
        return is_coarse(name)
    if node.op in ("lookup", "concat"):
        stated = [graph.spec(n or "").scale[0] for n in node.inputs[: 1 if node.op == "lookup" else None]]
        scales = np.asarray(stated) / graph.spec(node.outputs[0]).scale[0]
    else:
        scales = np.atleast_1d(StatedOperands(node, graph, {}).rq)
    return bool(2 * rounded_twice(scales * BELOW).max() > NEAR_TIE)


def measure_evidence(forced: Forced) -> float:
    """Returns the bits that tell which elements of a node differ, and in which direction."""
    differing = forced.mismatched or 0
    return log2_choices(forced.elements, differing) + differing if differing else 0.0
