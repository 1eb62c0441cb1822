"""How a search for a cause ends, what evidence a cause needs, and what is named where none gives every byte."""

from __future__ import annotations

import time

import numpy as np
from qverify.triage.forensics import _FaultTrial, explain_fault
from qverify.triage.hypotheses import FaultVariant, pages

from tests.plain.fault_units import Table


def test_a_search_that_has_a_cause_ends_soon() -> None:
    unit = Table(4, 10)
    case = unit.case(unit.y | np.int8(4))
    trial = _FaultTrial(case, time.monotonic() + 60)
    assert trial._over() == "" and 2.5 < trial.enough - time.monotonic() <= 3
    trial.enough = time.monotonic() - 1
    assert trial._over() == ""  # it has none
    trial.page(next(p for p in pages() if p.NAME == "bit-flip"))
    assert trial.exact and trial._over() == "3 s had passed and a cause was found"
    trial.page(next(p for p in pages() if p.NAME == "clamp"))
    assert trial.not_tried == ["clamp: 3 s had passed and a cause was found"]
    trial.deadline = time.monotonic() - 1
    assert trial._over() == "the time limit was reached"


def test_how_much_evidence_a_cause_needs() -> None:
    """One of 16 elements and its value: 12 bits, 4 more than the choice."""
    unit = Table(1, 16)
    recorded = unit.y.copy()
    recorded[0, 3] ^= 91
    trial = _FaultTrial(unit.case(recorded), time.monotonic() + 60)
    fault = FaultVariant("?", lambda case: case.recorded)
    assert trial._supported(7.99, fault) and not trial._supported(8.01, fault)


def test_of_many_families_three_are_near() -> None:
    """Bytes that no fault gives, but most of them are right: the three nearest are named, one of a family."""
    unit = Table(20, 50)
    recorded = (unit.y ^ np.int8(-128)) | np.int8(1)
    recorded[3, :9] = unit.y[3, :9] ^ 91
    result = explain_fault(unit.case(recorded))
    assert len(result.partial) == 3 and len({p.cause.family for p in result.partial}) == 3
