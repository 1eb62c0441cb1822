"""An explanation without time to try a fault says so; its fields before anything is known are the defaults."""

from __future__ import annotations

import time

import numpy as np
import pytest
from qverify.triage.case import Case
from qverify.triage.difference_description import describe_difference
from qverify.triage.fault_search import search_faults
from qverify.triage.forensics import FaultExplanation, decide, explain_fault
from qverify.triage.hypotheses import pages_of

from tests.plain.experiment_boards import FaultyUnit
from tests.plain.fault_units import Table


def differing_case() -> Case:
    unit = Table(4, 10)
    return unit.case(unit.y | np.int8(4))


@pytest.mark.parametrize("with_board", [False, True])
def test_without_time_nothing_is_tried_and_nothing_is_unexplained(with_board: bool) -> None:
    case = differing_case()
    names = [page.NAME for page in pages_of(case)]
    board = FaultyUnit(lambda node: node.healthy) if with_board else None
    watched: list[tuple[str, int, int]] = []
    found = explain_fault(case, -1.0, lambda *progress: watched.append(progress), board)
    assert found.not_tried == [f"{name}: the time limit was reached" for name in names]
    assert watched == [("known faults at y", at, len(names)) for at in range(len(names))]
    assert (found.exact, found.general, found.partial, found.families, found.tried) == ([], [], [], {}, 0)
    assert not found.unexplained and not found.confirmed and found.unconfirmed == ""
    assert board is None or not board.ran


def test_causes_are_not_decided_after_the_deadline() -> None:
    """Without time, neither an experiment nor another family is tried."""
    search = search_faults(differing_case(), 60.0)
    assert search.groups
    board = FaultyUnit(lambda node: node.healthy)
    found = decide(search, board, time.monotonic() - 1)
    assert not found.confirmed and found.experiments == [] and found.tried == search.tried and not board.ran


def test_an_explanation_of_which_only_the_difference_is_known() -> None:
    case = differing_case()
    description = describe_difference(case.healthy, case.recorded, case.spec)
    found = FaultExplanation(description)
    values = {name: getattr(found, name) for name in FaultExplanation.__slots__ if name != "description"}
    assert values == {
        **{name: [] for name in ("exact", "general", "experiments", "fallen", "partial", "not_tried")},
        **{name: False for name in ("confirmed", "unexplained")},
        **{name: "" for name in ("unconfirmed", "scope")},
        **{"families": {}, "tried": 0, "evidence_bits": 0.0, "seconds": 0.0},
    }
    assert found.kinds == []


def test_every_family_that_is_listed_is_one_that_applies() -> None:
    """The families of a search with time for some are those that were finished, and the rest has a reason."""
    case = differing_case()
    names = {page.NAME for page in pages_of(case)}
    search = search_faults(case, 60.0)
    left = {text.split(":")[0].split(",")[0] for text in search.not_tried}
    assert search.finished | left == names and not search.finished & left
    assert {*search.families} <= names
