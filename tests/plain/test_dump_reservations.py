"""Dumps that are one another's links, whose scales contradict the model's, or that hold tensors without elements."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.session.demo import write_example

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
    assert main(list(COMPARE)) == 0
    assert "7 tensors are read by a dump's scale, which -m contradicts, first image" in capsys.readouterr().out


def test_right_scales_are_not_remarked_on(dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word for word in COMPARE if word != "-q"]) == 1
    assert "contradict" not in capsys.readouterr().out


def test_links_to_the_same_files_are_named(dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dumps / "c").mkdir()
    for file in (dumps / "a").iterdir():
        (dumps / "c" / file.name).symlink_to(file)
    assert main(["compare", "-q", "a", "c"]) == 0
    assert "(A and B are links to the same files, compared with themselves)" in capsys.readouterr().out
    own = dumps / "c" / "prob.npy"
    own.unlink()
    own.write_bytes((dumps / "a" / "prob.npy").read_bytes())
    assert main(["compare", "-q", "a", "c"]) == 0
    assert "links" not in capsys.readouterr().out


def test_tensors_without_elements_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "boxes.npy", np.zeros((0, 4), np.float32))
        np.save(tmp_path / name / "scores.npy", np.ones(3, np.float32))
    assert main(["compare", "-q", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "PASSED (1 tensor has no elements, first boxes)" in capsys.readouterr().out
