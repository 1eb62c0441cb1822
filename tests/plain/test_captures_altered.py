"""Captures that were altered, contradict themselves or hold what no capture holds: refused, and never passed."""

from __future__ import annotations

import json

import pytest
from qverify.cli.main import main

from tests.plain.captured_run import NODE, changed, judged_again, report


def a_second_board(frame, held):
    frame["sides"].append({**frame["sides"][2]})


def a_side_of_no_kind(frame, held):
    frame["sides"][2]["side"] = "bord"


def a_board_that_is_an_engine(frame, held):
    frame["sides"][2]["is_engine"] = True


def seventeen_engines(frame, held):
    made = ({**frame["sides"][2], "side": f"e{k}", "label": f"e{k}", "is_engine": True} for k in range(17))
    frame["sides"] += list(made)


@pytest.mark.parametrize("change", [a_second_board, a_side_of_no_kind, a_board_that_is_an_engine, seventeen_engines])
def test_sides_that_cannot_be_told_apart_are_refused(change, captured, tmp_path, capsys):
    assert captured(f"faulty:local?fault=plus_one@{NODE}") == 1
    changed(tmp_path / "cap", change)
    assert main(["replay", str(tmp_path / "cap")]) == 2 and main(["triage", str(tmp_path / "cap")]) == 2
    assert capsys.readouterr().err.count("not a manifest of qverify.capture/1") == 2


def test_a_board_that_became_an_engine_is_missing(captured, tmp_path, capsys):
    def renamed(frame, held):
        frame["sides"][2] |= {"side": "npu", "label": "npu", "is_engine": True}
        held["command"]["engines"] = ["npu", "no name", 7, "board"]

    assert captured() == 0
    changed(tmp_path / "cap", renamed)
    assert main(["replay", str(tmp_path / "cap")]) == 3
    shown = capsys.readouterr().out
    assert "the capture contains no board, though the run had one" in shown and "no name" not in shown


def test_an_input_that_claims_gigabytes_is_refused_before_they_are_made(captured, tmp_path, capsys):
    def bomb(frame, held):
        held["parts"][frame["inputs"][0]["part"]][2] = 1 << 31

    assert captured() == 0
    changed(tmp_path / "cap", bomb)
    assert main(["replay", str(tmp_path / "cap")]) == 2
    assert "claims 2147483648 bytes; wanted 256" in capsys.readouterr().err


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
    printed = capsys.readouterr().err
    assert "internal error" not in printed and printed.count("\n") == 1


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
