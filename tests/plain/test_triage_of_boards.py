"""triage where the board is at fault: explained, reduced, and out of a capture."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

NODE = "relu2_QuantizeLinear_Output"


@pytest.mark.parametrize(
    ("kind", "said"), [("plus_one", "zero point"), ("bias_missing", "bias"), ("stale_tensor", "stale buffer")]
)
def test_a_known_fault_is_named(
    kind: str, said: str, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault={kind}@{NODE}"]
    assert main([*words, "--json", str(tmp_path / "t.json")]) == 1
    told = capsys.readouterr().out
    assert f"board at {NODE} (conv): EXPLAINED" in told and said in told
    held = json.loads((tmp_path / "t.json").read_text())
    assert held["explained"][0]["node"] == NODE and held["explained"][0]["explanation"]["exact"]


def test_an_unknown_fault_is_not_explained(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault=dither@{NODE}"]
    assert main(words) == 1
    assert "UNEXPLAINED" in capsys.readouterr().out
    assert main([*words, "--explain", "0"]) == 1
    assert "EXPLAINED" not in capsys.readouterr().out


def test_reduced_by_the_command(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault=plus_one@{NODE}"]
    assert main([*words, "--reduce", str(tmp_path / "out"), "--json", str(tmp_path / "t.json")]) == 1
    assert f"reduced to 1 node of 8, ending in {NODE} (conv), in 2 board runs" in capsys.readouterr().out
    assert (tmp_path / "out" / "README.md").is_file()
    assert json.loads((tmp_path / "t.json").read_text())["reduced"]["state"] == "reduced"
    assert main([*words, "--reduce", str(tmp_path / "x"), "--build-cmd", "tool only"]) == 2
    assert "wanted {onnx} and {bin} in it" in capsys.readouterr().err


def test_out_of_a_capture(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board, cap = f"faulty:local?fault=plus_one@{NODE}", str(tmp_path / "cap")
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", board, "-r", "--capture", cap]) == 1
    capsys.readouterr()
    assert main(["triage", cap]) == 1
    told = capsys.readouterr().out
    assert f"blame: board at {NODE}" in told and "EXPLAINED" in told and "TRIAGE: breaks at simulator ~ board" in told
    assert main(["triage", cap, "-b", "local"]) == 2
    assert "has its own inputs and board" in capsys.readouterr().err
    assert main(["triage", cap, "--reduce", str(tmp_path / "o")]) == 2
    assert "needs the board itself" in capsys.readouterr().err


def test_the_previous_frame_in_a_buffer_is_named(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the first frame the buffer is empty, in the second it still holds the first one's output."""
    made = tmp_path / "frames"
    made.mkdir()
    with np.load(digits / "digits.npz") as images:
        for at, name in enumerate(sorted(images.files)[:2]):
            np.save(made / f"{at}.npy", images[name])
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault=stale_frame@{NODE}"]
    assert main([*words, "-i", str(made)]) == 1
    assert "stale buffer: the output is the previous frame's" in capsys.readouterr().out


def test_two_faults_are_both_named(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faults = f"plus_one@relu1_QuantizeLinear_Output|bias_missing@{NODE}"
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault={faults}", "--json"]
    assert main([*words, str(tmp_path / "r.json")]) == 1
    assert f"blame: board at relu1_QuantizeLinear_Output, also {NODE}" in capsys.readouterr().out
    held = json.loads((tmp_path / "r.json").read_text())
    assert held["blame"]["also"] == [NODE] and held["blamed"][0]["also"] == [NODE]
    assert main(["triage", *words, str(tmp_path / "t.json")]) == 1
    told = capsys.readouterr().out
    assert "board at relu1_QuantizeLinear_Output (conv): EXPLAINED: zero point" in told
    assert f"board at {NODE} (conv): EXPLAINED: bias left out" in told
    assert [one["node"] for one in json.loads((tmp_path / "t.json").read_text())["explained"]] == [
        "relu1_QuantizeLinear_Output",
        NODE,
    ]
