"""Dumps of several frames are compared frame by frame."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import qverify
from qverify.cli.main import main


@pytest.fixture
def dumps(tmp_path: Path) -> tuple[str, str]:
    """Two folders of three frames of AXera, of which the second frame differs."""
    random = np.random.default_rng(3)
    for number in range(3):
        value = random.normal(size=(1, 4, 5, 5)).astype(np.float32)
        for side, wrong in (("host", 0), ("chip", number == 1)):
            folder = tmp_path / side / str(number)
            folder.mkdir(parents=True)
            np.save(folder / "out.npy", value + np.float32(wrong))
    return str(tmp_path / "host"), str(tmp_path / "chip")


def test_every_frame_of_two_folders_is_compared(
    dumps: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", *dumps, "--profile", "axera"]
    assert main([*words, "--json", str(tmp_path / "r.json")]) == 1
    told = capsys.readouterr().out
    for line in (
        "frame 0 of host and chip: PASSED",
        "frame 1 of host and chip: FAILED (",
        "frames: 3 of 3 ran, 2 PASSED",
    ):
        assert line in told
    assert "A and B result Strict check FAILED (1 of 3 frames, the first is 1" in told
    found = json.loads((tmp_path / "r.json").read_text())
    assert [row["verdict"] for row in found["frames"]] == ["PASSED", "FAILED", "PASSED"]
    assert [main([*words, "--frame", str(number)]) for number in range(3)] == [0, 1, 0]
    assert qverify.compare(*dumps, profile="axera").verdict == "FAILED"


def test_a_frame_that_one_folder_lacks_is_never_passed(
    dumps: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(Path(dumps[1]) / "1")
    assert main(["compare", *dumps, "--profile", "axera"]) not in (0, 1)
    told = capsys.readouterr().out
    assert "frame 1 of host and chip: NOT RUN" in told and "has no frame 1" in told and "INCONCLUSIVE" in told


def test_folders_of_qnn_net_run_state_their_frames(dumps: tuple[str, str], digits: Path, tmp_path: Path) -> None:
    model, results = digits / "digits_quant.onnx", tmp_path / "results"
    for number in range(2):
        (results / f"Result_{number}").mkdir(parents=True)
        np.full(10, number / 10, np.float32).tofile(results / f"Result_{number}" / "prob.raw")
    other = shutil.copytree(results, tmp_path / "other")
    np.zeros(10, np.float32).tofile(other / "Result_1" / "prob.raw")
    report = qverify.compare(results, other, model=model, outputs_only=True)
    assert [row["verdict"] for row in report.document.frames] == ["PASSED", "FAILED"]
