"""tpu-mlir as the board: its integers against the quantized ONNX that is written from its own text."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.cli.main import main
from qverify.vendor_quantization.sophgo import write_quantized

PYTHON = os.environ.get("QVERIFY_PYTHON_SOPHGO", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="QVERIFY_PYTHON_SOPHGO names no CPython 3.10 with tpu-mlir")
CHIPS = ("bm1684x", "cv181x")


def float_network() -> onnx.ModelProto:
    """Returns two convolutions, one of them with an activation, whose results are added, a mean and a matrix product."""
    rng = np.random.default_rng(7)

    def constant(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.normal(0, 0.4, shape).astype(np.float32), name)

    constants = [constant("wa", 8, 3, 3, 3), constant("ba", 8), constant("wb", 8, 8, 1, 1), constant("bb", 8)]
    constants += [constant("wc", 5, 8), constant("bc", 5)]
    nodes = [
        helper.make_node("Conv", ["x", "wa", "ba"], ["a0"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a0"], ["a"]),
        helper.make_node("Conv", ["a", "wb", "bb"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "wc", "bc"], ["y"], transB=1),
    ]
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, s)] for n, s in (("x", [1, 3, 8, 8]), ("y", [1, 5]))]
    graph = helper.make_graph(nodes, "small", *ends, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def float_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes the float network, an input and inputs for the calibration. Builds are kept beside it."""
    folder = tmp_path_factory.mktemp("sophgo")
    (folder / "float.onnx").write_bytes(float_network().SerializeToString())
    (folder / "calibration").mkdir()
    rng = np.random.default_rng(1)
    for k in range(4):
        np.savez(folder / "calibration" / f"{k}.npz", x=rng.normal(0, 1, (1, 3, 8, 8)).astype(np.float32))
    np.save(folder / "x.npy", rng.normal(0, 1, (1, 3, 8, 8)).astype(np.float32))
    return folder / "float.onnx"


def engine(float_file: Path, chip: str) -> str:
    folder = float_file.parent
    options = {"python": PYTHON, "float": float_file, "chip": chip, "calibration": folder / "calibration"}
    return ",".join(["sophgo", *(f"{k}={v}" for k, v in options.items()), f"cache={folder / chip}"])


def verify(float_file: Path, chip: str, model: Path, report: Path) -> dict[str, Any]:
    given = ["-i", f"x:{float_file.parent / 'x.npy'}", "--timeout", "600", "--json", str(report)]
    words = ["-m", str(model), "-b", "local", "--runtime", engine(float_file, chip), "-r", "True"]
    status = main([*words, "--arithmetic", f"sophgo-{chip}", *given])
    return {**json.loads(report.read_text()), "status": status}


@pytest.fixture(scope="module", params=CHIPS)
def quantized(request: pytest.FixtureRequest, float_file: Path) -> tuple[str, Path]:
    """Builds the network with the toolkit, and writes the quantized ONNX of its text; returns the chip and the file."""
    chip, folder = str(request.param), float_file.parent
    placeholder = folder / "any.onnx"  # the first run only builds: nothing states the toolkit's scales yet
    main(["quantize", str(float_file), "-i", str(folder / "calibration"), "-o", str(placeholder)])
    verify(float_file, chip, placeholder, folder / "first.json")
    (build,) = (folder / chip).iterdir()
    files = [*build.glob("*_tpu.mlir"), *build.glob("*_tpu_weights.npz")]
    made = write_quantized(float_file.read_bytes(), {f.name: f.read_bytes() for f in files})
    assert made.arithmetic == f"sophgo-{chip}" and not any("weights are quantized here" in c for c in made.changes)
    path = folder / f"{chip}.onnx"
    path.write_bytes(made.onnx)
    return chip, path


def test_every_integer_is_the_simulators(quantized: tuple[str, Path], float_file: Path, tmp_path: Path) -> None:
    chip, path = quantized
    report = verify(float_file, chip, path, tmp_path / "r.json")
    (pair,) = [p for p in report["pairs"] if p["a"] == "simulator"]
    assert pair["coverage"]["compared"] == pair["coverage"]["expected"] > 5
    assert report["status"] == 0 and report["verdict"] == "PASSED" and pair["bit_equal"]
    board = next(s for s in report["sides"] if s["name"] == "board")
    assert board["engine"] == "tpu-mlir" and board["ledger"]["chip"] == chip


def test_weights_of_another_file_are_found_and_located(
    quantized: tuple[str, Path], float_file: Path, tmp_path: Path
) -> None:
    chip, path = quantized
    model = onnx.load(path)
    stored = next(t for t in model.graph.initializer if t.name.endswith("wb_quantized"))
    stored.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(stored)[::-1].copy(), stored.name))
    (tmp_path / "altered.onnx").write_bytes(model.SerializeToString())
    report = verify(float_file, chip, tmp_path / "altered.onnx", tmp_path / "r.json")
    assert report["status"] == 1 and report["verdict"] == "FAILED"
    assert {b["node"] for b in report["blamed"]} == {"b_QuantizeLinear_Output"}


def test_what_it_does_not_take_is_one_line(
    float_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placeholder = float_file.parent / "refused.onnx"
    main(["quantize", str(float_file), "-i", str(float_file.parent / "calibration"), "-o", str(placeholder)])
    for option, why in (
        ("chip=none", "model_deploy ended with status"),
        ("float=/nowhere.onnx", "float=/nowhere.onnx: no such file"),
        ("calibration=/nowhere", "calibration=/nowhere: neither a file nor a folder"),
    ):
        words = ["-m", str(placeholder), "-b", "local", "--runtime", f"{engine(float_file, 'bm1684x')}-x"]
        capsys.readouterr()
        assert main([*words, "--runner-option", option, "--timeout", "600"]) == 3
        assert why in capsys.readouterr().out
