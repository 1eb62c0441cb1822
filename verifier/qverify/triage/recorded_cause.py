"""Names the known faults that give the recorded bytes of a blamed node, from the recording alone: no experiment confirms
them, so that the recorded elements themselves must be enough evidence."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, zip_longest

from qverify.arithmetic.functions64 import log2_of
from qverify.arithmetic.workers import one_blas_thread
from qverify.errors import QVerifyError
from qverify.plural import inflect_after_numbers
from qverify.report.facts import NamedCause
from qverify.triage import evidence
from qverify.triage.case import Case
from qverify.triage.cause_kind import NUMBER
from qverify.triage.experiments import CERTAINTY_BITS
from qverify.triage.fault import DOES_NOT_FIT, MARGIN_BITS
from qverify.triage.fault_search import FaultSearch, search_faults
from qverify.triage.near_fits import NearFit, NearFits

MOST_NAMED = 3  # faults that give the same bytes
MOST_S = 60.0  # of a clock on the wall, on a machine that is so busy that the limit of computing is not reached


def find_recorded_cause(case: Case, cpu_s: float, frame: int = 0) -> NamedCause | None:
    """Returns the faults that give the case's recorded bytes, or, of integers, all but a few within 1 LSB; None if none
    does, or if chance could. cpu_s: seconds of computing."""
    with one_blas_thread():
        try:
            search = search_faults(case, MOST_S, near=NearFits(case), cpu_s=cpu_s)
        except (QVerifyError, *DOES_NOT_FIT):  # a unit that the simulator cannot compute on these inputs
            return None
    return _name_exact(search, frame) or _name_nearest(search, frame)


def _name_exact(search: FaultSearch, frame: int) -> NamedCause | None:
    case, bits = search.case, evidence.difference_bits(search.case) if search.case.differing.size else 0.0
    chance = log2_of(max(search.tried, 1)) + CERTAINTY_BITS
    groups = [[c for c in group if c.supported and bits >= c.cause.bits + chance] for group in search.groups]
    groups = [group for group in groups if group]
    if not groups:
        return None
    least = groups[0][0].cause
    beside = [group for group in groups if group[0].cause.bits <= least.bits + MARGIN_BITS]
    taken = least.taken
    said = _list_different(chain.from_iterable(_take_turns([[c.cause.said for c in group] for group in beside])))
    return _make(case, said, taken, taken > 0, bits, least.bits + chance, frame)


def _name_nearest(search: FaultSearch, frame: int) -> NamedCause | None:
    chance = log2_of(max(search.tried, 1)) + CERTAINTY_BITS
    found = [
        near for near in (search.near.found if search.near is not None else []) if near.gain >= _cost(near) + chance
    ]
    ranked = sorted(found, key=lambda near: _cost(near) - near.gain)
    if not ranked:
        return None
    best = ranked[0]
    beside = [n for n in ranked if n.left == best.left and _cost(n) - n.gain <= _cost(best) - best.gain + MARGIN_BITS]
    said = _list_different(near.variant.text for near in beside)
    return _make(search.case, said, best.left, False, best.gain, _cost(best) + chance, frame)


def _cost(near: NearFit) -> float:
    return near.variant.bits + near.variant.part_bits


def _make(
    case: Case, said: list[str], left: int, unpredicted: bool, bits: float, wanted: float, frame: int
) -> NamedCause:
    named = [inflect_after_numbers(text) for text in said[:MOST_NAMED]]
    size, differing = case.recorded.size, int(case.differing.size)
    more = len(said) - len(named)
    return NamedCause(
        case.output, named, more, size, differing, left, unpredicted, round(bits, 1), round(wanted, 1), frame
    )


def _take_turns(groups: list[list[str]]) -> Iterable[list[str]]:
    """Yields the first text of each group, then the second of each, and so on."""
    for texts in zip_longest(*groups):
        yield [text for text in texts if text is not None]


def _list_different(texts: Iterable[str]) -> list[str]:
    """Returns the texts; of texts that differ in numbers only, the first one."""
    kinds = dict[str, str]()
    for text in texts:
        kinds.setdefault(NUMBER.sub("#", text), text)
    return list(kinds.values())
