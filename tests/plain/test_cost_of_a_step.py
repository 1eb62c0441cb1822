"""Tests that a sequence makes sessions of single nodes, hashes, and rows of two sides that are one array once, not in each step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sequence_models as made
from qverify.compare.judge import Judge
from qverify.compare.measured_rows import MeasuredRows
from qverify.compare.options import Options
from qverify.compare.values import Values
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.units import units
from qverify.report.document import ReportDocument
from qverify.session.job import Job
from qverify.session.many_frames import KeptReports, frame_row
from qverify.session.request import Request
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    path: Path = made.recurrent(tmp_path_factory.mktemp("nets") / "rec.onnx")
    opened = Job(Request([str(path)], run_sim=True))
    yield opened
    opened.close()


def test_a_node_that_runs_again_keeps_its_session(job) -> None:
    reference, graph = job._host.reference(), job.models.graph
    prepared = random_inputs(graph, 1)
    values = {**prepared.arrays(), **reference.run(prepared).tensors}
    unit = next(u for u in units(graph) if all(n in values for n in u.inputs))
    sessions = [reference._open_unit(unit) for _ in range(4)]
    assert sessions[0] is not sessions[1] and sessions[1] is sessions[2] is sessions[3]
    for name, value in reference.run_unit(unit, values).items():
        np.testing.assert_array_equal(value, values[name])
    reference._room = 0
    other = next(u for u in units(graph) if u.outputs != unit.outputs)
    assert len({id(session) for session in [reference._open_unit(other) for _ in range(3)]}) == 3


def test_a_graph_computes_what_is_asked_of_it_once(job) -> None:
    graph = job.models.graph
    assert graph.once(units) is graph.once(units) and graph.once(units) == units(graph)


def test_hashes_of_inputs_are_computed_once(job) -> None:
    prepared = random_inputs(job.models.graph, 1)
    assert prepared.inputs[0].sha256 is prepared.inputs[0].sha256 and prepared.sha256 is prepared.sha256
    assert (
        prepared == random_inputs(job.models.graph, 1) and prepared.sha256 != random_inputs(job.models.graph, 2).sha256
    )


def side(name: str, values: np.ndarray) -> Recording:
    spec = TensorSpec("y", values.dtype.name, values.shape)
    digests = {"y": tensor_digest(values)}
    return Recording(name, name, specs={"y": spec}, finals=("y",), tensors={"y": values}, digests=digests)


def test_two_sides_that_are_one_array_are_measured_once() -> None:
    right, wrong = np.arange(64, dtype=np.float32), np.arange(64, dtype=np.float32) * 1.5
    wrong[3], shared = np.nan, MeasuredRows()
    a, b, c = side("reference", right), side("simulator", wrong), side("board", wrong)

    def judge(other: Recording, measured: MeasuredRows | None):
        return Judge(Values(a), Values(other), None, Options(), measured).run("reference", other.side)

    first, again, alone = judge(b, shared), judge(c, shared), judge(c, None)
    assert repr(again.rows) == repr(alone.rows) and repr(again.pair) == repr(alone.pair)
    assert (again.decimals_only, again.untried, again.not_finite) == (
        alone.decimals_only,
        alone.untried,
        alone.not_finite,
    )
    first.rows["y"].verdict = "PASSED"
    first.rows["y"].metrics["lsb_histogram"] = {}
    assert repr(again.rows) == repr(alone.rows) == repr(judge(c, shared).rows)
    other = judge(side("board", wrong.copy()), shared)
    assert repr(other.rows) == repr(alone.rows)


def test_only_the_first_report_of_a_sequence_keeps_what_is_of_all_steps() -> None:
    kept = KeptReports()
    for step in range(3):
        report = ReportDocument(
            verdict="PASSED", blame=None, decimals={}, pairs=[], models=[{"path": "m.onnx"}], inputs=[{"name": "x"}]
        )
        kept.add(report, frame_row(step, "", report))
    assert [(r.models, r.inputs) for r in kept.reports[1:]] == [([], [])] * 2
    whole = kept.combine([])
    assert whole.models == [{"path": "m.onnx"}] and whole.inputs == [{"name": "x"}]
