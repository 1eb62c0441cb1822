"""Every operator of a .tflite that is converted, by itself: simulator and qvrt against LiteRT's reference kernels."""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.units import units
from qverify.session.host_sides import HostSides
from qverify.session.models import Models
from qverify.sides.simulator import Simulator

from tests import tflite_operators
from tests.plain.test_tflite_alone import opened
from tests.tflite_operators import joined

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")


def differing(models: Models, seed: int) -> tuple[int, int]:
    """Returns how many elements of simulator and reference differ, each node on the reference's inputs, and of how
    many."""
    reference, simulator = HostSides(models).reference(), Simulator(models.graph)
    prepared = random_inputs(models.graph, seed)
    recording = reference.run(prepared)
    assert recording.state != "did not run", recording.why
    values, apart, every = {**prepared.arrays(), **recording.tensors}, 0, 0
    for unit in units(models.graph):
        given = {n: values[n] for n in unit.inputs}
        made, again = simulator.run_unit(unit, given), reference.run_unit(unit, given)
        for name in unit.outputs:
            assert np.array_equal(again[name], values[name]), name  # the cut operators are those of the file
            assert made[name].dtype == values[name].dtype and made[name].shape == values[name].shape
            apart, every = apart + int((made[name] != values[name]).sum()), every + made[name].size
    return apart, every


def tried(group: str) -> list[pytest.param]:
    cases = [(case, dtype) for case in getattr(tflite_operators, group)() for dtype in case.dtypes]
    return [pytest.param(case, dtype, id=f"{case}-{dtype}") for case, dtype in cases]


GROUPS = ("movements", "tables")


@pytest.mark.parametrize("case, dtype", [p for group in GROUPS for p in tried(group)])
def test_the_operator_is_equal(case, dtype, tmp_path):
    apart, every = differing(opened(case.written(dtype, 0), tmp_path), 0)
    assert apart == 0 < every


AT_ONCE = 25  # operators in a file


def several() -> list[pytest.param]:
    cases = [(case, dtype) for group in GROUPS for case in getattr(tflite_operators, group)() for dtype in case.dtypes]
    parts = [cases[at : at + AT_ONCE] for at in range(0, len(cases), AT_ONCE)]
    return [pytest.param(part, id=f"{part[0][0].kind} to {part[-1][0].kind}") for part in parts]


@pytest.mark.parametrize("cases", several())
def test_qvrt_computes_the_same(cases, tmp_path):
    """Operators in one file, on the board of this host."""
    (tmp_path / "m.tflite").write_bytes(joined(cases, 1))
    report = tmp_path / "report.json"
    assert main(["-m", str(tmp_path / "m.tflite"), "-b", "local", "-r", "True", "-q", "--json", str(report)]) == 0
    pairs = json.loads(report.read_text())["pairs"]
    assert len(pairs) == 3 and all(p["verdict"] == "PASSED" and p["bit_equal"] for p in pairs)
