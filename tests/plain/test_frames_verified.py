"""Many frames in one run: a verdict each, the worst first, the board connected once; what cannot be prepared is listed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from qverify.cli.main import main
from qverify.report.schema import report_schema
from qverify_agents.binaries import host_architecture, runtime_path

NODE = "relu2_QuantizeLinear_Output"


@pytest.fixture
def folder(digits: Path, tmp_path: Path) -> Path:
    made = tmp_path / "frames"
    made.mkdir()
    with np.load(digits / "digits.npz") as images:
        for name in sorted(images.files)[:4]:
            np.save(made / f"{name}.npy", images[name])
    return made


def run(digits: Path, *words: str) -> int:
    return main(["-m", str(digits / "digits_quant.onnx"), *words])


def test_a_folder_is_verified_frame_by_frame(folder, digits, tmp_path, capsys):
    report = tmp_path / "r.json"
    assert run(digits, "-b", "local", "-i", str(folder), "-r", "--json", str(report)) == 0
    printed = capsys.readouterr().out
    assert "frames: 4 of 4 ran, 4 PASSED" in printed and printed.count("Strict check PASSED (4 frames)") == 3
    held = json.loads(report.read_text())
    Draft202012Validator(report_schema()).validate(held)
    assert [f["verdict"] for f in held["frames"]] == ["PASSED"] * 4
    assert sorted({p["frame"] for p in held["pairs"]}) == [0, 1, 2, 3] and len(held["pairs"]) == 12
    assert held["link"]["cached_bytes"] == 3 * 9225  # the model is pushed once


def test_a_faulty_board_fails_and_the_worst_frame_comes_first(folder, digits, capsys):
    assert run(digits, "-b", f"faulty:local?fault=plus_one@{NODE}", "-i", str(folder), "-r") == 1
    printed = capsys.readouterr().out
    assert "worst frames:" in printed and f"blame: board at {NODE}" in printed
    assert "Sim and Arm result Strict check FAILED (4 of 4 frames, the first is 0)" in printed


def test_only_the_worst_frames_keep_their_tensors(digits, tmp_path, monkeypatch):
    from qverify.session import many_frames

    monkeypatch.setattr(many_frames, "MAX_WHOLE_REPORTS", 2)
    made = tmp_path / "many"
    made.mkdir()
    random = np.random.Generator(np.random.PCG64(3))
    for k, strength in enumerate((0.0, 0.2, 1.0, 0.0, 0.6)):
        np.save(made / f"{k}.npy", (strength * random.random((1, 1, 8, 8))).astype(np.float32))
    report = tmp_path / "r.json"
    run(digits, "-b", f"faulty:local?fault=plus_one@{NODE}", "-i", str(made), "-r", "--json", str(report))
    held = json.loads(report.read_text())
    Draft202012Validator(report_schema()).validate(held)
    ranked = sorted(held["frames"], key=lambda f: (-f["failing"], -f["max_abs"], f["frame"]))
    worst = {f["frame"] for f in ranked[:2]}
    assert {p["frame"] for p in held["pairs"] if p["tensors"]} == worst
    assert len(held["pairs"]) == 15 and all(p["coverage"]["compared"] for p in held["pairs"])
    assert any("3 frames are left out" in note for note in held["notes"])


def test_what_cannot_be_prepared_is_listed_and_the_others_run(folder, digits, tmp_path, capsys):
    (folder / "digit_1b.txt").write_text("no picture")
    np.save(folder / "wide.npy", np.zeros((1, 1, 8, 9), np.float32))
    report = tmp_path / "r.json"
    assert run(digits, "-b", "local", "-i", str(folder), "--json", str(report)) == 2
    printed = capsys.readouterr().out
    assert "frames: 4 of 6 ran, 4 PASSED" in printed and "2 frames could not be prepared" in printed
    assert [f["verdict"] for f in json.loads(report.read_text())["frames"]].count("NOT RUN") == 2


def test_a_list_with_paths_relative_to_it(folder, digits, capsys):
    names = sorted(p.name for p in folder.iterdir())
    (folder / "list.txt").write_text("# two of them\n" + "\n".join(names[:2]) + "\n")
    assert run(digits, "-b", "local", "-i", str(folder / "list.txt")) == 0
    assert "frames: 2 of 2 ran, 2 PASSED" in capsys.readouterr().out


def test_a_board_that_dies_in_a_frame_is_connected_again_for_the_next(folder, digits, capsys):
    assert run(digits, "-b", f"faulty:local?fault=die@{NODE}", "-i", str(folder)) == 3
    printed = capsys.readouterr().out
    assert (
        printed.count("the agent was killed by SIGKILL") == 8
    )  # each frame had an agent of its own to kill; told twice


def test_the_link_counts_every_connection(folder, digits, tmp_path):
    """The model goes to each of four agents."""
    report = tmp_path / "r.json"
    assert run(digits, "-b", f"faulty:local?fault=die@{NODE}", "-i", str(folder), "--json", str(report)) == 3
    sent = json.loads(report.read_text())["link"]["bytes_sent"]
    assert run(digits, "-b", "local", "-i", str(folder), "--json", str(report)) == 0
    once = json.loads(report.read_text())["link"]["bytes_sent"]
    assert sent > 2.5 * once


@pytest.mark.parametrize(
    ("make", "said"),
    [("empty", "contains no files"), ("none", "the only frame could not be prepared"), ("list", "is empty")],
)
def test_nothing_to_verify_is_a_mistake(make, said, digits, tmp_path, capsys):
    path = tmp_path / "x"
    path.mkdir()
    if make == "none":
        (path / "a.bin").write_bytes(b"123")
    if make == "list":
        path = path / "l.txt"
        path.write_text("\n")
    assert run(digits, "-b", "local", "-i", str(path)) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) == 1


@pytest.fixture
def board_of_one_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A board that dies in its first frame and cannot be started again."""
    real, once, binaries = runtime_path(host_architecture(), faulty=True), tmp_path / "once", tmp_path / "bin"
    binaries.mkdir()
    program = binaries / real.name
    program.write_text(f'#!/bin/sh\n[ -e "{once}" ] && exit 9\n: > "{once}"\nexec "{real}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("QVERIFY_BIN_DIR", str(binaries))
    return f"faulty:local?fault=die@{NODE}"


def test_frames_after_the_loss_of_a_board_are_not_called_unprepared(
    board_of_one_start, folder, digits, tmp_path, capsys
):
    report, captured, lost = tmp_path / "r.json", tmp_path / "cap", "2 frames not run: board lost"
    words = ["-i", str(folder), "--json", str(report), "--capture", str(captured)]
    assert run(digits, "-b", board_of_one_start, *words) == 3
    printed = capsys.readouterr().out
    held = json.loads(report.read_text())
    Draft202012Validator(report_schema()).validate(held)
    assert [f["verdict"] for f in held["frames"]] == ["INCONCLUSIVE", "INCONCLUSIVE", "NOT RUN", "NOT RUN"]
    assert [f["board_lost"] for f in held["frames"]] == [False, False, True, True]
    assert held["caveats"] == [lost] and held["verdict"] == "INCONCLUSIVE"
    assert printed.count(f"; {lost}") == 3 and "prepared" not in printed and "frames: 2 of 4 ran" in printed
    assert main(["replay", str(captured)]) == 3
    printed = capsys.readouterr().out
    assert printed.count(f"; {lost}") == 3 and "prepared" not in printed
    assert main(["triage", str(captured)]) == 3
    printed = capsys.readouterr().out
    assert lost in printed and "prepared" not in printed


def test_frames_that_were_not_prepared_and_those_after_a_loss_are_counted_apart(
    board_of_one_start, folder, digits, tmp_path, capsys
):
    (folder / "0.npy").write_text("no picture")
    assert run(digits, "-b", board_of_one_start, "-i", str(folder)) == 2
    assert "1 frame could not be prepared; 2 frames not run: board lost" in capsys.readouterr().out
