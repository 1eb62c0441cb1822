"""Names the known faults that give the recorded bytes of a blamed node, from the recording alone: no experiment confirms
them, so that the recorded elements themselves must be enough evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from qverify.arithmetic.functions64 import log2_of
from qverify.arithmetic.workers import one_blas_thread
from qverify.errors import QVerifyError
from qverify.plural import inflect_after_numbers
from qverify.report.facts import NamedCause
from qverify.triage import evidence
from qverify.triage.case import Case, limits
from qverify.triage.cause_kind import NUMBER
from qverify.triage.fault import DOES_NOT_FIT, MARGIN_BITS, Candidate
from qverify.triage.fault_search import FaultSearch, search_faults
from qverify.triage.near_fits import NearFit, NearFits
from qverify.triage.plain_faults import PLAIN, plain_first, rank_plain

MOST_NAMED = 3  # faults that give the same bytes
MOST_S = 60.0  # of a clock on the wall, on a machine that is so busy that the limit of computing is not reached
CERTAINTY_BITS = 10.0  # beyond the choice of the fault: chance gives it once in a thousand times
FEW_LEFT = (
    1e-3  # share of the elements that a plain fault may leave and still be named before another one that leaves none
)
LEAST_CHOICE = 6.0  # bits of the choice of a fault that is not exact, whose page does not tell how many there are
SHIFTED = "zero point of the output: "  # words of a fault that moves every element alike


def find_recorded_cause(case: Case, cpu_s: float, frame: int = 0) -> NamedCause | None:
    """Returns the faults that give the case's recorded bytes, or, of integers, all but a few within 1 LSB; None if none
    does, or if chance could. cpu_s: seconds of computing."""
    with one_blas_thread():
        try:
            search = search_faults(case, MOST_S, near=NearFits(case), cpu_s=cpu_s, first=plain_first(case))
        except (QVerifyError, *DOES_NOT_FIT):  # a unit that the simulator cannot compute on these inputs
            return None
    exact, nearest = _find_exact(search), _find_nearest(search)
    few = bool(nearest) and nearest[0].left <= FEW_LEFT * case.recorded.size
    if exact and not (few and all(fault.rank >= len(PLAIN) for fault in exact)):
        return _name(case, exact, frame, unpredicted=True)
    return _name(case, nearest, frame, unpredicted=False)  # a coarse arithmetic may look like a plain fault, too


@dataclass(frozen=True, slots=True)
class _Found:
    """A fault that gives the recorded bytes. bits: evidence. wanted: bits below which it could be chance. rank: place
    among the plain faults. left: elements that it does not give."""

    said: str
    bits: float
    wanted: float
    rank: int
    left: int = 0


def _find_exact(search: FaultSearch) -> list[_Found]:
    """Returns the faults that give every recorded byte, with enough evidence."""
    case = search.case
    if not case.differing.size:
        return []
    bits, moved = evidence.difference_bits(case), _shift_bits(case)
    found = []
    for candidate in (c for group in search.groups for c in group):
        is_shift = moved > 0 and candidate.cause.said.startswith(SHIFTED)
        own = max(bits, moved) if is_shift else bits
        wanted = candidate.cause.bits + _choice_bits(candidate.cause.family, search.tried) + CERTAINTY_BITS
        if own >= wanted and (candidate.supported or is_shift):
            found.append(_Found(candidate.cause.said, own, wanted, _rank(candidate), candidate.cause.taken))
    return found


def _find_nearest(search: FaultSearch) -> list[_Found]:
    """Returns the faults that give most of the recorded bytes and leave a rounding, with enough evidence: the best ones,
    which leave equally many elements."""
    found = []
    for near in search.near.found if search.near is not None else []:
        wanted = _cost(near) + _choice_bits(near.family, search.tried) + CERTAINTY_BITS
        if near.gain >= wanted:
            found.append(_Found(near.variant.text, near.gain, wanted, rank_plain(near.family), near.left))
    if not found:
        return []
    best = max(found, key=lambda f: f.bits - f.wanted)
    least = best.bits - best.wanted - MARGIN_BITS
    return [f for f in found if f.left == best.left and f.bits - f.wanted >= least]


def _rank(candidate: Candidate) -> int:
    """Returns the place among the plain faults; one that is confined to a part, other than a channel, is not plain."""
    part = candidate.variant.part
    return rank_plain(candidate.cause.family) + (len(PLAIN) if part and not part.startswith("in channel") else 0)


def _cost(near: NearFit) -> float:
    return max(near.variant.bits, LEAST_CHOICE) + near.variant.part_bits


def _choice_bits(family: str, tried: int) -> float:
    """Returns the bits of the choice of a family: half of all faults are plain."""
    return 1.0 + log2_of(len(PLAIN) if family in PLAIN else max(tried, 1))


def _shift_bits(case: Case) -> float:
    """Returns the evidence that every element is moved by the same step: a bit for each that is not saturated; 0 if they
    are not."""
    if case.recorded.dtype.kind not in "iu" or not case.spec.quantized:
        return 0.0
    low, high = limits(case.spec)
    recorded = case.recorded.reshape(-1).astype(np.int64)
    inside = (recorded > low) & (recorded < high)
    steps = (recorded - case.healthy.reshape(-1))[inside]
    return float(len(steps)) if len(np.unique(steps)) == 1 and steps[0] else 0.0


def _name(case: Case, found: list[_Found], frame: int, unpredicted: bool) -> NamedCause | None:
    """Returns the faults as one cause, the plainest first, then the most specific."""
    if not found:
        return None
    ranked = sorted(found, key=lambda f: (f.left > 0 and unpredicted, f.rank, f.wanted))
    first = ranked[0]
    fitting = [f for f in ranked if f.left == first.left]
    said = list_different(f.said for f in fitting)
    if first.rank < len(PLAIN):  # others that give the same bytes at this node are counted only
        most = len(list_different(f.said for f in fitting if f.rank < len(PLAIN)))
    else:
        most = MOST_NAMED
    if first.said.startswith(SHIFTED):
        steps, counts = np.unique(
            case.recorded.reshape(-1).astype(np.int64) - case.healthy.reshape(-1), return_counts=True
        )
        if by := int(steps[counts.argmax()]):
            said.insert(1, f"{by:+d} is added to every element")
            most += 1
    if case.recorded.size > 1 and (case.recorded == case.recorded.reshape(-1)[0]).all():
        said.insert(0, f"every element has the same value, {case.recorded.reshape(-1)[0]}")
        most += 1
    named = [inflect_after_numbers(text) for text in said[: min(most, MOST_NAMED)]]
    is_near_float = not unpredicted and case.recorded.dtype.kind == "f"
    return NamedCause(
        case.output,
        named,
        len(said) - len(named),
        case.recorded.size,
        int(case.differing.size),
        first.left,
        unpredicted and first.left > 0,
        round(first.bits, 1),
        round(first.wanted, 1),
        frame,
        "2^-16 of itself" if is_near_float else "",
    )


def list_different(texts: Iterable[str]) -> list[str]:
    """Returns the texts; of texts that differ in numbers only, the first one."""
    kinds = dict[str, str]()
    for text in texts:
        kinds.setdefault(NUMBER.sub("#", text), text)
    return list(kinds.values())
