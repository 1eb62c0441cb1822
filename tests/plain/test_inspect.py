"""`qverify inspect`: what a model file holds, as the file itself says it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from qverify.cli.main import main
from qverify.model_bin.facts import real_range
from qverify.session.other_jobs.inspect_model import inspect_model
from qverify.tensors.spec import TensorSpec


def shown(capsys, *words: str) -> list[str]:
    assert main(["inspect", *map(str, words)]) == 0
    return capsys.readouterr().out.splitlines()


def quantization(path, tensor: str) -> tuple[float, int]:
    """Scale and zero point of a QuantizeLinear's output, read with onnx alone."""
    model = onnx.load(path)
    constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    node = next(n for n in model.graph.node if tensor in n.output)
    return float(constants[node.input[1]]), int(constants[node.input[2]])


def test_scale_and_range_are_those_of_the_file(digits, capsys):
    path = digits / "digits_quant.onnx"
    scale, zero = quantization(path, "logits_QuantizeLinear_Output")
    facts = inspect_model(str(path)).tensor("logits_QuantizeLinear_Output")
    assert (facts.spec.scale, facts.spec.zero_point) == ((np.float32(scale),), (zero,))
    assert (facts.low, facts.high) == (-zero * scale, (255 - zero) * scale)
    assert f"zero point  {zero}" in shown(capsys, path, "logits_QuantizeLinear_Output")


def test_model_bin_holds_what_its_onnx_compiles_to(digits, tmp_path, capsys):
    path, binary = digits / "digits_quant.onnx", tmp_path / "m.bin"
    assert main(["compile", str(path), "-o", str(binary)]) == 0
    capsys.readouterr()
    here, there = shown(capsys, path), shown(capsys, binary)
    assert here[here.index("") :] == there[there.index("") :]
    assert len(there[there.index("") :]) == 3 + 8  # a blank line, two of the head, 8 nodes
    assert "compiled from digits_quant.onnx, rounding ref-exact" in there
    assert shown(capsys, path, "conv1") == shown(
        capsys, path, "relu1_QuantizeLinear_Output"
    )  # an ONNX node that it covers


def test_a_constant_is_counted(digits):
    model = inspect_model(str(digits / "digits_quant.onnx"))
    assert model.graph is not None
    name = next(n for n, c in model.graph.constants.items() if c.dtype == np.int8)
    weights = model.graph.constants[name]
    values = model.tensor(name).values
    assert (values["minimum"], values["maximum"]) == (weights.min(), weights.max())
    assert values["distinct"] == len(set(weights.ravel().tolist()))
    assert model.tensor(name).made_by == "a constant"


def test_float_and_refused_models_are_described_without_a_graph(digits, tmp_path, capsys):
    lines = shown(capsys, digits / "digits_float.onnx")
    assert "input: image, float32, 1x1x8x8" in lines
    assert lines[-1] == "it is a float ONNX, which has no quantized tensors"
    assert main(["inspect", str(digits / "digits_float.onnx"), "image"]) == 2
    assert "float ONNX" in capsys.readouterr().err
    path = tmp_path / "dynamic.onnx"
    model = onnx.load(digits / "digits_quant.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.save(model, path)
    lines = shown(capsys, path)
    assert "input: image, float32, Nx1x8x8" in lines
    assert "--shape image=1,1,8,8" in lines[-1]
    assert any(line.startswith("logits_Q") for line in shown(capsys, path, "--shape", "image=1,1,8,8"))


@pytest.mark.parametrize(
    ("start", "format_name"),
    [(b"RKNN\0\0\0\0", "Rockchip RKNN"), (b"\x20\0\0\0TFL3", "a damaged .tflite"), (b"PK\x03\x04", "a zip archive")],
)
def test_other_formats_are_named(start, format_name, tmp_path, capsys):
    path = tmp_path / "model.bin"
    path.write_bytes(start + bytes(100))
    assert main(["inspect", str(path)]) == 2
    assert format_name in capsys.readouterr().err


def test_a_mistyped_name_gets_the_nearest(digits, capsys):
    assert main(["inspect", str(digits / "digits_quant.onnx"), "logit_QuantizeLinear_Output"]) == 2
    assert "logits_QuantizeLinear_Output" in capsys.readouterr().err
    assert main(["inspect", str(digits / "digits_quant.onnx"), "logits_Q"]) == 2
    assert "near it: logits_QuantizeLinear_Output, logits" in capsys.readouterr().err  # then its constants


def test_names_are_shown_escaped(tmp_path, capsys):
    value = helper.make_tensor_value_info("x\n\x1b[2Jforged", onnx.TensorProto.FLOAT, [1])
    node = helper.make_node("Relu", [value.name], ["y"])
    graph = helper.make_graph([node], "g", [value], [helper.make_tensor_value_info("y", 1, [1])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    text = "\n".join(shown(capsys, tmp_path / "m.onnx"))
    assert "\x1b" not in text
    assert "x\\n\\x1b[2Jforged" in text


def test_the_range_of_channels_is_the_widest():
    spec = TensorSpec("w", "int8", (2, 1), scale=(0.5, 2.0), zero_point=(0, 1), channel_axis=0)
    assert real_range(spec) == (-258.0, 252.0)
    assert real_range(TensorSpec("f", "float32", (2, 1))) == (None, None)


def test_shortened_names_are_said_to_be(digits, monkeypatch, capsys):
    model = str(digits / "digits_quant.onnx")
    for columns, shortened in ((70, True), (200, False)):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["inspect", model]) == 0
        shown = capsys.readouterr().out
        assert ("names are shortened; a wider terminal (COLUMNS=200)" in shown) == shortened
        assert ("logits_QuantizeLinear_Output" in shown) != shortened


def test_names_in_a_pipe_are_whole(digits, tmp_path, monkeypatch, capsys):
    long = "/".join(f"backbone_stage{n}" for n in range(20))
    model = onnx.load(digits / "digits_quant.onnx")
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [long if name == "relu1_QuantizeLinear_Output" else name for name in names]
    onnx.save(model, tmp_path / "m.onnx")
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = shown(capsys, tmp_path / "m.onnx")
    assert [line.split()[1] for line in lines if line.startswith(long)] == ["conv"]
    assert not any("shortened" in line for line in lines)
