"""The bytes of a capture taken out again: in the model's layout, under no name of the capture's, and what it lacks they lack."""

from __future__ import annotations

import json

import numpy as np
from qverify.capture.reader import open_capture
from qverify.cli.main import main

from tests.plain.captured_run import NODE, changed


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
