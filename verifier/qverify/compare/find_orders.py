"""Recognises values that a side gives in another order, or under another tensor's name, from the recorded values
alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.functions64 import log2_of
from qverify.compare.judge import Judged
from qverify.compare.side_values import (
    MIN_BITS,
    MIN_VALUES,
    MOST_TENSORS,
    Sides,
    at_least,
    bits_of_a_match,
    read_sides,
)
from qverify.model_bin.graph import Graph
from qverify.model_bin.layouts import ON_PLANES
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced
from qverify.report.facts import Finding
from qverify.report.side_names import named, within

if TYPE_CHECKING:
    from qverify.compare.orders import Order

MIN_SHARE = 0.98  # of the elements, that must agree in the other order
LOOSE = 2.0**-6  # of the range of the values: rounding that has accumulated
MOST_ELEMENTS = 1 << 24  # of one tensor
MOST_ELEMENTS_IN_ALL = 1 << 24
SAMPLE = 256


@dataclass(frozen=True, slots=True)
class FoundOrder:
    """An order that was found. exact: whether all elements are equal. tolerance: the largest difference that counts as
    equal. values: number of different values among the elements that are wrong in place."""

    order: Order
    exact: bool
    tolerance: float
    values: int


def find_orders(judged: Judged, graph: Graph | None, frame: int, failed: Sequence[str] | None = None) -> list[Finding]:
    """Returns findings on tensors that did not pass, of a board, a dump or dumps compared with each other, whose values
    are in another order. frame: number of the frame. failed: the tensors that did not pass; None: those that do not now."""
    if judged.pair.verdict == "PASSED" or judged.b.recording.side not in ("board", "dump", "B"):
        return []
    return list(_find_in_pair(judged, graph, frame, list_failed(judged) if failed is None else failed))


def list_failed(judged: Judged) -> list[str]:
    """Returns the judged tensors that did not pass."""
    return [n for n, row in judged.rows.items() if row.verdict != "PASSED"]


def list_orders_found(pairs: Iterable[Judged]) -> list[Finding]:
    """Returns the findings of all pairs that did not pass, each tensor only in the first pair that shows it."""
    findings: dict[str, Finding] = {}
    for judged in pairs:
        if judged.pair.verdict != "PASSED":
            for finding in judged.orders:
                findings.setdefault(finding.tensor, finding)
    return list(findings.values())


def leave_reordered_open(judged: Judged, units: Iterable[Unit], verdicts: dict[str, Forced]) -> None:
    """Makes a unit INCONCLUSIVE that FAILED where it reads a tensor that is in another order: what it read on the side is
    not known. Of a dump whose order is another one throughout, that is so of every tensor of four axes. Of a dump it is so, too,
    where the unit gives a tensor of which only the place of the elements is wrong, and no node read them in the wrong place; of
    any side, where an output is only stored in another order."""
    reordered, known = {n for finding in judged.orders for n in (finding.tensor, *finding.also)}, list(units)
    is_dump = judged.b.recording.side in ("dump", "B")
    throughout = is_dump and _is_order_of_dump(known, reordered)
    written = {n for n in judged.moved if _is_read_right(judged, known, n)} if is_dump else set[str]()
    if throughout:
        reordered |= {
            n for n, row in judged.rows.items() if sum(d > 1 for d in row.shape[1:]) > 1 and len(row.shape) == 4
        }
    for unit in known:
        inputs = [(n, "input") for n in unit.inputs]
        read = next(((n, kind) for n, kind in inputs if n in reordered), None)
        for name in unit.outputs:
            is_stored = name in written or _is_only_stored(name, reordered, throughout, verdicts)
            place = read or ((name, "output") if is_stored else None)
            if place is not None and name in verdicts and verdicts[name].verdict == "FAILED":
                why = f"its {place[1]} {place[0]} is in another order {within(judged.pair.b)}"
                verdicts[name] = replace(verdicts[name], verdict="INCONCLUSIVE", why=why, at_fault="", arithmetics=[])
                if name in judged.rows:
                    judged.rows[name].forced = verdicts[name]


def is_written_otherwise(judged: Judged) -> bool:
    """Returns whether the place of the elements is all that is wrong of every tensor that failed."""
    failed = {n for n, row in judged.rows.items() if row.verdict == "FAILED"}
    return bool(failed) and failed <= judged.moved


def _is_read_right(judged: Judged, units: list[Unit], name: str) -> bool:
    """Returns whether every unit that reads the tensor gave the other side's values, as it can from the right elements alone;
    also of a tensor that nothing reads."""
    rows = [judged.rows.get(o) for unit in units if name in unit.inputs for o in unit.outputs]
    return all(row is not None and (row.bit_equal or row.verdict == "PASSED") for row in rows)


def _is_only_stored(name: str, reordered: set[str], throughout: bool, verdicts: Mapping[str, Forced]) -> bool:
    """Returns whether an output in another order is only stored so: of a dump that is so throughout, or one with padding, whose
    shape is not the model's, so that nothing of it was compared in place."""
    return name in reordered and (throughout or (name in verdicts and verdicts[name].mismatched is None))


def _is_order_of_dump(units: list[Unit], reordered: set[str]) -> bool:
    """Returns whether a tensor in another order is computed from another one by a node that mixes places: the side read the
    first one in the right order, or the second one would hold no values of the other side, in any order. So it is the dump
    that is written in another order, and no node that computes so."""
    below, mixed = set[str](reordered), set[str]()  # what is computed from such a tensor, and so by such a node
    for unit in units:
        if not below & {*unit.inputs}:
            continue
        below |= {*unit.outputs}
        if mixed & {*unit.inputs} or any(node.op in ON_PLANES for node in unit.nodes):
            if reordered & {*unit.outputs}:
                return True
            mixed |= {*unit.outputs}
    return False


def _find_in_pair(judged: Judged, graph: Graph | None, frame: int, names: Sequence[str]) -> Iterator[Finding]:
    from qverify.compare.find_exchanges import find_exchange

    partners = set[str]()  # tensors that are said to be exchanged for another, which say nothing more
    failed = sorted(names, key=lambda n: not judged.rows[n].final)
    by_words: dict[str, list[str]] = {}
    left = MOST_ELEMENTS_IN_ALL
    for name in failed[:MOST_TENSORS]:
        sides = read_sides(judged, graph, name, name) if name not in partners else None
        if sides is None or sides.wanted.size > min(left, MOST_ELEMENTS):
            continue
        left -= sides.wanted.size
        if found_other := find_exchange(judged, graph, name):
            judged.exchanges.append(found_other)
            partners |= {found_other.other} if found_other.both else set()
            yield Finding("order", name, found_other.text, frame)
        elif (found := find_order(sides)) is not None:
            if found.exact:
                judged.moved.add(name)
            by_words.setdefault(_describe(judged, found), []).append(name)
    for words, names in by_words.items():
        more = f" (and so are {count(len(names) - 1, 'more tensor')}: {', '.join(names[1:4])})" if names[1:] else ""
        yield Finding("order", names[0], f"{names[0]}: {words}{more}", frame, names[1:])


def find_order(sides: Sides) -> FoundOrder | None:
    """Returns the order in which side b's values are those of side a, or None if there is none, or if it may be by
    chance."""
    from qverify.compare.orders import list_orders, match_channels

    wanted, given = sides.wanted, sides.given
    in_place = given.reshape(wanted.shape) if given.size == wanted.size else None
    away = np.abs(in_place - wanted) if in_place is not None else np.full(wanted.shape, np.inf)
    tolerances = _tolerances(sides)
    if np.count_nonzero(away > tolerances[-1]) < MIN_VALUES:
        return None
    apart = np.abs(np.sort(wanted, axis=None) - np.sort(given, axis=None)) if in_place is not None else None
    for tolerance in tolerances:
        wrong = away > tolerance
        if apart is not None and np.mean(apart <= tolerance) < MIN_SHARE:
            continue  # not the same values, in any order
        search = _Search(sides, tolerance, wrong)
        orders = list_orders(given, wanted.shape)
        if (found := search.first(orders)) is not None:
            return found
        if in_place is not None and (found := search.first(match_channels(wanted, in_place, tolerance))) is not None:
            return found
    return None


class _Search:
    """The search for an order within one tolerance. wrong: the elements that are wrong in place."""

    def __init__(self, sides: Sides, tolerance: float, wrong: npt.NDArray[np.bool_]):
        from qverify.compare.orders import count_values

        self.wanted, self.tolerance, self.wrong = sides.wanted, tolerance, wrong
        places = np.flatnonzero(wrong)
        sample = places[np.linspace(0, len(places) - 1, min(SAMPLE, len(places))).astype(np.int64)]
        self.sample = np.unravel_index(sample, wrong.shape)
        self.values = count_values(self.wanted[wrong], tolerance)
        self.bits = bits_of_a_match(self.wanted[wrong], sides.given, tolerance)
        self.tried = 0

    def first(self, orders: Iterable[Order]) -> FoundOrder | None:
        """Returns the first of the orders that agrees, and not by chance."""
        if self.values < MIN_VALUES:
            return None
        for order in orders:
            self.tried += 1
            values = self.values if order.values is None else order.values
            if values * self.bits - log2_of(self.tried) - order.choice_bits < MIN_BITS:
                continue
            near = np.abs(order.take(self.sample) - self.wanted[self.sample]) <= self.tolerance  # type: ignore[operator]
            if np.mean(near) < MIN_SHARE:
                continue
            difference = np.abs(order.whole(self.wanted.shape) - self.wanted)  # type: ignore[operator]
            near = difference <= self.tolerance
            if np.mean(near) >= MIN_SHARE and np.mean(near[self.wrong]) >= MIN_SHARE:
                return FoundOrder(order, not difference.any(), self.tolerance, self.values)
        return None


def _tolerances(sides: Sides) -> list[float]:
    """Returns the differences that count as equal, the smallest first: none, one LSB, accumulated rounding."""
    span = float(np.ptp(sides.wanted)) if sides.wanted.size else 0.0
    return sorted({0.0, sides.step, max(sides.step, span * LOOSE)})


def _describe(judged: Judged, found: FoundOrder) -> str:
    """Returns the sentence on an order; it is the same for similar frames."""
    a, b = (named(side) for side in (judged.pair.a, judged.pair.b))
    how = "all elements are equal then" if found.exact else f"{MIN_SHARE:.0%} of the elements or more agree then"
    if not found.exact and found.tolerance:
        how += f", within {found.tolerance:.3g}"
    text = f"{b}'s values are those of {a} in another order: {found.order.words}"
    text += f" ({how}; {at_least(found.values)} different values were in wrong places)"
    others = any(
        len(row.shape) == 4 and row.verdict == "PASSED" and min(row.shape[1:]) > 1 for row in judged.rows.values()
    )
    advice = found.order.advice.partition(", or give --layout")[0] if others else found.order.advice
    return f"{text}; {advice}" if advice else text
