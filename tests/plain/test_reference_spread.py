"""--reference-spread: what onnxruntime's own settings differ by stands beside every difference, and changes no verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from qverify.cli.main import main
from qverify.report.schema import report_schema

from tests.conftest import MODELS, need_models

NODE = "relu2_QuantizeLinear_Output"


def spread_of(model: str, out: Path, *more: str) -> tuple[int, dict[str, object]]:
    status = main(["-m", model, "-b", "local", "-r", "--reference-spread", "--json", str(out), *more])
    held = json.loads(out.read_text())
    Draft202012Validator(report_schema()).validate(held)
    return status, held


def test_no_verdict_changes_by_it(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, held = spread_of(str(digits / "digits_quant.onnx"), tmp_path / "r.json")
    assert status == 0 and any("reference spread" in note for note in held["notes"])
    rows = {r["name"]: r for p in held["pairs"] if p["a"] == "reference" for r in p["tensors"]}
    assert all(r["reference_spread"] is not None for r in rows.values())
    assert all(r["reference_spread"] is None for p in held["pairs"] if p["a"] == "simulator" for r in p["tensors"])
    words = [
        "-m",
        str(digits / "digits_quant.onnx"),
        "-b",
        f"faulty:local?fault=plus_one@{NODE}",
        "-r",
        "--reference-spread",
    ]
    assert main(words) == 1
    capsys.readouterr()
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", str(tmp_path / "m.bin"), "--no-check"]) == 0
    assert main(["-m", str(tmp_path / "m.bin"), "-b", "local", "--reference-spread"]) == 2
    assert "needs the quantized ONNX" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--input", "image=gray,mean=127.5,scale=0.0078431373"], ["--strip-io-quant"]])
def test_ends_that_the_untouched_file_has_otherwise(
    options: list[str], digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nodes in front of the network, or its ends without their quantization: the untouched file still takes part."""
    model = str(digits / "digits_quant.onnx")
    assert main(["compile", model, "-o", str(tmp_path / "m.bin"), *options]) == 0
    status, held = spread_of(f"{model},{tmp_path / 'm.bin'}", tmp_path / "r.json")
    assert status == 0
    own = held["reference_spread"][0]
    assert own["runs"] == 9 and own["widest"].startswith("prob") and 0 < own["max_abs"] < 0.01


@need_models()
def test_a_model_that_onnxruntime_fuses_has_a_spread(tmp_path: Path) -> None:
    """kwt1_u8s8: SkipLayerNormalization is fused at some levels (README, limits)."""
    status, held = spread_of(str(MODELS / "kwt1" / "kwt1_u8s8_qdq.onnx"), tmp_path / "r.json")
    assert status == 0
    assert max(r["reference_spread"] or 0 for p in held["pairs"] for r in p["tensors"]) > 0
