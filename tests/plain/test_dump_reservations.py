"""Dumps that are one another's links, whose scales contradict the model's, or that hold tensors without elements."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.session.offline.dump_reservations import read_by_model
from qverify.session.other_jobs.demo import write_example
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

RELU2 = "relu2_QuantizeLinear_Output"
COMPARE = ("compare", "-q", "a", "b", "-m", "digits_quant.onnx", "--profile", "generic")


@pytest.fixture
def dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with the example and two dumps of it, a and b, of which b has one other step in each value of a node."""
    monkeypatch.chdir(tmp_path)
    write_example(".")
    for name in "ab":
        assert main(["infer", "-m", "digits_quant.onnx", "-o", name]) == 0
    values = np.load(f"b/{RELU2}.npy")
    np.save(f"b/{RELU2}.npy", values ^ 1)
    return tmp_path


def state_scale(dump: Path, scale: float) -> None:
    content = json.loads((dump / "dump.json").read_text())
    for entry in content["tensor"]:
        if "scale" in entry:
            entry["scale"] = scale
    (dump / "dump.json").write_text(json.dumps(content))


def test_one_wrong_scale_in_both_dumps_widens_no_gate(dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        state_scale(dumps / name, 1e-12)
    assert main([word for word in COMPARE if word != "-q"]) == 1
    assert "7 tensors are read by the scale of -m, which contradicts both dumps, first image" in capsys.readouterr().out


def test_two_wrong_scales_are_named(dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, scale in (("a", 1e-12), ("b", 2e-12)):
        state_scale(dumps / name, scale)
    assert main(list(COMPARE)) == 1  # every value is within the gate, and the node is not
    assert (
        "7 tensors are read by a dump's scale or zero point, which -m contradicts, first image"
        in capsys.readouterr().out
    )


def test_a_wrong_zero_point_is_said_with_what_it_does(dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = dumps / "b" / "dump.json"
    content = json.loads(file.read_text())
    entry = next(entry for entry in content["tensor"] if "zero_point" in entry)
    true = int(np.ravel(entry["zero_point"])[0])
    entry["zero_point"] = true + 2
    file.write_text(json.dumps(content))
    assert main(list(COMPARE)) == 1
    wanted = f"(zero point {true + 2}, {true} in -m: every value is 2 steps too low by it)"
    assert wanted in capsys.readouterr().out


def test_right_scales_are_not_remarked_on(dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word for word in COMPARE if word != "-q"]) == 1
    assert "contradict" not in capsys.readouterr().out


def test_links_to_the_same_files_are_named(dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dumps / "c").mkdir()
    for file in (dumps / "a").iterdir():
        (dumps / "c" / file.name).symlink_to(file)
    assert main(["compare", "-q", "a", "c"]) == 0
    assert "PASSED (10 files are both A's and B's by links, first dump.json)" in capsys.readouterr().out
    own = dumps / "c" / "prob.npy"
    own.unlink()
    own.write_bytes((dumps / "a" / "prob.npy").read_bytes())
    assert main(["compare", "-q", "a", "c"]) == 0
    assert "PASSED (9 files are both A's and B's by links, first dump.json)" in capsys.readouterr().out
    shutil.copytree("a", "d")
    assert main(["compare", "-q", "a", "d"]) == 0
    assert "links" not in capsys.readouterr().out


def test_two_sides_of_one_capture_are_not_one_read_twice(dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", "digits_quant.onnx", "-b", "local", "-r", "--capture", "cap", "-q"]) == 0
    capsys.readouterr()
    assert main(["compare", "-q", "cap", "cap", "--side-a", "reference", "--side-b", "board"]) == 0
    assert "links" not in capsys.readouterr().out


def test_a_scale_is_the_models_however_its_name_is_spelled() -> None:
    stated, true = TensorSpec("a_b", "uint8", (2,), scale=(1e-12,), zero_point=(0,)), (0.5,)
    model = {"a/b": TensorSpec("a/b", "uint8", (2,), scale=true, zero_point=(3,))}
    sides = [Recording("A", "", specs={"a_b": stated}), Recording("B", "", specs={"a_b": stated})]
    assert read_by_model(*sides, model, lambda name: name.replace("/", "_")) == (["a_b"], {})
    assert all((s.specs["a_b"].scale, s.specs["a_b"].zero_point) == (true, (3,)) for s in sides)
    twice = {**model, "a_b": replace(model["a/b"], name="a_b")}
    assert read_by_model(*sides, twice, lambda name: name.replace("/", "_")) == ([], {})


def test_tensors_without_elements_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "boxes.npy", np.zeros((0, 4), np.float32))
        np.save(tmp_path / name / "scores.npy", np.ones(3, np.float32))
    assert main(["compare", "-q", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "PASSED (1 tensor has no elements, first boxes)" in capsys.readouterr().out
