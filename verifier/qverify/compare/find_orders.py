"""Recognises values that a side gives in another order, or under another tensor's name, from the recorded values
alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.functions64 import log2_of
from qverify.compare.judge import Judged
from qverify.compare.orders import Order, count_values, list_orders, match_channels
from qverify.compare.values import Values
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced
from qverify.report.facts import Finding
from qverify.report.side_names import named, within
from qverify.tensors.real_values import to_float64
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

Real = npt.NDArray[np.float64]
MIN_SHARE = 0.98  # of the elements, that must agree in the other order
MIN_VALUES = 8  # different values among the elements that are wrong in place
MIN_BITS = 20.0  # of evidence: a chance of less than one in a million
LOOSE = 2.0**-6  # of the range of the values: rounding that has accumulated
MOST_TENSORS = 16  # tried in one pair
MOST_ELEMENTS = 1 << 24  # of one tensor
MOST_ELEMENTS_IN_ALL = 1 << 24
MOST_OTHERS = 64  # tensors of the same size, in whose place a tensor may be
SAMPLE = 256
AT_ONCE = 1 << 14  # elements that are compared at once


@dataclass(frozen=True, slots=True)
class Sides:
    """The values of one tensor. wanted: of side a. given: of side b, of any shape. step: one LSB, or 0 for floats."""

    wanted: Real
    given: Real
    step: float


@dataclass(frozen=True, slots=True)
class FoundOrder:
    """An order that was found. exact: whether all elements are equal. tolerance: the largest difference that counts as
    equal. values: number of different values among the elements that are wrong in place."""

    order: Order
    exact: bool
    tolerance: float
    values: int


def find_orders(judged: Judged, graph: Graph | None, frame: int) -> list[Finding]:
    """Returns findings on tensors that did not pass, of a board, a dump or dumps compared with each other, whose values
    are in another order. frame: number of the frame."""
    if judged.pair.verdict == "PASSED" or judged.b.recording.side not in ("board", "dump", "B"):
        return []
    return list(_find_in_pair(judged, graph, frame))


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
    not known."""
    reordered = {n for finding in judged.orders for n in (finding.tensor, *finding.also)}
    for unit in units:
        read = next((n for n in unit.inputs if n in reordered), None)
        for name in unit.outputs if read is not None else ():
            if name in verdicts and verdicts[name].verdict == "FAILED":
                why = f"its input {read} is in another order {within(judged.pair.b)}"
                verdicts[name] = replace(verdicts[name], verdict="INCONCLUSIVE", why=why, at_fault="", arithmetics=[])
                if name in judged.rows:
                    judged.rows[name].forced = verdicts[name]


def _find_in_pair(judged: Judged, graph: Graph | None, frame: int) -> Iterator[Finding]:
    partners = set[str]()  # tensors that are said to be exchanged for another, which say nothing more
    failed = [n for n, row in judged.rows.items() if row.verdict != "PASSED"]
    failed.sort(key=lambda n: not judged.rows[n].final)
    by_words: dict[str, list[str]] = {}
    left = MOST_ELEMENTS_IN_ALL
    for name in failed[:MOST_TENSORS]:
        sides = _read(judged, graph, name, name) if name not in partners else None
        if sides is None or sides.wanted.size > min(left, MOST_ELEMENTS):
            continue
        left -= sides.wanted.size
        if found_other := _find_other(judged, graph, name, sides):
            text, partner = found_other
            partners |= {partner} if partner else set()
            yield Finding("order", name, text, frame)
        elif (found := find_order(sides)) is not None:
            by_words.setdefault(_describe(judged, found), []).append(name)
    for words, names in by_words.items():
        more = f" (and so are {count(len(names) - 1, 'more tensor')}: {', '.join(names[1:4])})" if names[1:] else ""
        yield Finding("order", names[0], f"{names[0]}: {words}{more}", frame, names[1:])


def find_order(sides: Sides) -> FoundOrder | None:
    """Returns the order in which side b's values are those of side a, or None if there is none, or if it may be by
    chance."""
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
        self.wanted, self.tolerance, self.wrong = sides.wanted, tolerance, wrong
        places = np.flatnonzero(wrong)
        sample = places[np.linspace(0, len(places) - 1, min(SAMPLE, len(places))).astype(np.int64)]
        self.sample = np.unravel_index(sample, wrong.shape)
        self.values = count_values(self.wanted[wrong], tolerance)
        self.bits = _bits_of_a_match(self.wanted[wrong], sides.given, tolerance)
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


def _bits_of_a_match(wanted: Real, given: Real, tolerance: float) -> float:
    """Returns how many bits of evidence it is if one wanted element agrees with a given one that was drawn at
    random."""
    ordered = np.sort(given, axis=None)
    few = wanted[:: max(1, wanted.size // 4096)]
    below = np.searchsorted(ordered, few - tolerance, "left")
    share = float(np.mean(np.searchsorted(ordered, few + tolerance, "right") - below)) / max(len(ordered), 1)
    return -log2_of(min(1.0, max(share, 1 / max(len(ordered), 2))))


def _find_other(judged: Judged, graph: Graph | None, name: str, sides: Sides) -> tuple[str, str] | None:
    """Returns a sentence if side b gives another tensor's values under this name, with the other's name if the two are
    exchanged (else ""), or None."""
    if sides.given.size != sides.wanted.size or _wrong_in_place(sides, sides.step) is None:
        return None
    others = [n for n, row in judged.rows.items() if n != name and row.elements == sides.wanted.size]
    others.sort(key=lambda n: judged.rows[n].final != judged.rows[name].final)  # outputs are exchanged for outputs
    for other in others[:MOST_OTHERS]:
        crossed = _read(judged, graph, other, name)
        if crossed is None or not _is_other(crossed, sides):
            continue
        a, b = (named(side) for side in (judged.pair.a, judged.pair.b))
        back, own = _read(judged, graph, name, other), _read(judged, graph, other, other)
        exchanged = back is not None and own is not None and back.given.size == sides.wanted.size
        if exchanged and back is not None and own is not None and _is_other(back, own):
            each = f"each has on {b} the values of the other in {a}"
            return f"{name} and {other} are exchanged: {each}{_evidence(crossed)}", other
        return f"{name}: the values that {b} gives are those of {other} in {a}{_evidence(crossed)}", ""
    return None


def _is_other(crossed: Sides, own: Sides) -> bool:
    """Returns whether the values given under one name are those wanted under another, and not those wanted under their
    own. crossed: with the other's wanted values. own: with its own."""
    given = crossed.given.reshape(crossed.wanted.shape)
    if _is_share_below(given.reshape(-1), crossed.wanted.reshape(-1), crossed.step):
        return False
    wrong = _wrong_in_place(own, max(own.step, crossed.step))
    if wrong is None:
        return False
    wanted = crossed.wanted.reshape(-1)[wrong]
    values = count_values(wanted, crossed.step)
    bits = values * _bits_of_a_match(wanted, given, crossed.step) - log2_of(MOST_OTHERS)
    return values >= MIN_VALUES and bits >= MIN_BITS


def _wrong_in_place(own: Sides, step: float) -> npt.NDArray[np.bool_] | None:
    """Returns which elements, flat, are more than a step off in their own place; None if too few are."""
    wrong = np.abs(own.given.reshape(-1) - own.wanted.reshape(-1)) > step
    return wrong if np.count_nonzero(wrong) >= max(MIN_VALUES, 0.1 * wrong.size) else None


def _is_share_below(given: Real, wanted: Real, step: float) -> bool:
    """Returns whether fewer elements agree within a step than MIN_SHARE, as soon as enough of them do not."""
    far = 0
    for part in (slice(start, start + AT_ONCE) for start in range(0, given.size, AT_ONCE)):
        far += int(np.count_nonzero(np.abs(given[part] - wanted[part]) > step))
        if (given.size - far) / given.size < MIN_SHARE:
            return True
    return False


def _evidence(sides: Sides) -> str:
    return f" ({count(sides.wanted.size, 'element')}; {_at_least(count_values(sides.wanted, sides.step))} different values)"


def _describe(judged: Judged, found: FoundOrder) -> str:
    """Returns the sentence on an order; it is the same for similar frames."""
    a, b = (named(side) for side in (judged.pair.a, judged.pair.b))
    how = "all elements are equal then" if found.exact else f"{MIN_SHARE:.0%} of the elements or more agree then"
    if not found.exact and found.tolerance:
        how += f", within {found.tolerance:.3g}"
    text = f"{b}'s values are those of {a} in another order: {found.order.words}"
    text += f" ({how}; {_at_least(found.values)} different values were in wrong places)"
    return f"{text}; {found.order.advice}" if found.order.advice else text


def _at_least(number: int) -> str:
    """Returns the number in words, rounded down to a power of two, so that similar frames have the same words."""
    return f"at least {1 << (number.bit_length() - 1)}" if number else "0"


def _read(judged: Judged, graph: Graph | None, wanted: str, given: str) -> Sides | None:
    """Returns the values of side a under one name and of side b under another, in stored integers if both have the
    same type, else in real values; None if they are not there, not finite, or of no known scale."""
    a, spec_a = _find(judged.a, graph, judged.names[wanted].a)
    b, spec_b = _find(judged.b, graph, judged.names[given].b)
    if a is None or b is None or not a.size or not b.size or a.dtype.kind not in "iufb" or b.dtype.kind not in "iufb":
        return None
    if a.dtype == b.dtype:
        step = 0.0 if a.dtype.kind == "f" else 1.0
        real_a, real_b = to_float64(a), to_float64(b)
    elif (spec_a.quantized or a.dtype.kind == "f") and (spec_b.quantized or b.dtype.kind == "f"):
        if len(spec_b.scale) > 1 and b.shape != spec_b.shape:
            return None
        step = float(max((*spec_a.scale, *spec_b.scale), default=0.0)) * (1 + 2.0**-20)
        real_a, real_b = spec_a.dequantized(a), spec_b.dequantized(b)
    else:
        return None
    finite = bool(np.isfinite(real_a).all() and np.isfinite(real_b).all())
    return Sides(real_a, real_b, step) if finite else None


def _find(side: Values, graph: Graph | None, name: str) -> tuple[Array | None, TensorSpec]:
    value = side.get_local(name)
    spec = side.recording.specs.get(name) or (graph.tensors.get(name) if graph is not None else None)
    if value is not None and (spec is None or spec.dtype != value.dtype.name):
        spec = TensorSpec(name, value.dtype.name, value.shape)
    return value, spec or TensorSpec(name, "float32", ())
