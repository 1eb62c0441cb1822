"""Finds the arithmetics of the catalogue that give every element of a recorded tensor.

Most differ from the nearest integer near ties of the exact value only, so that all other elements are compared once
for all of them; of a change of the quantization, one element of each input value stands for all."""

from __future__ import annotations

import contextlib
from collections.abc import Collection

import numpy as np

from qverify.arithmetic.functions64 import log2_choices, log2_of
from qverify.compare.arithmetics import FAR, LEGAL, MISTAKES, TIES, TWICE_HALF_UP, Rounded, is_coarse
from qverify.compare.error_bounds.documented_kernels import ADD_MULTIPLIERS, StatedOperands, rounded_twice
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.report.document import Forced
from qverify.tensors.recording import Array

SAMPLES = (24, 8), (1024, 512)  # elements by which arithmetics are excluded, in turn: that differ, and that do not
MOST_DIFFERING, LEAST_SHARE = (
    2048,
    0.05,
)  # elements by which the nearest arithmetic is chosen, and the share it must give
TWICE = ("gemmlowp", "cmsis", TWICE_HALF_UP)  # round twice, first to a part of a step that depends on the scale

EVIDENCE_BITS = 10 + log2_of(len(LEGAL))  # a fault fits some arithmetic by chance once in a thousand times
NEAR_TIE = 2.0**-5  # LSB from a tie, up to which it is evidence enough that an element lies there
BELOW = 1 - 1e-6  # scales that were multiplied in float32 may be a little smaller


def find_arithmetics(rounded: Rounded, made: Array, recorded: Array, among: Collection[str] | None = None) -> list[str]:
    """Returns the names of the arithmetics that give every recorded element, legal or not. made: what the other
    side computes from the same inputs, by which the first elements to try are chosen. among: the names to try, all of
    them if None."""
    flat, differing = recorded.reshape(-1), made.reshape(-1) != recorded.reshape(-1)
    stages = [_choose_sample(differing, *most) for most in SAMPLES]
    rest = _Remaining(rounded, flat)
    found = []
    for name, compute in rounded.formulas.items():
        if among is not None and name not in among:
            continue
        try:
            if all(np.array_equal(compute(at), flat[at]) for at in stages) and rest.is_given_by(name):
                found.append(name)
        except ValueError:  # scales that this arithmetic cannot represent
            continue
    return found


def find_nearest(rounded: Rounded, made: Array, recorded: Array) -> tuple[str, Array] | None:
    """Returns the legal arithmetic that gives most of the recorded elements that differ from `made`, and what it makes of
    the inputs; None if none gives a share of them that counts, or if it gives fewer elements in all."""
    flat = recorded.reshape(-1)
    (at, _) = _split_sample(made.reshape(-1) != flat, MOST_DIFFERING, 0)
    given = dict[str, int]()
    for name, compute in rounded.formulas.items():
        if name in LEGAL and not is_coarse(name):
            with contextlib.suppress(ValueError):  # scales that this arithmetic cannot represent
                given[name] = int(np.count_nonzero(compute(at) == flat[at]))
    name = max(given, key=lambda n: given[n], default="")
    if not name or given[name] < max(2, LEAST_SHARE * len(at)):
        return None
    whole = rounded.formulas[name](np.arange(flat.size)).reshape(recorded.shape)
    return (name, whole) if np.count_nonzero(whole != recorded) < np.count_nonzero(made != recorded) else None


def _choose_sample(differing: Array, most_differing: int, most_others: int) -> Array:
    """Returns flat positions: some that differ and some that do not, evenly spread."""
    return np.concatenate(_split_sample(differing, most_differing, most_others))


def _split_sample(differing: Array, most_differing: int, most_others: int) -> list[Array]:
    """Returns the positions of _choose_sample(), those that differ first."""
    parts = (np.flatnonzero(differing), most_differing), (np.flatnonzero(np.logical_not(differing)), most_others)
    return [where[:: max(1, len(where) // max(1, most))][:most] for where, most in parts]


class _Remaining:
    """Compares the elements that the samples left out."""

    def __init__(self, rounded: Rounded, flat: Array):
        self._rounded, self._flat = rounded, flat
        self._chosen: dict[float, Array | None] = {}

    def is_given_by(self, name: str) -> bool:
        """Returns whether this arithmetic gives every element."""
        at = self._choose_positions(name)
        return at is not None and np.array_equal(self._rounded.formulas[name](at), self._flat[at])

    def _choose_positions(self, name: str) -> Array | None:
        """Returns the positions that show whether an arithmetic gives every element, or None if it does not."""
        reach = find_reach(self._rounded, name)
        if reach not in self._chosen:
            if self._rounded.unit.nodes[0].op == "lookup":
                self._chosen[reach] = self._choose_one_for_each_input()
            else:
                self._chosen[reach] = self._choose_near_ties(reach) if reach < 0.5 else np.arange(self._flat.size)
        return self._chosen[reach]

    def _choose_one_for_each_input(self) -> Array | None:
        """Returns a position of each value that the unit's input has, or None if elements of one value differ."""
        values = self._rounded.given[self._rounded.unit.inputs[0]].reshape(-1)
        codes = values.astype(np.int64) - int(np.iinfo(values.dtype).min)
        at = np.full(codes.max(initial=0) + 1, -1)
        at[codes] = np.arange(len(codes))
        return at[at >= 0] if np.array_equal(self._flat[at[codes]], self._flat) else None

    def _choose_near_ties(self, reach: float) -> Array | None:
        """Returns the positions within this distance of a tie, or None if an element farther away is not the nearest
        integer."""
        exact, every = self._rounded.exact, np.arange(self._flat.size)
        assert exact is not None
        steps = exact.steps(every)
        from_tie = 0.5 - np.abs(steps - np.rint(steps))
        wrong = self._rounded.nearest(every) != self._flat
        return None if from_tie.max(initial=0.0, where=wrong) > reach else np.flatnonzero(from_tie <= reach)


def find_reach(rounded: Rounded, name: str) -> float:
    """Returns the distance from a tie of the exact value, in LSB, beyond which this arithmetic gives the nearest integer,
    or 0.5 if there is none."""
    exact = rounded.exact
    if exact is None or name.partition(", ")[0] in FAR or np.dtype(exact.dtype).itemsize > 1:
        return 0.5
    scales = np.abs(exact.scales)
    twice = float(rounded_twice(np.concatenate([scales, scales * BELOW])).max()) if name.startswith(TWICE) else 0.0
    return min(0.5, TIES + max(1.0, float(scales.max())) * ADD_MULTIPLIERS + 2 * twice)


def needs_evidence(unit: Unit, graph: Graph, name: str) -> bool:
    """Returns whether an arithmetic gives other integers than the nearest so far from ties that a fault of a few elements
    may look like it."""
    node = unit.nodes[0]
    if name in MISTAKES:
        return True
    if is_coarse(name) or not name.startswith(TWICE) or node.op == "add":
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
