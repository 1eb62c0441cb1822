"""Inputs and outputs of float16: they keep their type on every side, and nothing that is wrong about them is PASSED."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
import qverify
from onnx import TensorProto, helper
from qverify.cli.main import main
from qverify.compiler.compile_model import compile_model
from qverify.errors import UnsupportedError, UsageError
from qverify.inputs.random_inputs import random_inputs
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.onnx_model.decompose import decompose
from qverify.onnx_model.load import load
from qverify.session.job import verify
from qverify.session.request import Request

from tests.ops.qdq import Build, Qdq
from tests.plain import float16_networks as networks
from tests.plain.float16_networks import AROUND_HOST, FLOAT, FLOAT16, NETWORKS, built, half_input
from tests.plain.verified_model import verified

OUTPUT = "relu4_dq"  # of quantized_by_halves, which computes it at this node


@pytest.mark.parametrize("build", NETWORKS, ids=lambda b: b.__name__)
def test_verified(build: Build, tmp_path: Path) -> None:
    model = built(build)
    graph = verified(model, tmp_path)
    stated = {v.name: v.type.tensor_type.elem_type for v in [*model.graph.input, *model.graph.output]}
    compiled = {n: helper.np_dtype_to_tensor_dtype(graph.spec(n).numpy_dtype) for n in (*graph.inputs, *graph.outputs)}
    assert compiled == stated and FLOAT16 in stated.values()


@pytest.mark.parametrize("build", AROUND_HOST, ids=lambda b: b.__name__)
def test_around_the_host(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "q.onnx"
    path.write_bytes(built(build).SerializeToString())
    report = verify(Request([str(path)], "local")).report
    assert report.verdict == "PASSED" and report.on_host
    assert all(o["max_abs"] < 0.05 for o in report.plain_onnxruntime["outputs"])


def test_beside_float8(tmp_path: Path) -> None:
    m = Qdq(opset=19)
    parameters = [m.constant("s8", np.float16(0.1)), m.constant("z8", np.zeros((), ml_dtypes.float8_e4m3fn))]
    stored = m.op("QuantizeLinear", [half_input(m, 2, 6), *parameters])
    m.output(m.op("Exp", [networks.by_half(m, m.op("DequantizeLinear", [stored, *parameters]), 0.02)]))
    path = tmp_path / "q.onnx"
    path.write_bytes(m.model().SerializeToString())
    report = verify(Request([str(path)], "local")).report
    assert report.verdict == "PASSED" and len(report.on_host) == 2


def test_one_cast_at_each_end() -> None:
    m = Qdq(opset=19)
    networks.read_by_many(m)
    after = decompose(load(m.model().SerializeToString(), "unit.onnx"), "unit.onnx", {}).model
    casts = [(n.input[0], n.output[0]) for n in after.graph.node if n.op_type == "Cast"]
    assert [(x, y) for x, y in casts if x in m.feed] == [("in0", "cast0")]
    sums = [(x, y) for x, y in casts if "add3" in (x, y)]
    assert sums == [("add3/unrounded", "add3"), ("add3", "add3/float32")]


def test_an_input_that_is_an_output(tmp_path: Path) -> None:
    m = Qdq(opset=19)
    x = half_input(m, 2, 6)
    m.output(networks.by_half(m, x, 0.02))
    m.output(x)
    path = tmp_path / "q.onnx"
    path.write_bytes(m.model().SerializeToString())
    assert verify(Request([str(path)], "local")).report.verdict == "PASSED"


@pytest.fixture
def models(tmp_path: Path) -> str:
    """-m of quantized_by_halves: its ONNX, and its model.bin with padded rows."""
    onnx_path, model_bin = tmp_path / "q.onnx", tmp_path / "q.bin"
    onnx_path.write_bytes(built(networks.quantized_by_halves).SerializeToString())
    assert main(["compile", str(onnx_path), "-o", str(model_bin), "--align", "8"]) == 0
    return f"{onnx_path},{model_bin}"


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(1, 3, 6, 5)).astype(np.float16)


def test_files_of_float16(models: str, values: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "big.npy", values.astype(">f2"))
    np.savez(tmp_path / "x.npz", in0=values)
    values.tofile(tmp_path / "x.bin")
    hashes = set()
    for name in ("x.npy", "big.npy", "x.npz", "x.bin"):
        report = tmp_path / "r.json"
        assert main(["-m", models, "-b", "local", "-i", str(tmp_path / name), "--json", str(report)]) == 0
        found = json.loads(report.read_text())
        hashes.add(found["inputs"][0]["sha256"])
        ends = {t["name"]: t["dtype"] for p in found["pairs"] for t in p["tensors"]}
        assert found["verdict"] == "PASSED" and ends[OUTPUT] == "float16"
    assert len(hashes) == 1


def test_arrays_of_float16(models: str, values: np.ndarray) -> None:
    report = qverify.verify(models.split(","), board="local", inputs=values, keep_tensors=True)
    assert report.passed and report.tensor("board", OUTPUT).dtype == np.float16
    with pytest.raises(UsageError, match=r"float32.*wanted float16.*astype\('float16'\)"):
        qverify.verify(models.split(","), board="local", inputs=values.astype(np.float32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.astype(np.float32), r"float32\[1, 3, 6, 5\].*wanted float16.*astype\('float16'\)"),
        (lambda x: x.view(np.uint16), r"uint16\[1, 3, 6, 5\].*wanted float16"),
        (lambda x: x[..., 1:], r"float16\[1, 3, 6, 4\]"),
        (lambda x: x * np.float16(np.nan), "NaN or infinite"),
        (lambda x: x + np.float16(np.inf), "NaN or infinite"),
    ],
)
def test_other_files(models: str, values: np.ndarray, tmp_path: Path, change: Callable, message: str) -> None:
    graph = compile_model(Path(models.split(",")[0]).read_bytes(), "q.onnx").graph
    np.save(tmp_path / "x.npy", change(values))
    with pytest.raises(UsageError, match=message):
        prepared_inputs(graph, InputRequest(str(tmp_path / "x.npy")))


@pytest.mark.parametrize("bytes_left_out", [2, 1])
def test_a_file_of_another_size(models: str, values: np.ndarray, tmp_path: Path, bytes_left_out: int) -> None:
    graph = compile_model(Path(models.split(",")[0]).read_bytes(), "q.onnx").graph
    (tmp_path / "x.bin").write_bytes(values.tobytes()[:-bytes_left_out])
    with pytest.raises(UsageError, match="wanted 180"):
        prepared_inputs(graph, InputRequest(str(tmp_path / "x.bin")))


@pytest.mark.parametrize("fault", ["bitflip", "nan", "byte_order", "zero_tail", "channel_reverse"])
@pytest.mark.parametrize("node", [OUTPUT, "in0/float32"])
def test_faults_at_the_ends(models: str, fault: str, node: str) -> None:
    report = verify(Request(models.split(","), f"faulty:local?fault={fault}@{node}")).report
    assert report.verdict != "PASSED"
    if report.verdict == "FAILED" and fault != "nan":
        assert report.blame is not None and (report.blame.side, report.blame.node) == ("board", node)


def test_infinite_outputs_are_not_passed(tmp_path: Path) -> None:
    m = Qdq(opset=19)
    m.output(m.op("Cast", [m.op("Mul", [m.input((3, 4)), m.constant("large", np.float32(1e6))])], to=FLOAT16))
    path = tmp_path / "q.onnx"
    path.write_bytes(m.model().SerializeToString())
    assert verify(Request([str(path)], "local")).report.verdict != "PASSED"


def test_captures(models: str, tmp_path: Path) -> None:
    capture = str(tmp_path / "run")
    assert main(["-m", models, "-b", "local", "-s", "True", "-r", "True", "--capture", capture]) == 0
    assert main(["replay", capture]) == 0
    assert main(["report", capture, "--html", str(tmp_path / "page.html")]) == 0


def test_dumps(models: str, tmp_path: Path) -> None:
    for side in ("simulator", "board", "reference"):
        assert main(["infer", "-m", models, "--side", side, "-o", str(tmp_path / side)]) == 0
        assert np.load(tmp_path / side / f"{OUTPUT}.npy").dtype == np.float16
    assert main(["compare", str(tmp_path / "reference"), str(tmp_path / "board"), "-m", models.split(",")[0]]) == 0
    wide = np.load(tmp_path / "board" / f"{OUTPUT}.npy")
    np.save(tmp_path / "board" / f"{OUTPUT}.npy", wide + np.float16(0.5))
    assert main(["compare", str(tmp_path / "reference"), str(tmp_path / "board"), "-m", models.split(",")[0]]) == 1


def test_random_values_stay_within_float16() -> None:
    m = Qdq(opset=19)
    x = m.op("Cast", [half_input(m, 4, 50)], to=FLOAT)
    m.output(m.pair(x, np.float32(1e4), np.array(128, "uint8")))
    graph = compile_model(m.model().SerializeToString(), "q.onnx").graph
    (drawn,) = random_inputs(graph, 0).arrays().values()
    assert drawn.dtype == np.float16 and np.isfinite(drawn).all() and np.abs(drawn).max() == 65504


def test_pictures_become_float16(tmp_path: Path) -> None:
    m = Qdq(opset=19)
    m.output(networks.by_half(m, half_input(m, 1, 3, 8, 10), 1.0))
    graph = compile_model(m.model().SerializeToString(), "q.onnx").graph
    pixels = np.random.default_rng(0).integers(0, 256, (8, 10, 3), np.uint8)
    np.save(tmp_path / "x.npy", pixels)
    table = {"format": "featuremap", "size": [10, 8], "train": "rgb", "mean": [7.0] * 3, "scale": [0.3] * 3}
    (given,) = prepared_inputs(graph, InputRequest(str(tmp_path / "x.npy"), tables={"": table})).arrays().values()
    real = (pixels.astype(np.float32) - np.float32(7)) * np.float32(0.3)
    assert np.array_equal(given, real.transpose(2, 0, 1)[None].astype(np.float16))
    with pytest.raises(UsageError, match="NaN or infinite"):
        prepared_inputs(graph, InputRequest(str(tmp_path / "x.npy"), tables={"": {**table, "scale": [1e4] * 3}}))


def test_bfloat16_is_refused_by_name() -> None:
    m = Qdq()
    m.output(m.op("Relu", [m.input((2, 3))]))
    model = m.model()
    model.graph.input.append(helper.make_tensor_value_info("x", TensorProto.BFLOAT16, (2, 3)))
    model.graph.node.append(onnx.helper.make_node("Cast", ["x"], ["y"], "cast", to=FLOAT))
    model.graph.output.append(helper.make_tensor_value_info("y", FLOAT, (2, 3)))
    with pytest.raises(UnsupportedError, match=r"the graph's input 'x' is bfloat16. Make it float32"):
        compile_model(model.SerializeToString(), "unit.onnx")
