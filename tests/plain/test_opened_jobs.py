"""A job of models that are open already, with results of the host's sides that are at hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from qverify.compare.options import Options
from qverify.inputs.sources import InputRequest
from qverify.report.document import ReportDocument
from qverify.session import job
from qverify.session.host_sides import HostSides, SideResults, Watch
from qverify.session.many_frames import frame_sources, verify_frames
from qverify.session.models import open_models
from qverify.session.other_jobs import demo
from qverify.session.request import Request
from qverify.tensors.prepared import PreparedInputs


class Known(HostSides):
    """The results of an earlier run."""

    results_are_known = True

    def __init__(self, models: Any, ran: SideResults):
        super().__init__(models)
        self.ran = ran

    def run(self, prepared: PreparedInputs, run_sim: bool, watch: Watch | None = None) -> SideResults:
        return self.ran


@pytest.fixture(scope="module")
def request_of(tmp_path_factory: pytest.TempPathFactory) -> Request:
    folder = tmp_path_factory.mktemp("example") / "files"
    demo.write_example(str(folder))
    inputs = InputRequest(str(folder / demo.IMAGE))
    return Request([str(folder / demo.SOURCE)], "local", inputs=inputs, options=Options(dump_all=True), spot_seed=3)


def test_nothing_is_opened_again(request_of: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    models = open_models(request_of.models)
    wanted = job.verify(request_of)
    assert wanted.evidence is not None
    ran = wanted.evidence.results
    del ran.recordings["board"]
    monkeypatch.setattr(job, "open_with_board_model", lambda *_: pytest.fail("opened again"))
    monkeypatch.setattr(job, "Background", lambda *_: pytest.fail("a thread for what is at hand"))
    opened = job.OpenedModels(models, None, Known(models, ran))
    got = job.verify(request_of, job=job.Job(request_of, opened=opened))
    assert got.report.verdict == "PASSED" and got.report.pairs == wanted.report.pairs
    ran.recordings.pop("board")
    frames = frame_sources(str(Path(str(request_of.inputs.files)).parent))
    assert frames is not None
    one = verify_frames(request_of, frames[3:4], lambda row: None, job=job.Job(request_of, opened=opened))
    assert one.report.verdict == "PASSED"


def test_what_did_not_answer_is_known(request_of: Request) -> None:
    asked = replace(request_of, board="local?runtime=/nowhere")
    one = job.Job(asked)
    assert one.unreached is None
    outcome = job.verify(asked, job=one)
    assert outcome.unreached and one.unreached is not None and outcome.unreached in str(one.unreached)


@pytest.mark.parametrize(("verdict", "kept"), [("PASSED", False), ("FAILED", True)])
def test_a_capture_of_some_frames(request_of: Request, tmp_path: Path, verdict: str, kept: bool) -> None:
    """Begun when the first frame is to be kept."""

    class Chooses(job.Job):
        def is_kept(self, report: ReportDocument) -> bool:
            if report.verdict != "PASSED":
                self.start_capture(str(tmp_path / "capture"))
            return report.verdict != "PASSED"

    board = "local" if verdict == "PASSED" else demo.FAULTY
    asked = replace(request_of, board=board)
    assert job.verify(asked, job=Chooses(asked)).report.verdict == verdict
    assert (tmp_path / "capture" / "report.json").exists() == kept
