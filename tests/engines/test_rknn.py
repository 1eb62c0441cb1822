"""Rockchip's toolkit as a further side, in a virtual environment of its own, and its driver without the toolkit."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.cli.main import main

PYTHON = os.environ.get("QVERIFY_PYTHON_RKNN", "")
DRIVERS = Path(__file__).resolve().parents[2] / "agents" / "qverify_drivers"
needs_toolkit = pytest.mark.skipif(
    not PYTHON, reason="needs an interpreter with rknn-toolkit2 2.5.0 and torch in QVERIFY_PYTHON_RKNN"
)
Array = npt.NDArray[Any]


@pytest.fixture(scope="module")
def driver() -> ModuleType:
    """Returns the driver's module, which finds drive.py beside itself."""
    sys.path.insert(0, str(DRIVERS))
    try:
        return importlib.import_module("drive_rknn")
    finally:
        sys.path.remove(str(DRIVERS))


def float_model() -> bytes:
    """Returns a float network: Conv, Relu, Conv, Add of both, mean over 8x8, Gemm, Softmax."""
    rng = np.random.default_rng(7)
    weights = {
        "a_w": rng.normal(0, 0.4, (8, 3, 3, 3)),
        "a_b": rng.normal(0, 0.2, 8),
        "c_w": rng.normal(0, 0.3, (8, 8, 1, 1)),
        "c_b": rng.normal(0, 0.2, 8),
        "w": rng.normal(0, 0.3, (5, 8)),
        "b": rng.normal(0, 0.2, 5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "a_w", "a_b"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p", "c_w", "c_b"], ["c"]),
        helper.make_node("Relu", ["c"], ["cr"]),
        helper.make_node("Add", ["p", "cr"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["m"], transB=1),
        helper.make_node("Softmax", ["m"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made).SerializeToString()


@needs_toolkit
def test_the_toolkits_own_quantization_is_the_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(3)
    model, x, report = tmp_path / "net.onnx", tmp_path / "x.npy", tmp_path / "report.json"
    model.write_bytes(float_model())
    np.save(x, rng.normal(0, 1, (1, 3, 16, 16)).astype(np.float32))
    (tmp_path / "calibration").mkdir()
    for k in range(4):
        np.save(tmp_path / "calibration" / f"{k}.npy", rng.normal(0, 1, (1, 3, 16, 16)).astype(np.float32))
    cache = tmp_path / "cache"
    engine = f"rknn,python={PYTHON},cache={cache},calibration={tmp_path / 'calibration'}"
    quantized = tmp_path / "quantized.onnx"
    assert main(["quantize", str(model), "-i", str(x), "-o", str(quantized)]) == 0
    # without the toolkit's statement there is nothing to hold it to: a QDQ ONNX gives final outputs only
    main(["-m", str(quantized), "-s", f"rknn,python={PYTHON}", "-i", str(x), "--json", str(report)])
    assert "the toolkit's simulator gives the final outputs only" in capsys.readouterr().out
    request = tmp_path / "request.json"
    content = {"model": str(model), "inputs": [{"name": "x", "npy": str(x)}], "outputs": ["y"], "taps": [], "files": {}}
    options = {"cache": [str(cache)], "calibration": [str(tmp_path / "calibration")]}
    (tmp_path / "out").mkdir()
    request.write_text(json.dumps({**content, "out": str(tmp_path / "out"), "options": options}))

    ran = subprocess.run(
        [PYTHON, str(DRIVERS / "drive.py"), "rknn", str(request)], cwd=tmp_path, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()[-500:]
    first = next(cache.glob("*/model.quantization.cfg"))
    words = [
        "-m",
        str(model),
        "--quantization",
        str(first),
        "-s",
        engine.split(",cache")[0],
        "-i",
        str(x),
        "-r",
        "True",
    ]
    assert main([*words, "--json", str(report)]) == 0
    written = json.loads(report.read_text())
    pair = next(p for p in written["pairs"] if p["b"].startswith("rknn"))
    assert pair["verdict"] == "PASSED" and not pair["coverage"]["missing"]
    integers = [r for r in pair["tensors"] if r["dtype"] == "int8"]
    assert len(integers) >= 5 and all(r["bit_equal"] for r in integers)


@needs_toolkit
def test_what_the_toolkit_does_not_take_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(float_model())
    assert main(["quantize", str(model), "-i", _saved(tmp_path), "-o", str(tmp_path / "q.onnx")]) == 0
    engine = f"rknn,python={PYTHON},target=rk0"
    assert main(["-m", str(tmp_path / "q.onnx"), "-s", engine, "-i", str(tmp_path / "x.npy")]) == 3
    printed = capsys.readouterr().out
    assert "rknn-toolkit2: " in printed and "rk0" in printed and "Traceback" not in printed


def _saved(folder: Path) -> str:
    np.save(folder / "x.npy", np.random.default_rng(3).normal(0, 1, (1, 3, 16, 16)).astype(np.float32))
    return str(folder / "x.npy")


def toolkit(driver: ModuleType, wanted: list[str], steps: dict[str, tuple[float, int]]) -> Any:
    """Returns the driver's object as it is after a run."""
    made = object.__new__(driver._Toolkit)
    made.model, made.steps, made.notes, made.placed, made.target = (
        onnx.load_from_string(float_model()),
        steps,
        [],
        [],
        "rk3588",
    )
    made.request = driver.Request("net.onnx", {}, ["y"], wanted, ".", {}, {})
    return made


def test_tensors_have_the_names_of_the_request(driver: ModuleType) -> None:
    codes = np.arange(-4, 4).reshape(1, 8, 1, 1)
    real = (codes + 128).astype(np.float32) * np.float32(0.03)
    rows = [
        ("x", "x", np.ones((1, 3, 16, 16), np.float32)),
        ("x_int8", "x_int8", np.zeros((1, 3, 16, 16), np.float32)),
        ("g_2conv0", "g_2conv0", np.ones((1, 8, 2, 2), np.float32)),
        ("g", "g", real),
        ("m_mm", "m_mm", np.full((1, 5, 1, 1), 0.5, np.float32)),
        ("y-rs", "y-rs", np.ones((1, 5, 1, 1), np.float32)),
        ("y", "y", np.zeros((1, 5), np.float32)),
    ]
    wanted = [f"{n}_QuantizeLinear_Output" for n in ("x", "g", "m")]
    steps = {"x_int8": (0.1, 0), "g": (0.03, -128), "m_mm": (0.3, 0)}
    found = dict(toolkit(driver, wanted, steps).named(rows))
    assert found["x_QuantizeLinear_Output"].dtype == np.int8
    assert np.array_equal(found["g_QuantizeLinear_Output"], codes.astype(np.int8))
    assert found["m_DequantizeLinear_Output"].shape == (1, 5)  # 0.5 is no multiple of 0.3: it is within a fused group
    assert np.array_equal(found["y"], np.zeros((1, 5)))
    assert "y-rs" in found and "g_2conv0" in found


def test_names_of_the_map_may_contain_blanks(driver: ModuleType, tmp_path: Path) -> None:
    head, row = "layer_name".ljust(30) + "file_name".ljust(30), "wide name".ljust(30) + "wide name.txt".ljust(30)
    (tmp_path / "map").write_text("\n".join([head, "-" * 60, row, ""]))
    assert driver._map(str(tmp_path / "map")) == [("wide name", "wide name")]


def test_codes_are_exact_or_none(driver: ModuleType) -> None:
    real = (np.arange(5) + 128).astype(np.float32) * np.float32(0.1)
    assert driver._codes(real, (0.1, -128)).tolist() == [0, 1, 2, 3, 4]
    assert driver._codes(real + np.float32(1e-3), (0.1, -128)) is None
    assert driver._codes(real * 9, (0.1, -128)) is None and driver._codes(real, None) is None
    assert driver._codes(np.full(3, np.nan, np.float32), (0.1, -128)) is None


def test_success_is_what_calls_return(driver: ModuleType, tmp_path: Path) -> None:
    made = toolkit(driver, [], {})
    made.work = str(tmp_path)
    (tmp_path / driver.LOG).write_text("\x1b[31mE RKNN: Unkown op target: 0\x1b[0m\nI done\n")
    made._check("build", 0)  # lines of a good build begin with E, too
    with pytest.raises(driver.Refused, match="build returned -1: E RKNN: Unkown op target: 0"):
        made._check("build", -1)


@needs_toolkit
def test_the_toolkit_quantizes_and_is_held_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One command builds; its files and its quantized ONNX are then used as the documentation says."""
    rng = np.random.default_rng(3)
    model, x, made = tmp_path / "net.onnx", tmp_path / "x.npy", tmp_path / "quant.onnx"
    model.write_bytes(float_model())
    np.save(x, rng.normal(0, 1, (1, 3, 16, 16)).astype(np.float32))
    (tmp_path / "calibration").mkdir()
    np.save(tmp_path / "calibration" / "0.npy", rng.normal(0, 1, (1, 3, 16, 16)).astype(np.float32))
    engine = f"rknn,python={PYTHON}"
    words = ["quantize", str(model), "--with", f"{engine},calibration={tmp_path / 'calibration'}", "-i", str(x)]
    assert main([*words, "-o", str(made)]) == 0
    assert "weights int8" in capsys.readouterr().out
    assert sum(node.op_type == "QuantizeLinear" for node in onnx.load(made).graph.node) > 4
    (stated,) = (tmp_path / "quant.onnx.toolkit").glob("*/model.quantization.cfg")
    words = ["-m", str(model), "--quantization", str(stated), "-b", "local", "--runtime", engine, "-i", str(x)]
    assert main([*words, "-r", "True"]) == 0
    assert main(["quantize", str(model), "--with", engine, "-i", str(x), "-o", str(made)]) == 2
    assert "quant.onnx.toolkit: has files, perhaps of another build" in capsys.readouterr().err
