"""A detector of a .tflite that ends with TFLite_Detection_PostProcess: everything before it is verified, and what it makes is
computed on the host."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

from tests.plain.test_tflite_islands import LABEL
from tests.tflite_files import File, schema

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
SIDE, CLASSES, FOUND = 4, 3, 5
KIND = "CUSTOM TFLite_Detection_PostProcess"


def head(f: File, x: int, name: str, channels: int, dtype: str) -> int:
    """Adds a 1x1 CONV_2D, and its result in rows, one for each place."""
    zero = 128 if dtype == "uint8" else 0
    rng = np.random.default_rng(channels)
    w = f.tensor(
        f"{name}_w", [channels, 1, 1, 8], dtype, 0.02, zero, zero + rng.integers(-127, 128, (channels, 1, 1, 8))
    )
    y, rows = (
        f.tensor(f"{name}{k}", s, dtype, 0.05, zero + 2)
        for k, s in (("", [1, SIDE, SIDE, channels]), ("_rows", [1, SIDE**2, channels]))
    )
    dims = f.tensor(f"{name}_dims", [3], "int32", None, value=np.array([1, SIDE**2, channels]))
    how = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1, "padding": 1}
    bias = f.tensor(f"{name}_b", [channels], "int32", 0.04 * 0.02, 0, rng.integers(-500, 500, channels))
    f.operator("CONV_2D", [x, w, bias], [y], "Conv2DOptions", **how)
    f.operator("RESHAPE", [y, dims], [rows], "ReshapeOptions", newShape=[1, SIDE**2, channels])
    return rows


def detector(dtype: str = "int8", floats: bool = True, stated: bool = True, regular: bool = False) -> bytes:
    """Returns a detector. floats: whether boxes and scores are dequantized before. stated: whether the file states the dims of what it
    finds."""
    from flatbuffers import flexbuffers
    from qverify.tflite_model.interpreter import open_object, pack_object

    f, zero = File(), 128 if dtype == "uint8" else 0
    x = f.tensor("x", [1, SIDE, SIDE, 8], dtype, 0.04, zero + 1)
    boxes, logits = head(f, x, "boxes", 4, dtype), head(f, x, "logits", CLASSES + 1, dtype)
    scores = f.tensor("scores", [1, SIDE**2, CLASSES + 1], dtype, 1 / 256, zero - 128)
    f.operator("LOGISTIC", [logits], [scores])
    given = [boxes, scores]
    if floats:
        for k, name in enumerate(("real_boxes", "real_scores")):
            given[k] = f.tensor(name, f.tensors[given[k]].shape, "float32", None)
            f.operator("DEQUANTIZE", [(boxes, scores)[k]], [given[k]])
    places = (np.arange(SIDE) + 0.5) / SIDE
    grid = np.stack(np.meshgrid(places, places, indexing="ij"), -1).reshape(-1, 2)
    anchors = np.concatenate([grid, np.full((SIDE**2, 2), 0.3)], 1)
    fixed = f.tensor("anchors", [SIDE**2, 4], "float32", None, value=anchors)
    dims = ([1, FOUND, 4], [1, FOUND], [1, FOUND], [1])
    names = ("locations", "classes", "likely", "number")
    made = [f.tensor(n, s if stated else [], "float32", None) for n, s in zip(names, dims, strict=True)]
    f.operator("CUSTOM:TFLite_Detection_PostProcess", [*given, fixed], made)
    f.inputs, f.outputs = [x], made
    source, options = open_object(schema(), f.written()), flexbuffers.Builder()
    with options.Map():
        for key, number in (
            ("max_detections", FOUND),
            ("max_classes_per_detection", 1),
            ("num_classes", CLASSES),
            ("detections_per_class", 10),
        ):
            options.Int(key, number)
        for key, value in (
            ("nms_score_threshold", 0.3),
            ("nms_iou_threshold", 0.5),
            ("y_scale", 10.0),
            ("x_scale", 10.0),
            ("h_scale", 5.0),
            ("w_scale", 5.0),
        ):
            options.Float(key, value)
        options.Bool("use_regular_nms", regular)
    source.subgraphs[0].operators[-1].customOptions = np.frombuffer(bytes(options.Finish()), np.uint8)
    return bytes(pack_object(source))


@pytest.mark.parametrize(
    ("dtype", "floats", "stated", "regular"),
    [("int8", True, True, False), ("int8", True, False, True), ("uint8", False, False, False)],
)
def test_all_before_the_boxes_are_chosen_is_verified(
    dtype: str, floats: bool, stated: bool, regular: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path, report = tmp_path / "m.tflite", tmp_path / "r.json"
    path.write_bytes(detector(dtype, floats, stated, regular))
    words = ["-m", str(path), "-b", "local", "-r", "True", "--json", str(report)]
    assert main(words) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "Strict check" in line]
    said = json.loads(report.read_text())
    assert len(lines) == 3 and all("PASSED" in line and LABEL in line for line in lines)
    assert [n["op"] for n in said["on_host"]] == [KIND]
    assert {t["name"] for t in said["pairs"][0]["tensors"]} >= {"boxes", "logits", "scores"}
    assert main(["-m", str(path), "-b", "faulty:local?fault=plus_one@scores", "-r", "True"]) == 1
    assert "blame: board at scores" in capsys.readouterr().out
    assert main([*words, "--runtime", "litert"]) == 0
