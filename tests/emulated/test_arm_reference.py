"""ARM kernels take part in the reference's spread: a root folder made by the project's script, run by QEMU's user mode."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from qverify.cli.main import main
from qverify.report.schema import report_schema

from tests.conftest import MODELS, ROOT, need_models, need_qemu

pytestmark = need_qemu("aarch64")


def spread(model: Path, command: str, out: Path) -> tuple[dict[str, object], list[dict[str, object]]]:
    words = ["-m", str(model), "-b", "local", "-r", "--reference-spread", "--reference-python", command]
    assert main([*words, "--json", str(out)]) == 0
    held = json.loads(out.read_text())
    Draft202012Validator(report_schema()).validate(held)
    return held, held["reference_spread"]


def test_the_example_on_arm(arm: str, digits: Path, tmp_path: Path) -> None:
    held, (own, other) = spread(digits / "digits_quant.onnx", arm, tmp_path / "r.json")
    assert (other["machine"], other["onnxruntime"], other["command"]) == ("aarch64", own["onnxruntime"], arm)
    assert other["runs"] == own["runs"] == 9 and other["tensors"] == own["tensors"] == 8
    assert any("on aarch64" in note for note in held["notes"])
    assert not any("were not run" in note for note in held["notes"])
    assert other["max_lsb"] == 0 and other["max_abs"] < 0.01


@need_models()
@pytest.mark.parametrize("name", ["kws_dscnn/kws_dscnn_u8s8_qdq", "kws_dscnn/kws_dscnn_s8s8_qdq"])
def test_integer_kernels_of_arm_give_the_same_integers(name: str, arm: str, tmp_path: Path) -> None:
    _, (_, other) = spread(MODELS / f"{name}.onnx", arm, tmp_path / "r.json")
    assert other["machine"] == "aarch64" and other["max_lsb"] == 0


def test_no_cores_to_be_seen_is_qemu_s_own_word(arm: str, digits: Path, tmp_path: Path, capsys) -> None:
    """Without the folder's /proc/cpuinfo onnxruntime finds the host's and ends; that is told, not taken for no spread."""
    folder = Path(arm.split()[-1]).parents[2]
    for name in ("usr", "lib", "etc"):
        (tmp_path / name).symlink_to(folder / name)
    words = ["-m", str(digits / "digits_quant.onnx"), "--reference-spread", "--reference-python"]
    status = main([*words, arm.replace(str(folder), str(tmp_path))])
    if status == 0:
        pytest.skip("this QEMU shows ARM cores by itself")
    printed = capsys.readouterr().err
    assert "before run 1 of 9: qemu: uncaught target signal 11" in printed and printed.count("\n") == 1


def test_what_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    words = [sys.executable, str(ROOT / "scripts" / "arm_reference"), str(tmp_path / "full")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 3 and "wanted a new name or an empty folder" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["full"]
