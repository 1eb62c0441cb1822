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
from qverify.onnx_model.graph_view import GraphView
from qverify.tensors.spec import TensorSpec
from qverify.triage.clipping import ClippingCount, find_clipping
from qverify.triage.kept_range import find_kept_range

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


def test_the_columns_of_an_image_are_no_channels() -> None:
    value = np.tile(np.linspace(-100, 100, 40).reshape(1, 1, 40, 1), (1, 4, 1, 6))
    value[..., 5] *= 4
    assert all(r.axis in (-1, 1) for r in count(value, spec((1, 4, 40, 6))).worst())
    value = np.tile(np.linspace(-100, 100, 80).reshape(80, 1), (1, 6))
    value[:, 5] *= 4
    assert [(r.axis, r.channel) for r in count(value, spec((80, 6))).worst()] == [(1, 5), (1, 5)]  # both ends


def reads(*nodes: onnx.NodeProto, outputs: tuple[str, ...] = ("y",)) -> GraphView:
    """Returns a float model in which c is read by the nodes."""
    held = {"zero": np.float32(0), "six": np.float32(6), "two": np.float32([1, 2])}
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["c"]), *nodes],
        "made",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2]) for n in outputs],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in held.items()],
    )
    return GraphView(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "m.onnx")


RELU = helper.make_node("Relu", ["c"], ["y"])
RELU6 = helper.make_node("Clip", ["c", "zero", "six"], ["y"])
GATE = helper.make_node("HardSigmoid", ["c"], ["g"], alpha=0.25, beta=0.5)
INF = float("inf")


@pytest.mark.parametrize(
    "nodes, wanted",
    [
        ([RELU], (0, INF)),
        ([RELU6], (0, 6)),
        ([helper.make_node("Clip", ["c", "", "six"], ["y"])], (-INF, 6)),
        ([helper.make_node("Max", ["c", "two"], ["y"])], (1, INF)),
        ([helper.make_node("Min", ["two", "c"], ["y"])], (-INF, 2)),
        ([helper.make_node("Max", ["c", "zero"], ["m"]), helper.make_node("Min", ["m", "six"], ["y"])], (0, 6)),
        ([GATE, helper.make_node("Neg", ["g"], ["y"])], (-2, 2)),
        ([GATE, helper.make_node("Mul", ["c", "g"], ["y"])], (-2, INF)),
        ([helper.make_node("HardSwish", ["c"], ["y"])], (-3, INF)),
        ([RELU6, helper.make_node("Relu", ["c"], ["z"])], (0, INF)),  # the second keeps more
        ([RELU6, helper.make_node("Neg", ["c"], ["z"])], (-INF, INF)),
        ([helper.make_node("LeakyRelu", ["c"], ["y"])], (-INF, INF)),
    ],
)
def test_the_range_that_the_readers_keep(nodes: list[onnx.NodeProto], wanted: tuple[float, float]) -> None:
    assert find_kept_range(reads(*nodes), "c") == wanted


def test_a_final_output_keeps_everything() -> None:
    assert find_kept_range(reads(RELU6, outputs=("c", "y")), "c") == (-INF, INF)


def test_what_the_network_itself_clips_is_no_loss() -> None:
    value = np.tile(np.linspace(-400, 400, 80), (1, 2, 1))
    stored = np.clip(np.rint(value), -128, 127).astype(np.int8)
    for kept, wanted in (((0.0, 127.0), set()), ((0.0, INF), {400}), ((-INF, 127.0), {-400}), ((-128.0, 200.0), {200})):
        counted = ClippingCount(spec((1, 2, 80)), kept)
        counted.add(value.astype(np.float32), stored)
        assert {r.reached for r in counted.worst()} == wanted


def models(folder: Path, factor: float, clip: tuple[float, float] | None = None) -> list[str]:
    """Writes a float model whose output has one channel of large values, a quantized one whose scale of the output is
    multiplied by the factor, and an input. Returns the words of triage. clip: limits of a Clip that comes after."""
    weights = (np.random.default_rng(1).standard_normal((5, 3, 1, 1)) * 0.3).astype(np.float32)
    weights[BOX] = np.float32([10, 0, 0]).reshape(3, 1, 1)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "conv")],
        "made",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("z" if clip else "y", TensorProto.FLOAT, [1, 5, 11, 13])],
        [numpy_helper.from_array(weights, "w")],
    )
    if clip:
        ends = [numpy_helper.from_array(np.float32(v), n) for n, v in zip(("low", "high"), clip, strict=True)]
        graph.initializer.extend(ends)
        graph.node.append(helper.make_node("Clip", ["y", "low", "high"], ["z"], "clip"))
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
    kinds["extra_options"] = {"ActivationSymmetric": clip is not None}  # so that the Clip stays
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


def test_a_clip_that_the_float_network_does_right_after_is_no_finding(tmp_path: Path) -> None:
    words, report = models(tmp_path, 1.0, (-2, 2)), tmp_path / "t.json"
    main([*words, "--json", str(report)])
    triage = json.loads(report.read_text())
    assert triage["findings"] == []
    rows = {r["tensor"]: r for r in triage["losses"]}
    assert rows["y"]["float_high"] > 5 and rows["y"]["high"] < 2.5  # the range is that after the clip
    assert rows["y"]["clipped"] == 0 and rows["y"]["sqnr_db"] > 30


def test_findings_on_random_inputs_say_so(tmp_path: Path) -> None:
    report, words = tmp_path / "t.json", models(tmp_path, 0.3)
    main([*words[:3], "--json", str(report)])
    texts = [f["text"] for f in json.loads(report.read_text())["findings"] if f["kind"] == "clipping"]
    assert texts and all(t.startswith("y: with random inputs, channel") for t in texts)
