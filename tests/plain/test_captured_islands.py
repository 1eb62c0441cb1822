"""What host islands make is not taken from a capture: it is computed from the captured tensors, or missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from qverify.capture.reader import open_capture
from qverify.cli.main import main
from qverify.inputs.sources import InputRequest
from qverify.session.offline.rejudge import CapturedJob, captured_models
from qverify.tensors.spec import TensorSpec

from tests.plain.island_models import between, model


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "q.onnx"
    path.write_bytes(model(between).SerializeToString())
    return path


def captured(file: Path, folder: Path) -> tuple[Path, CapturedJob]:
    """Returns capture.json of a run with every tensor, and what opens the capture again."""
    assert main(["-m", str(file), "-b", "local", "-r", "True", "--pull", "all", "--capture", str(folder)]) == 0
    capture = open_capture(str(folder))
    return folder / "capture.json", CapturedJob(capture, captured_models(capture), True)


def test_a_capture_gives_nothing_that_islands_make(file: Path, tmp_path: Path):
    path, _ = captured(file, tmp_path / "cap")
    written = json.loads(path.read_text())
    written["specs"]["gridsample7"] = written["specs"]["conv4_dq"]
    for side in written["frames"][0]["sides"]:
        side["tensors"]["gridsample7"] = side["tensors"].pop("conv4_dq")
    path.write_text(json.dumps(written))
    capture = open_capture(str(path.parent))
    job = CapturedJob(capture, captured_models(capture), True)
    for side in job.record(job.prepared(InputRequest(), 0))[0].recordings.values():
        assert "conv4_dq" in side.missing and "gridsample7" not in {**side.specs, **side.digests, **side.tensors}
        assert any("not used: gridsample7" in note for note in side.notes), side.notes


def test_a_captured_side_of_which_the_host_computes_nothing_is_not_complete(file: Path, tmp_path: Path):
    _, job = captured(file, tmp_path / "cap")
    job.models.graph.tensors["gridsample7"] = TensorSpec("gridsample7", "float32", (1, 108))
    for side in job.record(job.prepared(InputRequest(), 0))[0].recordings.values():
        assert side.state == "partial" and "the host could not compute it" in side.why
        assert "the model says float32[1, 108]" in side.missing["gridsample7"]
