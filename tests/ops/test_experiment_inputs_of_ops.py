"""Inputs that triage draws for an experiment are legal for every op: indices stay inside, and the unit runs."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.triage.experiment_inputs import KINDS, draw_inputs

from tests.ops.case_files import FILES
from tests.ops.recorded_probes import cases_of


@pytest.mark.parametrize("stem", FILES)
def test_every_unit_runs_on_drawn_inputs(stem: str):
    for name, case in cases_of(stem):
        for kind in KINDS:
            drawn = case.on_inputs(draw_inputs(case, kind, 1))
            with np.errstate(all="ignore"):
                assert drawn.healthy.shape == case.recorded.shape, (name, kind)
