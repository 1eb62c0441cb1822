"""How a search for a cause ends, what evidence a cause needs, and what is named where none gives every byte."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from qverify.triage.case import Case
from qverify.triage.fault import Fault
from qverify.triage.fault_search import _FaultTrial, _make_cause
from qverify.triage.forensics import explain_fault
from qverify.triage.hypotheses import FaultVariant, pages

from tests.plain.fault_units import Table


def test_a_search_that_has_a_make_cause_ends_soon() -> None:
    unit = Table(4, 10)
    case = unit.case(unit.y | np.int8(4))
    trial = _FaultTrial(case, time.monotonic() + 60)
    assert trial._reason_to_stop() == "" and 0 < trial.enough - time.process_time() <= 3
    trial.enough = time.process_time() - 1
    assert trial._reason_to_stop() == ""  # it has none
    trial.try_page(next(p for p in pages() if p.NAME == "bit-flip"))
    assert trial.exact and trial._reason_to_stop() == "3 s of computing had passed and a cause was found"
    trial.try_page(next(p for p in pages() if p.NAME == "clamp"))
    assert trial.not_tried == ["clamp: 3 s of computing had passed and a cause was found"]
    trial.deadline = time.monotonic() - 1
    assert trial._reason_to_stop() == "the time limit was reached"


def test_how_much_evidence_a_make_cause_needs() -> None:
    """One of 16 elements and its value: 12 bits, 4 more than the choice."""
    unit = Table(1, 16)
    recorded = unit.y.copy()
    recorded[0, 3] ^= 91
    trial = _FaultTrial(unit.case(recorded), time.monotonic() + 60)
    fault = FaultVariant("?", lambda case: case.recorded)
    assert trial._is_supported(7.99, fault) and not trial._is_supported(8.01, fault)


def test_of_many_families_three_are_near() -> None:
    """Bytes that no fault gives, but most of them are right: the three nearest are named, one of a family."""
    unit = Table(20, 50)
    recorded = (unit.y ^ np.int8(-128)) | np.int8(1)
    recorded[3, :9] = unit.y[3, :9] ^ 91
    result = explain_fault(unit.case(recorded))
    assert len(result.partial) == 3 and len({p.cause.family for p in result.partial}) == 3


class Family:
    """A family of these faults. each: called after each of them."""

    NAME = "made up"

    def __init__(self, *faults: FaultVariant, each: Callable[[], None] = lambda: None):
        self.faults, self.each = faults, each

    def variants(self, case: Case) -> Iterator[FaultVariant]:
        for fault in self.faults:
            yield fault
            self.each()


def trial_of(*faults: FaultVariant, each: Callable[[], None] = lambda: None) -> _FaultTrial:
    """Two of 20 elements differ."""
    unit = Table(1, 20)
    recorded = unit.y.copy()
    recorded[0, [3, 9]] ^= 91
    trial = _FaultTrial(unit.case(recorded), time.monotonic() + 60)
    trial.try_page(Family(*faults, each=each))
    return trial


def giving(change: Callable[[Case], Any], **more: Any) -> FaultVariant:
    return FaultVariant("said", change, **more)


def test_a_fault_of_another_type_or_shape_is_none() -> None:
    trial = trial_of(giving(lambda case: case.recorded.view(np.uint8)), giving(lambda case: case.recorded[0]))
    assert (trial.tried, trial.exact, trial.families, trial.partial) == (2, [], {}, {})


def test_a_fault_that_is_no_nearer_than_none_is_not_named() -> None:
    def one_right(case: Case) -> Any:
        made = case.healthy.copy()
        made[0, 3] = case.recorded[0, 3]
        return made

    def one_right_one_wrong(case: Case) -> Any:
        made = one_right(case)
        made[0, 0] ^= 1
        return made

    trial = trial_of(giving(lambda case: case.healthy), giving(one_right_one_wrong))
    assert trial.families == {"made up": 0.9} and trial.partial == {}
    trial = trial_of(giving(one_right, bits=3.14), giving(one_right, bits=2))
    (best,) = trial.partial.values()
    assert (best.of_all, best.of_differing, best.cause.said, best.cause.bits) == (0.95, 0.5, "said", 3.1)  # the first
    free = np.arange(20) < 10  # the ten that are as recorded because nothing predicts them are not counted
    assert trial_of(giving(one_right, free=free)).families == {"made up": 0.5}


def test_bits_of_a_make_cause_are_those_of_its_choice_and_of_what_is_taken() -> None:
    fault = giving(lambda case: case.recorded)
    (found,) = trial_of(fault, giving(lambda case: case.healthy), giving(lambda case: case.healthy)).exact
    assert found.cause == Fault("made up", "said", 1.6)  # one of three: log2(3)
    assert found.cause.taken == 0
    (found,) = trial_of(giving(lambda case: case.recorded, bits=2.34)).exact
    assert found.cause.bits == 2.3
    case = trial_of().case
    free = np.arange(20) % 10 == 3
    assert _make_cause("f", 3.0, giving(lambda case: case.recorded, free=free), case) == Fault("f", "said", 19.0, 2)


def test_a_family_that_takes_too_long_is_left() -> None:
    trial = trial_of()
    faults = [giving(lambda case: case.healthy)] * 3
    trial.finished.clear()
    trial.try_page(Family(*faults, each=lambda: setattr(trial, "deadline", time.monotonic() - 1)))
    assert trial.not_tried == ["made up, all or part of it: the time limit was reached"] and trial.tried == 1


def test_a_family_that_does_not_fit_is_said() -> None:
    def fails() -> None:
        raise ValueError("no such word")

    trial = trial_of(giving(lambda case: case.recorded), each=fails)
    assert trial.not_tried == ["made up: ValueError: no such word"] and trial.tried == 1
    assert [one.cause.said for one in trial.exact] == ["said"]  # what it gave before counts


def test_how_long_a_search_took() -> None:
    unit = Table(4, 10)
    assert explain_fault(unit.case(unit.y)).seconds == 0
    assert 0 < explain_fault(unit.case(unit.y | np.int8(4))).seconds < 60
