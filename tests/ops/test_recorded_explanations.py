"""Triage explains planted faults of every page of hypotheses in the words of tests/ops/explanations_of_faults.txt."""

from __future__ import annotations

import pytest
from qverify.triage.hypotheses import pages

from tests.ops.recorded_explanations import Plant, recorded


@pytest.mark.slow
@pytest.mark.parametrize("plant", recorded(), ids=lambda plant: f"{plant.page}-{plant.unit.replace(' ', '-')}")
def test_a_planted_fault_is_explained_as_recorded(plant: Plant):
    assert plant.explain() == recorded()[plant], (
        "if this is wanted, `python -m tests.ops.recorded_explanations PAGE ...` records it anew; say in the commit what changed"
    )


def test_recorded_pages_are_pages():
    assert {plant.page for plant in recorded()} <= {page.NAME for page in pages()}
