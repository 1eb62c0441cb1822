"""Captures that were altered, or are of another run: never passed by it; and their bytes taken out again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from qverify.capture.reader import open_capture
from qverify.cli.main import main

from tests.plain.captured_run import NODE, judged_again, report


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


def changed(folder: Path, change) -> Path:
    """capture.json after change(its first frame, the whole)."""
    path = folder / "capture.json"
    held = json.loads(path.read_text())
    change(held["frames"][0], held)
    path.write_text(json.dumps(held))
    return folder


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


def a_second_board(frame, held):
    frame["sides"].append({**frame["sides"][2]})


def a_side_of_no_kind(frame, held):
    frame["sides"][2]["side"] = "bord"


@pytest.mark.parametrize("change", [a_second_board, a_side_of_no_kind])
def test_sides_that_cannot_be_told_apart_are_refused(change, captured, tmp_path, capsys):
    assert captured(f"faulty:local?fault=plus_one@{NODE}") == 1
    changed(tmp_path / "cap", change)
    assert main(["replay", str(tmp_path / "cap")]) == 2 and main(["triage", str(tmp_path / "cap")]) == 2
    assert capsys.readouterr().err.count("not a manifest of qverify.capture/1") == 2


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


def test_an_input_that_claims_gigabytes_is_refused_before_they_are_made(captured, tmp_path, capsys):
    def bomb(frame, held):
        held["parts"][frame["inputs"][0]["part"]][2] = 1 << 31

    assert captured() == 0
    changed(tmp_path / "cap", bomb)
    assert main(["replay", str(tmp_path / "cap")]) == 2
    assert "claims 2147483648 bytes; wanted 256" in capsys.readouterr().err


def test_a_report_of_another_run_makes_no_baseline(captured, tmp_path, capsys):
    assert captured() == 0
    report_of = tmp_path / "cap" / "report.json"
    report_of.write_text(report_of.read_text().replace("PASSED", "PASSED "))
    assert main(["baseline", "save", str(tmp_path / "b.json"), str(tmp_path / "cap")]) == 2
    assert "is not what was captured" in capsys.readouterr().err and not (tmp_path / "b.json").exists()


def test_its_bytes_come_out_in_the_layout_of_the_model(digits, tmp_path, capsys):
    """Rows of 16 elements each: the files are aligned, and `compare` reads them back by dump.json."""
    binary, cap, out = tmp_path / "m.bin", tmp_path / "cap", tmp_path / "out"
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", str(binary), "--align", "16"]) == 0
    words = ["-m", f"{digits / 'digits_quant.onnx'},{binary}", "-b", f"faulty:local?fault=plus_one@{NODE}"]
    assert main([*words, "-r", "--pull", "all", "--capture", str(cap)]) == 1
    capsys.readouterr()
    assert main(["extract", str(cap), str(out)]) == 0
    listed = json.loads((out / "frame_0" / "board" / "dump.json").read_text())
    row = next(r for r in listed["tensor"] if r["name"] == NODE)
    assert (row["shape"], row["aligned_shape"], listed["missing"]) == ([1, 16, 4, 4], [1, 16, 4, 16], {})
    held = np.fromfile(out / "frame_0" / "board" / row["file"], np.uint8).reshape(row["aligned_shape"])
    board = open_capture(str(cap)).recordings(0)["board"].tensors[NODE]
    assert np.array_equal(held[..., :4], board) and not held[..., 4:].any()
    image = json.loads((out / "frame_0" / "inputs" / "dump.json").read_text())["tensor"][0]
    assert (
        (out / "frame_0" / "inputs" / image["file"]).stat().st_size == 4 * np.prod(image["aligned_shape"]) == 8 * 16 * 4
    )
    sides = [str(out / "frame_0" / side) for side in ("simulator", "board")]
    assert main(["compare", *sides]) == 1 and main(["compare", sides[0], sides[0]]) == 0
    assert f"{NODE}: 256 elements do not match" in capsys.readouterr().out
    assert main(["extract", str(cap), str(out)]) == 2
    assert main(["extract", str(cap), str(tmp_path / "x"), "--tensor", "nosuch"]) == 2
    assert "it has 1 frame with the sides inputs, reference, simulator, board" in capsys.readouterr().err
    assert main(["extract", str(cap), str(tmp_path / "y"), "--side", "board", "--tensor", NODE]) == 0
    assert [p.name for p in sorted((tmp_path / "y").rglob("*.bin"))] == ["0000.bin"]
    assert not list(tmp_path.glob("*.part"))


def test_labels_never_become_paths(captured, tmp_path, capsys):
    assert captured() == 0
    for label in (str(tmp_path / "elsewhere"), "../../up", "a\0b", "", "inputs"):

        def relabel(frame, held, label=label):
            frame["sides"][2]["label"] = label

        changed(tmp_path / "cap", relabel)
        assert main(["extract", str(tmp_path / "cap"), str(tmp_path / "out")]) == 2
        assert "not a manifest of qverify.capture/1" in capsys.readouterr().err
    assert not (tmp_path / "elsewhere").exists() and not (tmp_path / "out").exists()


def test_a_folder_beside_is_nobody_elses(captured, tmp_path):
    (tmp_path / "out.part").mkdir()
    (tmp_path / "out.part" / "thesis.txt").write_text("precious")
    assert captured() == 0
    assert main(["extract", str(tmp_path / "cap"), str(tmp_path / "out"), "--frame", "9"]) == 2
    assert main(["extract", str(tmp_path / "cap"), str(tmp_path / "out")]) == 0
    assert (tmp_path / "out.part" / "thesis.txt").read_text() == "precious"


def test_what_a_capture_lacks_its_files_lack_too(captured, tmp_path, capsys):
    assert captured(f"faulty:local?fault=die@{NODE}") == 3
    assert main(["extract", str(tmp_path / "cap"), str(tmp_path / "dead")]) == 0
    board = str(tmp_path / "dead" / "frame_0" / "board")
    assert main(["compare", board, board]) == 3
    changed(tmp_path / "cap", lambda frame, held: held.update(state="incomplete", why="a full disk"))
    assert main(["extract", str(tmp_path / "cap"), str(tmp_path / "cut"), "--side", "simulator"]) == 0
    simulator = str(tmp_path / "cut" / "frame_0" / "simulator")
    capsys.readouterr()
    assert main(["compare", simulator, simulator]) == 3
    assert "the capture is incomplete: a full disk" in capsys.readouterr().out
    assert main(["extract", str(tmp_path / "cap"), str(tmp_path / "x"), "--tensor", "prob", "--tensor", "nope"]) == 2
    assert "--tensor nope: no tensor of that name" in capsys.readouterr().err


@pytest.mark.parametrize("side", [0, 1])
def test_a_side_that_left_is_missed(side, captured, tmp_path):
    assert captured() == 0
    changed(tmp_path / "cap", lambda frame, held: frame["sides"].pop(side))
    assert judged_again(tmp_path / "cap")[0] == 3


def test_a_run_without_the_simulator_is_triaged_without_it(captured, tmp_path):
    assert captured("local", "-s", "False") == 0
    assert judged_again(tmp_path / "cap")[0] == 0 and main(["triage", str(tmp_path / "cap")]) == 0


def no_host(frame, held):
    del frame["sides"][1]["host"]


def a_text_for_a_count(frame, held):
    frame["sides"][2]["link"] = {"bytes_sent": "x"}


def smaller_than_it_holds(frame, held):
    held["specs"][NODE]["aligned_shape"] = [1, 1, 1, 1]


def wide(frame, held):
    held["specs"]["prob"]["aligned_shape"] = [1, 25_000_000]


def no_frames(frame, held):
    held["frames"] = []


@pytest.mark.parametrize("change", [no_host, a_text_for_a_count, smaller_than_it_holds, wide, no_frames])
@pytest.mark.parametrize("command", ["replay", "triage", "compare", "extract", "baseline"])
def test_what_no_capture_holds_is_one_line(command, change, captured, tmp_path, capsys):
    assert captured() == 0
    cap = str(changed(tmp_path / "cap", change))
    words = {"compare": ["compare", cap, cap], "extract": ["extract", cap, str(tmp_path / "o")]}
    words["baseline"] = ["baseline", "save", str(tmp_path / "b.json"), cap]
    capsys.readouterr()
    assert main(words.get(command, [command, cap])) == 2
    said = capsys.readouterr().err
    assert "internal error" not in said and said.count("\n") == 1


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


def board_of(held: dict[str, object]) -> dict[str, object]:
    return held["frames"][0]["sides"][2]


SELF_CONTRADICTIONS = {
    "interior": (lambda h: h["specs"][NODE].update(interior=True), "flagged interior"),
    "there and missing": (lambda h: board_of(h)["missing"].update({NODE: "gone"}), "and missing there"),
    "two inputs": (lambda h: h["frames"][0]["inputs"].append(h["frames"][0]["inputs"][0]), "two inputs of one name"),
    "two models": (lambda h: h["models"].append(h["models"][0]), "twice"),
    "two frames": (lambda h: h["frames"].append(h["frames"][0]), "two frames of one number"),
    "another zero point": (lambda h: h["specs"][NODE].update(zero_point=[7]), "contradicts the model"),
    "another shape": (
        lambda h: h["specs"][NODE].update(shape=[256], aligned_shape=[256]),
        "contradicts the model",
    ),
    "no integer reference": (lambda h: h["specs"][NODE].update(integer_reference=False), "contradicts the model"),
}


@pytest.mark.parametrize("how", SELF_CONTRADICTIONS, ids=[n.replace(" ", "_") for n in SELF_CONTRADICTIONS])
def test_a_capture_that_contradicts_itself_is_refused(how, captured, tmp_path, capsys):
    assert captured(f"faulty:local?fault=plus_one@{NODE}") == 1
    change, said = SELF_CONTRADICTIONS[how]
    manifest = tmp_path / "cap" / "capture.json"
    held = json.loads(manifest.read_text())
    change(held)
    manifest.write_text(json.dumps(held))
    capsys.readouterr()
    assert main(["replay", str(tmp_path / "cap"), "-r"]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) == 1
    (tmp_path / "cap").rename(tmp_path / "bad")
    assert captured("local") == 0
    assert main(["compare", str(tmp_path / "cap"), str(tmp_path / "bad")]) != 0


def test_a_key_twice_in_a_capture_is_refused(captured, tmp_path, capsys):
    """Readers differ in which of the two they take; here the last would have been a healthy board's digest."""
    assert captured(f"faulty:local?fault=plus_one@{NODE}") == 1
    manifest = tmp_path / "cap" / "capture.json"
    text = manifest.read_text()
    place = text.rindex(f'"{NODE}": [')
    manifest.write_text(f'{text[:place]}"{NODE}": [0, null], {text[place:]}')
    assert main(["replay", str(tmp_path / "cap"), "-r"]) == 2
    assert f"'{NODE}' appears twice" in capsys.readouterr().err


@pytest.mark.parametrize("settings", [{"precision": -300}, {"precision": 0}, {"runtime": "other"}])
def test_a_side_s_own_settings_loosen_nothing(settings, captured, tmp_path, capsys):
    assert captured(f"faulty:local?fault=plus_one@{NODE}") == 1
    manifest = tmp_path / "cap" / "capture.json"
    held = json.loads(manifest.read_text())
    for side in held["frames"][0]["sides"]:
        side["settings"].update(settings)
    manifest.write_text(json.dumps(held))
    capsys.readouterr()
    status, again = judged_again(tmp_path / "cap", "-r")
    (key,) = settings
    assert (
        status == 1
        and f"capture: '{key}' in the settings of the board is ignored; its values are exact" in again["notes"]
    )
    assert [p["gate"] for p in again["pairs"]] == [p["gate"] for p in report(tmp_path / "r.json")["pairs"]]
    good = tmp_path / "good"
    (tmp_path / "cap").rename(good)
    assert captured("local") == 0
    assert main(["compare", str(tmp_path / "cap"), str(good)]) == 1


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
