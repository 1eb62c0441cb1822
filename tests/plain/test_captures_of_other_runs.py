"""Captures of another run, model or board: never passed by it."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.cli.main import main

from tests.plain.captured_run import NODE, changed, judged_again


def test_what_is_named_holds_even_where_it_is_the_default(captured, tmp_path):
    """A final output that is off by 0.3: 0 decimals pass, the default of 5 does not."""
    fault = "faulty:local?fault=plus_one@prob_QuantizeLinear_Output"
    assert captured(fault, "-r", "False", "-c", "0", "--relax-board") == 0
    assert judged_again(tmp_path / "cap")[0] == 0
    for digits in ("4", "5", "6"):
        assert judged_again(tmp_path / "cap", "-c", digits)[0] == 1


def test_a_board_that_was_not_the_same_twice_is_not_healed_by_a_replay(captured, tmp_path, capsys):
    assert captured(f"faulty:local?fault=jitter@{NODE}", "--repeat", "4") == 1
    status, held = judged_again(tmp_path / "cap")
    assert status == 1 and held["pairs"][-1]["cause"] == "not_deterministic"
    assert held["repeat"]["unstable"][0]["tensor"] == NODE
    assert main(["triage", str(tmp_path / "cap")]) == 1
    assert "the board differs from run to run" in capsys.readouterr().out


def other_inputs(frame, held):
    frame["sides"][2]["inputs_sha256"] = "0" * 64


def no_inputs(frame, held):
    del frame["sides"][2]["inputs_sha256"]


def other_model(frame, held):
    frame["sides"][2]["model_sha256"] = "0" * 64


def no_board(frame, held):
    del frame["sides"][2]


@pytest.mark.parametrize("change", [other_inputs, no_inputs, other_model, no_board])
def test_a_side_of_another_run_is_never_passed(change, captured, tmp_path, capsys):
    assert captured() == 0
    changed(tmp_path / "cap", change)
    assert judged_again(tmp_path / "cap")[0] == 3
    assert main(["triage", str(tmp_path / "cap")]) == 3
    if change is not no_board:
        assert main(["compare", str(tmp_path / "cap"), str(tmp_path / "cap")]) in (0, 2, 3)
    assert "Traceback" not in capsys.readouterr().err


def test_another_model_is_not_judged_by_what_this_one_did(captured, tmp_path, digits, capsys):
    import onnx

    assert captured() == 0
    model = onnx.load(digits / "digits_quant.onnx")
    model.producer_name = "another file"
    onnx.save(model, tmp_path / "other.onnx")
    assert main(["replay", str(tmp_path / "cap"), "-m", str(tmp_path / "other.onnx")]) == 3
    assert "ran another quant.onnx" in capsys.readouterr().out
    words = ["replay", str(tmp_path / "cap"), "-m", str(tmp_path / "other.onnx"), "--rerun", "reference,simulator"]
    assert main([*words, "-b", "local"]) == 0


def test_a_frame_that_could_not_be_prepared_stays_so(digits, tmp_path, capsys):
    folder = tmp_path / "frames"
    folder.mkdir()
    for number in range(2):
        np.save(folder / f"{number}.npy", np.full((1, 1, 8, 8), number, np.float32))
    (folder / "x.npy").write_text("junk")
    words = [
        "-m",
        str(digits / "digits_quant.onnx"),
        "-b",
        "local",
        "-i",
        str(folder),
        "--capture",
        str(tmp_path / "cap"),
    ]
    assert main(words) == 2
    status, held = judged_again(tmp_path / "cap")
    assert status == 2 and [row["verdict"] for row in held["frames"]] == ["PASSED", "PASSED", "NOT RUN"]
    assert main(["triage", str(tmp_path / "cap")]) == 3
    assert "x.npy" in capsys.readouterr().out


def test_a_report_of_another_run_makes_no_baseline(captured, tmp_path, capsys):
    assert captured() == 0
    report_of = tmp_path / "cap" / "report.json"
    report_of.write_text(report_of.read_text().replace("PASSED", "PASSED "))
    assert main(["baseline", "save", str(tmp_path / "b.json"), str(tmp_path / "cap")]) == 2
    assert "is not what was captured" in capsys.readouterr().err and not (tmp_path / "b.json").exists()


@pytest.mark.parametrize("side", [0, 1])
def test_a_side_that_left_is_missed(side, captured, tmp_path):
    assert captured() == 0
    changed(tmp_path / "cap", lambda frame, held: frame["sides"].pop(side))
    assert judged_again(tmp_path / "cap")[0] == 3


def test_a_run_without_the_simulator_is_triaged_without_it(captured, tmp_path):
    assert captured("local", "-s", "False") == 0
    assert judged_again(tmp_path / "cap")[0] == 0 and main(["triage", str(tmp_path / "cap")]) == 0


def test_a_board_that_became_unsteady_is_a_change(captured, tmp_path, capsys):
    assert captured("local", "--repeat", "3") == 0
    (tmp_path / "cap").rename(tmp_path / "good")
    assert captured(f"faulty:local?fault=jitter@{NODE}", "--repeat", "4") == 1
    changed(tmp_path / "cap", lambda frame, held: held["command"].update(board="local"))
    base = str(tmp_path / "b.json")
    assert main(["baseline", "save", base, str(tmp_path / "good")]) == 0
    capsys.readouterr()
    assert main(["baseline", "check", base, str(tmp_path / "cap")]) == 1
    told = capsys.readouterr().out
    assert "verdict PASSED -> FAILED (worse)" in told and "unsteady [] -> [" in told and NODE in told
    assert main(["compare", str(tmp_path / "cap"), str(tmp_path / "cap")]) == 3
    assert "gave different results from run to run" in capsys.readouterr().out


def test_a_mistake_leaves_no_capture_behind(digits, tmp_path):
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "local", "--capture", str(tmp_path / "cap")]
    assert main([*words, "-i", str(tmp_path / "nonexistent.npy")]) == 2
    assert not (tmp_path / "cap").exists()
    (tmp_path / "cap").mkdir()
    assert main([*words, "-i", str(tmp_path / "nonexistent.npy")]) == 2
    assert list((tmp_path / "cap").iterdir()) == []  # an empty folder of the user's stays
    (tmp_path / "cap" / "thesis.txt").write_text("precious")
    assert main([*words, "-i", str(tmp_path / "nonexistent.npy")]) == 2 and main(words) == 2
    assert [p.name for p in (tmp_path / "cap").iterdir()] == ["thesis.txt"]
    (tmp_path / "cap" / "thesis.txt").unlink()
    assert main(words) == 0


def test_what_a_compare_of_captures_leaves_out_is_said(captured, tmp_path, digits, capsys):
    assert captured("finals:local") == 0
    assert main(["compare", str(tmp_path / "cap"), str(tmp_path / "cap")]) == 0
    assert (
        "final outputs only: the board of a capture offered no other tensors"
        in capsys.readouterr().out.splitlines()[-1]
    )
    (tmp_path / "frames").mkdir()
    for number in range(2):
        np.save(tmp_path / "frames" / f"{number}.npy", np.full((1, 1, 8, 8), number, np.float32))
    several = str(tmp_path / "several")
    words = [
        "-m",
        str(digits / "digits_quant.onnx"),
        "-b",
        "local",
        "-i",
        str(tmp_path / "frames"),
        "--capture",
        several,
    ]
    assert main(words) == 0
    assert main(["compare", several, several, "--frame", "1"]) == 0
    assert "frame 1 of 2" in capsys.readouterr().out.splitlines()[-1]
