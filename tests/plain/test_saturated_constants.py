"""Constants that an exporter saturated are named by compile and by triage."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.cli.main import main
from qverify.onnx_model.graph_view import GraphView
from qverify.onnx_model.saturated_constants import find_saturated
from qverify.triage.clipping import describe_clipped_weights

CHANNELS, DEAD = 4, np.float32(2.0**-23)


def weights() -> np.ndarray:
    """Int8 weights of 4 channels that an honest quantizer would give."""
    value = np.random.default_rng(1).integers(-100, 101, (CHANNELS, 3, 3, 3)).astype(np.int8)
    value.reshape(CHANNELS, -1)[:, 0] = 127
    return value


def model(
    held: np.ndarray | None = None,
    scales: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    floats: np.ndarray | None = None,
) -> onnx.ModelProto:
    """A convolution in QDQ form. floats: float weights with a QuantizeLinear of their own instead of integers."""
    held = weights() if held is None else held
    scales = np.full(CHANNELS, 0.01, np.float32) if scales is None else scales
    bias = np.zeros(CHANNELS, np.int32) if bias is None else bias
    values = {
        "sx": np.float32(0.02), "zx": np.int8(0), "sw": scales, "zw": np.zeros(CHANNELS, np.int8), "sy": np.float32(0.1),
        "b_q": bias, "sb": (np.float32(0.02) * scales).astype(np.float32), "zb": np.zeros(CHANNELS, np.int32),
    }  # fmt: skip
    values |= {"w": floats} if floats is not None else {"w_q": held}
    quantized = (
        [helper.make_node("QuantizeLinear", ["w", "sw", "zw"], ["w_q"], "qw", axis=0)] if floats is not None else []
    )
    nodes = [
        *quantized,
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["x_q"], "qx"),
        helper.make_node("DequantizeLinear", ["x_q", "sx", "zx"], ["x_d"], "dx"),
        helper.make_node("DequantizeLinear", ["w_q", "sw", "zw"], ["w_d"], "dw", axis=0),
        helper.make_node("DequantizeLinear", ["b_q", "sb", "zb"], ["b_d"], "db", axis=0),
        helper.make_node("Conv", ["x_d", "w_d", "b_d"], ["c"], "conv"),
        helper.make_node("QuantizeLinear", ["c", "sy", "zx"], ["y_q"], "qy"),
        helper.make_node("DequantizeLinear", ["y_q", "sy", "zx"], ["y"], "dy"),
    ]
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, CHANNELS, 6, 6])],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in values.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made


def facts(**changed: np.ndarray) -> list[tuple[str, str]]:
    return find_saturated(GraphView(model(**changed), "m.onnx"))


def saturated_bias() -> np.ndarray:
    return np.array([5, 2**31 - 1, -(2**31), 0], np.int32)


def test_an_honest_model_has_none() -> None:
    assert facts() == []
    assert facts(floats=weights().astype(np.float32) * np.float32(0.01)) == []
    assert facts(held=np.where(weights() > 0, 127, -127).astype(np.int8)) == []  # a binary network


def test_a_bias_at_the_limit() -> None:
    assert facts(bias=saturated_bias()) == [
        (
            "b_q",
            "b_q: 2 of 4 biases lie at the limit of int32 (channels 1, 2): the exporter saturated them; a larger scale of these "
            "channels' weights mends it",
        )
    ]


def test_a_dead_channel_is_a_fact_only_if_its_bias_does_not_fit() -> None:
    scales = np.array([0.01, 0.01, DEAD, 0.01], np.float32)
    assert facts(scales=scales) == []
    assert facts(scales=scales, bias=np.array([5, 5, 2**31 - 1000, 0], np.int32)) == []
    for unfit in (2**31 - 1, -(2**31)):
        names = facts(scales=scales, bias=np.array([5, 5, unfit, 0], np.int32))
        assert [n for n, _ in names] == ["b_q", "w_q"]
        assert names[1][1] == (
            "w_q: the scale of 1 of 4 channels is 2^-23 or less (channel 2): a dead channel, whose bias does not fit int32"
        )


def test_a_float_bias_of_a_dead_channel_is_measured_in_its_steps() -> None:
    scales = np.array([0.01, DEAD, DEAD, 0.01], np.float32)
    for value, unfit in ((1.0, False), (6.0, True)):  # the limit is 2^31 * 0.02 * 2^-23 = 5.12
        made = model(scales=scales)
        del made.graph.node[3]
        made.graph.initializer.append(numpy_helper.from_array(np.full(CHANNELS, value, np.float32), "b_d"))
        found = find_saturated(GraphView(made, "m.onnx"))
        assert [t for _, t in found] == (
            [
                "w_q: the scale of 2 of 4 channels is 2^-23 or less (channels 1, 2): dead channels, whose biases do not fit int32"
            ]
            if unfit
            else []
        )


def test_several_constants_with_dead_channels_are_one_fact() -> None:
    made = model(scales=np.array([0.01, 0.01, DEAD, 0.01], np.float32), bias=np.array([5, 5, 2**31 - 1, 0], np.int32))
    for at, node in [(at, n) for at in "12" for n in (made.graph.node[2], made.graph.node[4])]:
        copy = made.graph.node.add()
        copy.CopyFrom(node)
        copy.name, copy.output[0] = node.name + at, node.output[0] + at
        for k, name in enumerate(node.input):
            copy.input[k] = {"w_q": f"w_q{at}", "w_d": f"w_d{at}"}.get(name, name)
    for at in "12":
        made.graph.initializer.append(numpy_helper.from_array(weights(), f"w_q{at}"))
    assert find_saturated(GraphView(made, "m.onnx"))[-1][1].endswith("; 2 more constants have such channels")


def test_weights_whose_range_is_too_narrow() -> None:
    held = weights()
    held[3] = np.clip(held[3].astype(int) * 3, -127, 127)
    name, text = facts(held=held)[0]
    assert name == "w_q" and "weights of channel 3 lie at the ends of int8 (channel 3)" in text
    floats = weights().astype(np.float32) * np.float32(0.01)
    floats[1, 0, 0, :2] = 2.5
    assert facts(floats=floats) == [
        ("w", "w: 2 weights lie beyond the range of their scale (channel 1): clipped by the exporter")
    ]


def test_compile_and_triage_name_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = weights()
    held[1:3] = 0  # so that no sum goes beyond int32
    onnx.save(model(held=held, bias=saturated_bias()), tmp_path / "m.onnx")
    main(["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.bin"), "--no-check"])
    assert "saturated constant: b_q: 2 of 4 biases lie at the limit of int32" in "".join(capsys.readouterr())
    main(["triage", "-m", str(tmp_path / "m.onnx"), "--json", str(tmp_path / "t.json")])
    found = json.loads((tmp_path / "t.json").read_text())["findings"]
    assert [(f["kind"], f["tensor"]) for f in found] == [("constants", "b_q")]
    assert "found: b_q: 2 of 4 biases lie at the limit of int32 (channels 1, 2)" in capsys.readouterr().out


def test_a_model_that_its_saturated_bias_keeps_from_being_verified_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(model(bias=saturated_bias()), tmp_path / "m.onnx")
    for words in (["triage", "-m"], ["-m"], ["compile", "-o", str(tmp_path / "m.bin")]):
        assert main([*words, str(tmp_path / "m.onnx")]) in (1, 2)
        told = "".join(capsys.readouterr())
        assert "heck" in told and "b_q: 2 of 4 biases lie at the limit of int32" in told


def test_triage_compares_the_weights_with_those_of_the_float_file(tmp_path: Path) -> None:
    made, held = model(), weights()
    onnx.save(made, tmp_path / "q.onnx")
    wide = held.astype(np.float32) * np.float32(0.01)
    wide[2, 0, 0, 0] = 3
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv")],
        "made",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, [1, CHANNELS, 6, 6])],
        [numpy_helper.from_array(wide, "w"), numpy_helper.from_array(np.zeros(CHANNELS, np.float32), "b")],
    )
    floats = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    floats.ir_version = 8
    onnx.save(floats, tmp_path / "f.onnx")
    main(["triage", "-m", f"{tmp_path / 'f.onnx'},{tmp_path / 'q.onnx'}", "--json", str(tmp_path / "t.json")])
    found = [f["text"] for f in json.loads((tmp_path / "t.json").read_text())["findings"] if f["kind"] == "constants"]
    assert found == ["w of conv: channel 2 ends at 1.27, its float weights at 3: clipped by the exporter"]
    assert describe_clipped_weights(held.astype(np.float32), held.astype(np.float32), 0) == ""
