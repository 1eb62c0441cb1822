"""`qverify compare DIR`: the sides of one run in a vendor's folder are compared rung by rung."""

import json

import numpy as np
import pytest
from qverify.cli.main import main

NAMES = ["conv1", "relu1", "prob"]


def snapshot(folder, sides, wrong=None):
    """Writes a snapshot of Rockchip's toolkit. sides: their names. wrong: the side whose relu1 is wrong."""
    rng = np.random.default_rng(1)
    golden = {name: rng.normal(0, 1, (1, 4, 8, 8)).astype(np.float32) for name in NAMES}
    quantized = {name: (np.round(values / 0.02) * 0.02).astype(np.float32) for name, values in golden.items()}
    for side in sides:
        (folder / side / "npy").mkdir(parents=True)
        for name in NAMES:
            values = (golden if side == "golden" else quantized)[name].copy()
            if side == wrong and name == "relu1":
                values[0, 2] = -values[0, 2]
            np.save(folder / side / "npy" / f"{name}.npy", values)
    heads = [f"{'layer_name':20}file_name", "-" * 40, *(f"{name:20}{name}.npy" for name in NAMES)]
    (folder / "map_name_to_file.txt").write_text("\n".join(heads) + "\n")
    return str(folder)


def verdicts(capsys):
    return [line for line in capsys.readouterr().out.splitlines() if "Strict check" in line]


def test_every_rung_has_its_pair(tmp_path, capsys):
    assert main(["compare", snapshot(tmp_path / "s", ["golden", "simulator", "runtime"])]) == 0
    lines = verdicts(capsys)
    assert [line.partition(" result")[0] for line in lines] == [
        "golden and Sim",
        "Sim and runtime",
        "golden and runtime",
    ]
    assert all("PASSED" in line for line in lines)
    assert "cosine >= 0.98" in lines[0] and "cosine" not in lines[1]


def test_a_wrong_board_fails_its_own_rung_at_its_tensor(tmp_path, capsys):
    folder = snapshot(tmp_path / "s", ["golden", "simulator", "runtime"], wrong="runtime")
    assert main(["compare", folder, "--json", str(tmp_path / "r.json")]) == 1
    lines = verdicts(capsys)
    assert "PASSED" in lines[0] and "FAILED (relu1: " in lines[1] and "FAILED" in lines[2]
    report = json.loads((tmp_path / "r.json").read_text())
    assert [(p["a"], p["b"], p["verdict"]) for p in report["pairs"]] == [
        ("golden", "simulator", "PASSED"),
        ("simulator", "runtime", "FAILED"),
        ("golden", "runtime", "FAILED"),
    ]


def test_a_tensor_that_one_rung_lacks_is_missing_there(tmp_path, capsys):
    folder = snapshot(tmp_path / "s", ["golden", "simulator"])
    (tmp_path / "s" / "simulator" / "npy" / "relu1.npy").unlink()
    assert main(["compare", folder]) == 3
    assert "relu1 is missing in simulator" in verdicts(capsys)[0]


def test_gates_of_the_user_judge_every_rung(tmp_path, capsys):
    assert main(["compare", snapshot(tmp_path / "s", ["golden", "simulator"]), "-c", "3"]) == 1
    assert "criteria" not in verdicts(capsys)[0]


@pytest.mark.parametrize("sides", [["golden"], []])
def test_a_folder_without_two_sides_is_refused_in_one_line(tmp_path, capsys, sides):
    (tmp_path / "s").mkdir()
    assert main(["compare", snapshot(tmp_path / "s", sides)]) == 2
    assert "no two sides of one run in it" in (error := capsys.readouterr().err) and error.count("\n") == 1


@pytest.mark.parametrize("word", ["rknn", "RKNN", "rockchip"])
def test_every_spelling_of_a_maker_is_taken(tmp_path, capsys, word):
    folder = snapshot(tmp_path / "s", ["golden", "simulator"])
    sides = [f"{folder}/golden", f"{folder}/simulator"]
    assert main(["compare", *sides, "--criteria", word, "--profile", word]) == 0
    assert "criteria rockchip" in verdicts(capsys)[0]


def test_a_ladder_without_the_board_says_so_in_every_verdict(tmp_path, capsys):
    folder = snapshot(tmp_path / "s", ["golden", "simulator"])
    assert main(["compare", folder]) == 0
    assert all("no board: " in line and "has no runtime" in line for line in verdicts(capsys))
    assert main(["compare", snapshot(tmp_path / "t", ["golden", "simulator", "runtime"])]) == 0
    assert not any("no board" in line for line in verdicts(capsys))


def test_a_side_is_not_chosen_of_a_ladder(tmp_path, capsys):
    assert main(["compare", snapshot(tmp_path / "s", ["golden", "simulator"]), "--side-b", "npu"]) == 2
    assert "compare DIR takes every side" in capsys.readouterr().err


def test_the_only_side_is_named(tmp_path, capsys):
    assert main(["compare", snapshot(tmp_path / "s", ["golden"])]) == 2
    assert "it has only golden (rockchip)" in capsys.readouterr().err
