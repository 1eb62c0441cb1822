"""Clipped channels are findings whatever the gate from float, and fail a final output."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from qverify.cli.main import main
from qverify.tensors.spec import TensorSpec
from qverify.triage.clipping import ClippingCount, find_clipping

BOX, SHAPE = 2, [1, 3, 11, 13]


def spec(shape: tuple[int, ...], scale: tuple[float, ...] = (1.0,), axis: int = -1) -> TensorSpec:
    return TensorSpec("y", "int8", shape, scale=scale, zero_point=(0,) * len(scale), channel_axis=axis)


def count(value: np.ndarray, held: TensorSpec) -> ClippingCount:
    counted = ClippingCount(held)
    scale = np.array(held.scale).reshape([-1 if a == held.channel_axis else 1 for a in range(value.ndim)])
    counted.add(value.astype(np.float32), np.clip(np.rint(value / scale), -128, 127).astype(np.int8))
    return counted


def test_the_clipped_channel_of_the_axis_that_separates_it() -> None:
    value = np.tile(np.linspace(-100, 100, 40), (1, 6, 1))
    assert count(value, spec((1, 6, 40))).worst() == []
    value[0, 4] = np.linspace(0, 400, 40)
    rows = count(value, spec((1, 6, 40))).worst()
    assert [(r.axis, r.channel, r.limit, r.reached) for r in rows] == [(1, 4, 127.0, 400.0)]
    assert rows[0].share == pytest.approx(27 / 40)
    turned = count(np.ascontiguousarray(value.transpose(0, 2, 1)), spec((1, 40, 6))).worst()
    assert [(r.axis, r.channel) for r in turned] == [(2, 4)]
    found = find_clipping([("a", []), ("y", rows)])
    assert found[0].kind == "clipping" and found[0].text == (
        "y: channel 4 of axis 1: 68% of the elements are clipped at 127, the float model goes to 400, 32% of it"
    )


def test_the_lower_end_and_scales_by_channel() -> None:
    value = np.tile(np.linspace(-200, 100, 80), (1, 2, 1))
    rows = count(value, spec((1, 2, 80), (1.0, 2.0), 1)).worst()
    assert [(r.axis, r.channel, r.limit, r.reached) for r in rows] == [(1, 0, -128.0, -200.0)]


def test_few_elements_a_slight_clip_and_a_relu_are_none() -> None:
    value = np.zeros((1, 2, 40))
    value[0, 1, :15] = 300
    assert count(value, spec((1, 2, 40))).worst() == []  # 15 elements
    value[0, 1] = 133
    assert count(value, spec((1, 2, 40))).worst() == []  # less than a sixteenth of the range
    held = TensorSpec("y", "int8", (1, 2, 40), scale=(1.0,), zero_point=(-128,))
    counted = ClippingCount(held)
    counted.add(np.full((1, 2, 40), -90.0, np.float32), np.full((1, 2, 40), -128, np.int8))
    assert counted.worst() == []  # the range begins at 0


def models(folder: Path, factor: float) -> list[str]:
    """Writes a float model whose output has one channel of large values, a quantized one whose scale of the output is
    multiplied by the factor, and an input. Returns the words of triage."""
    weights = (np.random.default_rng(1).standard_normal((5, 3, 1, 1)) * 0.3).astype(np.float32)
    weights[BOX] = np.float32([10, 0, 0]).reshape(3, 1, 1)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "conv")],
        "made",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5, 11, 13])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, folder / "float.onnx")
    made = np.random.default_rng(2)
    fed = [made.uniform(0, 1, SHAPE).astype(np.float32) for _ in range(4)]

    class Reader:
        rows = iter([{"x": one} for one in fed])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.rows, None)

    kinds = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    quantize_static(folder / "float.onnx", folder / "q.onnx", Reader(), quant_format=QuantFormat.QDQ, **kinds)
    changed = onnx.load(folder / "q.onnx")
    for held in changed.graph.initializer:
        if held.name == "y_scale":
            held.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held) * np.float32(factor), held.name))
    onnx.save(changed, folder / "q.onnx")
    np.save(folder / "x.npy", fed[0])
    return ["triage", "-m", f"{folder / 'float.onnx'},{folder / 'q.onnx'}", "-i", str(folder / "x.npy")]


def test_a_box_branch_that_is_clipped_to_half_is_not_passed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "t.json"
    assert main([*models(tmp_path, 0.47), "--json", str(report)]) == 1
    triage = json.loads(report.read_text())
    assert triage["broken"] == "float ~ reference" and triage["rungs"][0]["kind"] == "clipped_output"
    assert triage["rungs"][0]["outputs"][0]["cosine"] > 0.7  # the gate passes
    assert [(f["kind"], f["tensor"]) for f in triage["findings"]] == [("clipping", "y")]
    text = triage["findings"][0]["text"]
    assert text.startswith(f"y: channel {BOX} of axis 1: ") and "48% of it" in text
    out = capsys.readouterr().out
    assert "next step: recalibrate y with data like these inputs: y: channel 2" in out and f"found: {text}" in out


def test_a_calibrated_output_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "t.json"
    assert main([*models(tmp_path, 1.0), "--json", str(report)]) == 0
    assert json.loads(report.read_text())["findings"] == []
