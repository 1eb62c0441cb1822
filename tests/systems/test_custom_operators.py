"""--reference-engine lib:PATH: onnxruntime with a real library of custom operators, built here from C."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from qverify.cli.main import main

PLAIN = Path(__file__).parents[1] / "plain"
SOURCE = Path(__file__).with_name("custom_operator.c")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler of this Linux")
    made = tmp_path_factory.mktemp("custom") / "libhalf.so"
    command = [compiler, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(made), str(SOURCE), "-lm"]
    subprocess.run(command, check=True, timeout=60)
    return made


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of a main job whose board computes the same model in numpy."""
    monkeypatch.syspath_prepend(str(PLAIN))
    from test_reference_engine import vendor_model

    source, board, x = vendor_model(tmp_path / "vendor.onnx"), tmp_path / "board.bin", tmp_path / "x.npy"
    board.write_bytes(b"opaque")
    np.save(x, np.array([[-5, 3, 8.5, 100]], "float32"))
    runner = f"{sys.executable} {PLAIN / 'runner_of_engine.py'} --input {{npy}} --out {{out}}"
    return ["-m", f"{source},{board}", "-b", "local", "-i", str(x), "-r", "--runner", runner]


def test_a_library_of_custom_operators_is_the_reference(
    library: Path, vendor: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "R.json"
    assert main([*vendor, "--reference-engine", f"lib:{library}", "--json", str(report)]) == 0
    content = json.loads(report.read_text())
    assert content["sides"][0]["engine"] == "onnxruntime"
    assert list(content["sides"][0]["settings"]["libraries"]) == ["libhalf.so"]
    assert [(p["verdict"], p["coverage"]["compared"]) for p in content["pairs"]] == [("PASSED", 3)]
    spoilt = vendor[-1] + " --spoil b"
    assert main([*vendor[:-1], spoilt, "--reference-engine", f"lib:{library}", "--json", str(report)]) == 1
    assert json.loads(report.read_text())["pairs"][0]["first_divergence"]["node"] == "b"


def test_without_the_library_the_way_is_said(
    vendor: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "vendor.onnx"
    model = onnx.load(path)
    model.graph.node.append(onnx.helper.make_node("DequantizeLinear", ["q", "one"], ["real"]))
    model.graph.input.append(onnx.helper.make_tensor_value_info("q", onnx.TensorProto.INT8, [1]))
    onnx.save(model, path)
    assert main(vendor) == 2
    error = capsys.readouterr().err
    assert "unknown operator vendor::Half" in error and "name what runs it (--reference-engine)" in error


def test_a_file_that_is_no_library_is_one_line(
    vendor: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "libother.so").write_bytes(os.urandom(64))
    assert main([*vendor, "--reference-engine", f"lib:{tmp_path / 'libother.so'}"]) == 2
    error = capsys.readouterr().err
    assert "--reference-engine lib:libother.so: ended with status 1" in error and len(error.splitlines()) == 1
