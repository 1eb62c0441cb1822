"""TFLM as the board and as a further side: of a .tflite alone, and of one with the quantized ONNX and a map."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.errors import BadFileError
from qverify.session.models import open_models
from qverify.sides.tflite_tensors import tensors_by_name

from scripts.benchmarks.engine_pythons import NoEngine, engine_python
from tests.plain.test_engine_kernels import network as not_converted
from tests.tflite_files import File

STEPS = np.array([0.004, 0.006, 0.008, 0.003, 0.005], np.float32)


def network(folder: Path, bias: int = 0) -> Path:
    """A .tflite of a convolution, an addition, a pool and a softmax."""
    rng, f = np.random.default_rng(4), File()
    x = f.tensor("x", [1, 8, 6, 5], "int8", 0.04, 3)
    w = f.tensor("w", [5, 3, 3, 5], "int8", STEPS, 0, rng.integers(-127, 127, (5, 3, 3, 5)))
    b = f.tensor("b", [5], "int32", np.float32(0.04) * STEPS, 0, rng.integers(-4000, 4000, 5) + bias)
    y = f.tensor("a/conv;b", [1, 8, 6, 5], "int8", 0.21, -5)
    options = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1, "padding": 0}
    f.operator("CONV_2D", [x, w, b], [y], "Conv2DOptions", fusedActivationFunction=0, **options)
    z = f.tensor("sum", [1, 8, 6, 5], "int8", 0.25, 2)
    f.operator("ADD", [x, y], [z], "AddOptions")
    f.inputs, f.outputs = [x], [z]
    path = folder / "net.tflite"
    path.write_bytes(f.written())
    return path


@pytest.fixture(scope="module")
def python() -> str:
    try:
        return os.environ.get("QVERIFY_PYTHON_TFLM") or str(engine_python("tflm"))
    except NoEngine as error:
        pytest.skip(str(error))


def run(models: str, folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    status = main(["-m", models, "-r", "True", "--json", str(report), *words])
    return status, json.loads(report.read_text()) if report.exists() else {}


def pair_of(report: dict[str, Any], a: str, b: str) -> dict[str, Any]:
    return next(dict(p) for p in report["pairs"] if (p["a"], p["b"]) == (a, b))


def test_tensors_have_their_place_in_the_file(tmp_path):
    path = network(tmp_path)
    models = open_models([str(path)])
    assert models.alone is not None
    entries = tensors_by_name(path.read_bytes(), models.alone.converted.tensors, models.graph)
    places = {(e["index"], tuple(e["axes"]), tuple(e["shape"])) for e in entries.values()}
    assert places == {(i, (0, 3, 1, 2), (1, 5, 8, 6)) for i in (0, 3, 4)}
    assert not any(entry.get("real") for entry in entries.values())


def test_a_map_that_does_not_fit_is_refused(tmp_path):
    path = network(tmp_path)
    models = open_models([str(path)])
    assert models.alone is not None
    wrong = {name: {**entry, "tfl": 2} for name, entry in models.alone.converted.tensors.items()}
    quantized = {name: {k: v for k, v in entry.items() if k != "dims"} for name, entry in wrong.items()}
    with pytest.raises(BadFileError, match="the map is wrong"):
        tensors_by_name(path.read_bytes(), quantized, models.graph)


@pytest.mark.engine
def test_a_tflite_alone_is_equal_in_every_bit(tmp_path, python, capsys):
    status, report = run(str(network(tmp_path)), tmp_path, "-b", "local", "--runtime", f"tflm,python={python}")
    out = capsys.readouterr().out
    board = pair_of(report, "reference", "board")
    assert (status, board["verdict"]) == (0, "PASSED")
    assert len(board["tensors"]) == 2 and all(t["bit_equal"] for t in board["tensors"])
    assert "tflm: 2 of 2 nodes ran on TFLM reference kernels" in out and "taps changed the outputs: no" in out


@pytest.mark.engine
def test_a_file_that_does_not_convert_is_held_to_tflms_own_arithmetic(tmp_path, python, capsys):
    """Its FULLY_CONNECTED rounds twice, where each set of LiteRT's kernels rounds in another way."""
    path, _ = not_converted(tmp_path)
    status, report = run(str(path), tmp_path, "-b", "local", "--runtime", f"tflm,python={python}")
    pair = pair_of(report, "reference", "board")
    row = next(t for t in pair["tensors"] if t["name"] == "y")
    assert (status, pair["verdict"], row["bit_equal"]) == (0, "PASSED", False)
    assert row["forced"]["limit"] == "every byte is that of TFLM's arithmetic"
    assert "as other kernels of LiteRT and TFLM's arithmetic round in their own way" in capsys.readouterr().out


@pytest.mark.engine
def test_it_is_a_further_side(tmp_path, python):
    status, report = run(str(network(tmp_path)), tmp_path, "--simulator", f"tflm,python={python}")
    assert status == 0 and pair_of(report, "reference", "tflm")["verdict"] == "PASSED"


@pytest.mark.engine
def test_another_bias_in_the_boards_file_is_blamed_there(tmp_path, python):
    """The quantized ONNX is of the file without the fault; its map says which tensor is which."""
    sound, models = network(tmp_path), tmp_path / "quant.onnx"
    opened = open_models([str(sound)])
    assert opened.alone is not None
    models.write_bytes(opened.alone.converted.onnx)
    Path(f"{models}.map.json").write_text(json.dumps(opened.alone.converted.tensors))
    (tmp_path / "board").mkdir()
    board = network(tmp_path / "board", bias=3000)
    status, report = run(f"{models},{board}", tmp_path, "-b", "local", "--runtime", f"tflm,python={python}")
    assert status == 1 and report["blame"]["side"] == "board" and "conv" in report["blame"]["node"]


@pytest.mark.engine
def test_an_onnx_is_refused_in_one_line(digits, tmp_path, python, capsys):
    run(str(digits / "digits_quant.onnx"), tmp_path, "-b", "local", "--runtime", f"tflm,python={python}")
    assert "ended with status 2: digits_quant.onnx: not a .tflite; wanted X.tflite" in capsys.readouterr().out


@pytest.mark.parametrize("arena", ["10", "1000"])
def test_an_arena_that_is_too_small(
    arena: str, python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TFLM crashes in one that is far too small, which is the child's end alone."""
    words = ["-m", str(network(tmp_path)), "-b", "local", "-r", "False"]
    assert main([*words, "--runtime", f"tflm,python={python},arena={arena}"]) == 3
    out = capsys.readouterr().out
    assert f"arena={arena}: TFLM cannot place this network in so many bytes" in out and "leave arena= out" in out
