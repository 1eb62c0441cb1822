"""Runners that write real values under the names of the ONNX's dequantized tensors: they are the quantized tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from qverify.model_bin.graph import Graph, Node
from qverify.onnx_model.dequantized_names import OnnxNames, dequantized_names
from qverify.sides.runner_recording import read_folder
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec
from qverify.tensors.spool import Spool
from qverify.vendor_files.vendor_dump import ReadingOptions

NAMES = {"y_dq": "y_q", "y_dq2": "y_q"}
REAL = np.array([[0.5, -0.25]], np.float32)


def _graph() -> Graph:
    def spec(name: str) -> TensorSpec:
        return TensorSpec(name, "int8", (1, 2), scale=(0.25,), zero_point=(3,))

    nodes = [Node("y_q", "reshape", ("x",), ("y_q",)), Node("z_q", "reshape", ("y_q",), ("z_q",))]
    return Graph(nodes, {n: spec(n) for n in ("x", "y_q", "z_q")}, {}, ("x",), ("z_q",))


def _read(folder: Path) -> Recording:
    np.save(folder / "z_q.npy", np.array([[5, 2]], np.int8))
    return read_folder(
        str(folder), "", ReadingOptions(), _graph(), "", Spool(), True, OnnxNames(NAMES, frozenset({"conv"}))
    )


def test_dequantized_names_are_the_quantized_tensors(tmp_path: Path) -> None:
    np.save(tmp_path / "y_dq.npy", REAL)
    recording = _read(tmp_path)
    assert np.array_equal(recording.tensors["y_q"], REAL) and recording.specs["y_q"].dtype == "float32"
    assert "per_node" in recording.capabilities and not recording.missing
    assert not any("does not have" in note for note in recording.notes)


def test_forms_that_agree_are_one_tensor(tmp_path: Path) -> None:
    np.save(tmp_path / "y_dq.npy", REAL)
    np.save(tmp_path / "y_q.npy", np.array([[5, 2]], np.int8))
    recording = _read(tmp_path)
    assert not recording.missing and recording.tensors["y_q"].tolist() == [[5, 2]]
    assert recording.specs["y_q"].dtype == "int8"


def test_forms_that_contradict_each_other_are_missing(tmp_path: Path) -> None:
    np.save(tmp_path / "y_dq.npy", REAL)
    np.save(tmp_path / "y_q.npy", np.array([[0, 0]], np.int8))
    recording = _read(tmp_path)
    assert recording.missing == {"y_q": "its values in several files contradict each other: y_q, y_dq; keep one"}
    assert "y_q" not in recording.tensors


def test_real_values_that_contradict_each_other_are_missing(tmp_path: Path) -> None:
    np.save(tmp_path / "y_dq.npy", REAL)
    np.save(tmp_path / "y_dq2.npy", REAL + 1)
    recording = _read(tmp_path)
    assert recording.missing == {"y_q": "its values in several files contradict each other: y_dq, y_dq2; keep one"}
    assert "y_q" not in recording.tensors


def test_a_tensor_inside_a_node_of_the_integer_form_is_known(tmp_path: Path) -> None:
    np.save(tmp_path / "conv.npy", REAL)
    np.save(tmp_path / "stranger.npy", REAL)
    notes = _read(tmp_path).notes
    assert "not compared, because the integer form computes them inside a node: conv" in notes
    assert "files of names that the model does not have, not compared: stranger" in notes


def test_names_of_the_packaged_example(digits: Path) -> None:
    names = dequantized_names((digits / "digits_quant.onnx").read_bytes())
    assert names["relu1_DequantizeLinear_Output"] == "relu1_QuantizeLinear_Output"
    assert names["prob"] == names["prob_DequantizeLinear_Output"] == "prob_QuantizeLinear_Output"
    assert not any("weight" in stored or stored.endswith("_quantized") for stored in names.values())
