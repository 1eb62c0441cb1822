"""What experiments and the recorded bytes say together: which causes are listed, and what garbage is worth."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.renderers.fault_explanation import verdict
from qverify.triage import evidence
from qverify.triage.case import Case
from qverify.triage.fault import Candidate, Fault
from qverify.triage.fault_search import FaultSearch, search_faults
from qverify.triage.forensics import FaultExplanation, decide, describe_search, explain_fault

from tests.plain.experiment_boards import LATER, FaultyUnit, cause, decided, flipped, random_like, unit
from tests.plain.fault_units import case_of
from tests.plain.forensic_units import Conv, generator

Array = Any
LOW = flipped(0)
SHAPE = (1, 6, 9, 11)
TAIL = np.zeros(SHAPE, bool)
TAIL[..., 8:] = True


def unwritten(bits: float = 3.0) -> Candidate:
    way = lambda case: np.where(TAIL, case.recorded, case.healthy)  # noqa: E731
    one = cause("not written", way, bits, free=TAIL.reshape(-1))
    return replace(one, cause=Fault("vector-tail", "not written", 8.0 * 162, 162))


def left_over(memory: Array) -> Any:
    return lambda case: np.where(TAIL, memory, case.healthy)


def after(case: Case, board: FaultyUnit, *causes: Candidate) -> FaultExplanation:
    return decide(FaultSearch(case, [[c] for c in causes], tried=50), board, time.monotonic() + LATER)


def test_elements_that_nothing_predicts_count_by_their_places_alone():
    memory = random_like(np.zeros(SHAPE, np.int8), generator(41))
    way = left_over(memory)
    series = decided(unit(way, SHAPE), FaultyUnit(way), unwritten())
    most = max(evidence.log2_choices(594, run.changed) for run in series.experiments)
    assert series.confirmed and 0 < series.bits <= 6 * most + 1e-6
    assert all(150 < run.changed <= 162 for run in series.experiments)


def test_a_cause_that_takes_elements_from_the_record_fits_anything():
    """Beside a confirmed cause that predicts every byte it is not listed; before it is confirmed, it is."""

    def high(case: Any) -> Array:
        return np.where(TAIL, np.int8(77), case.healthy)

    case = unit(high, SHAPE)
    exact, taken = cause("writes 77 there", high), unwritten()
    found = after(case, FaultyUnit(high), exact, taken)
    assert found.confirmed and not found.general and [g[0].said for g in found.exact] == ["writes 77 there"]
    found = after(case, FaultyUnit(high, most=2), exact, taken)
    assert not found.confirmed and [g[0].said for g in found.exact + found.general] == [
        "writes 77 there",
        "not written",
    ]
    found = after(case, FaultyUnit(high), taken)
    assert "162 elements that nothing predicts" in verdict(found)


def test_a_cause_with_too_little_evidence_in_the_record_is_listed_once_confirmed():
    """Experiments may tell what the recorded bytes alone did not."""
    weak = replace(cause("it", LOW), supported=False)
    found = after(unit(LOW), FaultyUnit(LOW), weak)
    assert found.confirmed and verdict(found).startswith("EXPLAINED: it; ")
    found = after(unit(LOW), FaultyUnit(LOW, most=2), weak)
    assert not found.confirmed and not found.exact and found.unexplained
    assert not describe_search(FaultSearch(unit(LOW), [[weak]], tried=50)).exact


def test_causes_of_a_group_that_all_stand_are_all_named():
    other = replace(cause("the same", LOW), cause=Fault("another family", "the same", 4.0))
    found = decide(
        FaultSearch(unit(LOW), [[cause("it", LOW), other]], tried=50), FaultyUnit(LOW), time.monotonic() + LATER
    )
    assert found.confirmed and {run.stood for run in found.experiments} == {2}
    assert verdict(found).startswith(
        "EXPLAINED: it; or the same (all the same at this node); confirmed by 6 experiments"
    )


def test_of_a_group_those_that_fall_go():
    """Random inputs did not tell them apart, those of an experiment do; what was not tried is not named."""
    other = lambda case: LOW(case) if (case.inputs["x"] == 0).mean() < 0.5 else case.healthy  # noqa: E731
    fell, stood = cause("not where most is zero", other), [cause("it", LOW) for _ in range(18)]
    for group, left in (([fell, stood[0]], ["it"]), (stood, ["it"] * 16), ([fell, *stood], ["it"] * 15)):
        search = FaultSearch(unit(LOW), [group], tried=50)
        found = decide(search, FaultyUnit(LOW), time.monotonic() + LATER)
        assert found.confirmed and [[c.said for c in g] for g in found.exact] == [left]
        assert [one.experiment for one in found.fallen] == [3] * (group[0].cause.said != "it")  # the sparse one


def test_a_part_costs_more_than_the_choice_in_its_family():
    c = Conv()
    known = search_faults(case_of(c, c.out(c.acc(bias=np.zeros(10, np.int32)))))
    assert known.groups[0][0].cause.family == "bias"
    whole = known.groups[0][0].cause.bits
    recorded = c.out()
    recorded[:, 8:] = c.out(c.acc(bias=np.zeros(10, np.int32)))[:, 8:]
    parts = [
        p for g in search_faults(case_of(c, recorded)).groups for p in g if p.cause.said.startswith("bias left out, ")
    ]
    assert parts and all(p.variant.part_bits > 3 for p in parts)
    for part in parts:
        assert part.cause.bits - part.variant.part_bits == pytest.approx(whole, abs=1.0) and whole > 2


@pytest.mark.parametrize("most", [2, 6])
def test_without_a_cause_the_board_is_not_asked(most: int):
    spoiled = unit(LOW)
    spoiled = replace(
        spoiled, recorded=generator(42).integers(-128, 128, spoiled.recorded.shape).astype(np.int8), cache={}
    )
    board = FaultyUnit(LOW, most=most)
    found = explain_fault(spoiled, board=board)
    assert not board.ran and not found.experiments and verdict(found).startswith("UNEXPLAINED: ")
    equal = unit(lambda case: case.healthy)
    assert verdict(explain_fault(equal, board=board)).startswith("EQUAL") and not board.ran


def test_the_last_of_sixteen_alike_is_told_from_the_others_by_the_board():
    """The others leave one value as it is of those that the recorded input lacks."""
    case = unit(LOW)
    absent = np.setdiff1d(np.arange(-128, 128), case.inputs["x"])

    def lenient(spared: Array) -> Any:
        return lambda case: np.where(np.isin(case.healthy, spared), case.healthy, LOW(case))

    others = [cause(f"spares all but {k}", lenient(np.delete(absent, k))) for k in range(15)]
    search = FaultSearch(case, [[*others, cause("spares none", LOW)]], tried=50)
    found = decide(search, FaultyUnit(LOW), time.monotonic() + LATER)
    assert found.confirmed and [[c.said for c in group] for group in found.exact] == [["spares none"]]
    assert {fallen.cause.said for fallen in found.fallen} == {c.cause.said for c in others}
