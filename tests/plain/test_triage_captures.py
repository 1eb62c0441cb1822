"""Captures of triage: they keep its experiments, which decide again, and a run that broke off is not complete."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.session.triage import run_ladder
from qverify_agents.connect import connect
from qverify_agents.errors import BadAddress

NODE = "relu2_QuantizeLinear_Output"


def words(digits: Path, kept: Path, *more: str) -> list[str]:
    board = f"faulty:local?fault=bias_missing@{NODE}"
    return ["triage", "-m", str(digits / "digits_quant.onnx"), "-b", board, "--capture", str(kept), *more]


def changed(kept: Path, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads((kept / "capture.json").read_text())
    change(manifest)
    (kept / "capture.json").write_text(json.dumps(manifest))


@pytest.fixture(scope="module")
def first_run(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture that is not written to."""
    kept = tmp_path_factory.mktemp("first") / "kept"
    assert main(words(digits, kept)) == 1
    return kept


@pytest.fixture
def kept(first_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(first_run, tmp_path / "kept")


def told_again(kept: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    status = main(["triage", str(kept)])
    printed = capsys.readouterr()
    return status, printed.out + printed.err


def test_models_have_the_names_of_the_run(kept: Path, capsys: pytest.CaptureFixture[str]):
    status, told = told_again(kept, capsys)
    assert (
        status == 1 and "model digits_quant.onnx" in told.splitlines()[0] and "reference      digits_quant.onnx" in told
    )
    assert "0.onnx" not in told


def test_kept_experiments_decide_again(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    kept = tmp_path / "kept"
    assert main(words(digits, kept)) == 1
    first = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(f"board at {NODE}"))
    assert "EXPLAINED: bias left out" in first
    status, told = told_again(kept, capsys)
    assert status == 1 and first in told.splitlines()
    assert json.loads((kept / "capture.json").read_text())["state"] == "complete"


def test_an_answer_that_was_altered_explains_nothing(kept: Path, capsys: pytest.CaptureFixture[str]):
    changed(kept, lambda m: m["frames"][0]["experiments"][1].update(board="0" * 16))
    status, told = told_again(kept, capsys)
    assert status == 1 and f"board at {NODE} (conv): UNEXPLAINED" in told and ": EXPLAINED" not in told


@pytest.mark.parametrize("left", [0, 2])
def test_too_few_kept_experiments_leave_a_candidate(left: int, kept: Path, capsys: pytest.CaptureFixture[str]):
    changed(kept, lambda m: m["frames"][0].update(experiments=m["frames"][0]["experiments"][:left]))
    status, told = told_again(kept, capsys)
    assert status == 1 and f"board at {NODE} (conv): CANDIDATE: bias left out" in told and ": EXPLAINED" not in told


@pytest.mark.parametrize(
    ("row", "why"),
    [({"seed": "1"}, "malformed"), ({"more": 1}, "malformed"), ({"seed": True}, "malformed"), ({}, "two rows of one")],
)
def test_experiments_that_are_malformed_are_refused(
    row: dict[str, Any], why: str, kept: Path, capsys: pytest.CaptureFixture[str]
):
    changed(kept, lambda m: m["frames"][0]["experiments"].append({**m["frames"][0]["experiments"][0], **row}))
    status, told = told_again(kept, capsys)
    assert status == 2 and why in told and "Traceback" not in told


def probe_rows(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in manifest["frames"][0]["experiments"] if "shape" in row]


def test_kept_probes_decide_again(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A rule of places is explained by what the board gave in other shapes, and a candidate without."""
    kept = tmp_path / "kept"
    model = str(digits / "digits_quant.onnx")
    assert main(["triage", "-m", model, "-b", f"faulty:local?fault=tap_mirrored@{NODE}", "--capture", str(kept)]) == 1
    first = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(f"board at {NODE}"))
    assert "EXPLAINED: " in first and ", and by the same op in " in first
    assert first in told_again(kept, capsys)[1].splitlines()
    rows = probe_rows(json.loads((kept / "capture.json").read_text()))
    assert rows and all(row["output"] and row["shape"] and row["tensor"] == NODE for row in rows)

    def without_probes(manifest: dict[str, Any]) -> None:
        frame = manifest["frames"][0]
        frame["experiments"] = [row for row in frame["experiments"] if "shape" not in row]

    changed(kept, without_probes)
    status, told = told_again(kept, capsys)
    assert status == 1 and f"board at {NODE} (conv): CANDIDATE" in told and ": EXPLAINED" not in told
    assert "and none was run: the capture has no probe of" in told


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"output": "AAAA"}, "has an output that cannot be read"),
        ({"output": "eJwDAAAAAAE="}, "has an output of 0 bytes, wanted"),
        ({"board": "0" * 16}, "does not match its digest"),
        ({"shape": 1}, "malformed"),
    ],
)
def test_probes_that_are_altered_are_refused(
    change: dict[str, Any], why: str, kept: Path, capsys: pytest.CaptureFixture[str]
):
    changed(kept, lambda m: probe_rows(m)[0].update(change))
    status, told = told_again(kept, capsys)
    assert status == 2 and why in told and "Traceback" not in told


def test_a_run_that_broke_off_is_not_a_complete_capture(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def broken_off(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_ladder.FrameExplainer, "frame", broken_off)
    healthy = ["triage", "-m", str(digits / "digits_quant.onnx"), "-b", "local", "--capture", str(tmp_path / "kept")]
    assert main(healthy) == 130
    assert json.loads((tmp_path / "kept" / "capture.json").read_text())["state"] == "incomplete"
    monkeypatch.undo()
    status, told = told_again(tmp_path / "kept", capsys)
    assert status == 3 and "the capture is incomplete: the run was cut off" in told


def test_a_frame_that_could_not_be_prepared_is_in_the_capture(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    made = tmp_path / "frames"
    made.mkdir()
    with np.load(digits / "digits.npz") as images:
        np.save(made / "0.npy", images[sorted(images.files)[0]])
    np.save(made / "1.npy", np.zeros((2, 2), np.float32))
    model = str(digits / "digits_quant.onnx")
    assert main(["triage", "-m", model, "-b", "local", "-i", str(made), "--capture", str(tmp_path / "kept")]) == 3
    frames = json.loads((tmp_path / "kept" / "capture.json").read_text())["frames"]
    assert len(frames) == 2 and frames[0]["sides"] and not frames[1]["sides"] and frames[1]["why"]
    assert told_again(tmp_path / "kept", capsys)[0] == 3


def test_a_mistake_leaves_no_capture(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for more in (["--gate", "a~b=exact"], ["-i", str(tmp_path / "none.npy")]):
        assert main(words(digits, tmp_path / "kept", *more)) == 2
        assert not (tmp_path / "kept").exists()
    floats = str(digits / "digits_float.onnx")
    assert main(["triage", "-m", f"{floats},{floats}", "--capture", str(tmp_path / "kept")]) == 2
    assert "--capture keeps the run of a compiled model" in capsys.readouterr().err
    assert main(["triage", str(tmp_path), "--capture", str(tmp_path / "kept")]) == 2


def test_a_fault_is_not_planted_in_a_runtime_of_ones_own(tmp_path: Path):
    with pytest.raises(BadAddress, match="runtime="):
        connect(f"faulty:local?fault=bitflip@{NODE}&runtime={tmp_path}", 5)
