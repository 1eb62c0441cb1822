"""ONNX files that must be refused in one line, before anything is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from qverify.cli.main import main

Spoil = Callable[[onnx.ModelProto], None]


def _scale(value: float) -> Spoil:
    def spoil(model: onnx.ModelProto) -> None:
        tensor = next(t for t in model.graph.initializer if t.name == "w1_scale")
        array = numpy_helper.to_array(tensor).copy()
        array.reshape(-1)[0] = value
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    return spoil


def _nan_bias(model: onnx.ModelProto) -> None:
    conv = next(n for n in model.graph.node if n.op_type == "Conv")
    model.graph.initializer.append(numpy_helper.from_array(np.full(8, np.nan, np.float32), "nan_bias"))
    conv.input[2] = "nan_bias"


def _operator(kind: str, domain: str = "") -> Spoil:
    def spoil(model: onnx.ModelProto) -> None:
        node = next(n for n in model.graph.node if n.op_type == "Softmax")
        node.op_type, node.domain = kind, domain
        if domain:
            model.opset_import.append(onnx.helper.make_opsetid(domain, 1))

    return spoil


def _dynamic(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"


CASES: dict[str, tuple[Spoil, str]] = {
    "nan_scale": (_scale(np.nan), "'w1_scale' contains NaN"),
    "infinite_scale": (_scale(np.inf), "not finite and positive"),
    "zero_scale": (_scale(0), "not finite and positive"),
    "negative_scale": (_scale(-1), "not finite and positive"),
    "nan_bias": (_nan_bias, "'nan_bias' contains NaN"),
    "unknown_operator": (_operator("MadeUpOp"), "node 'prob' is of the unknown operator MadeUpOp"),
    "processor_layout": (
        _operator("Conv", "com.microsoft.nchwc"),
        "(Conv) is of onnxruntime's layout for the processor that saved the file; give the file from before it was optimized",
    ),
    "unknown_domain": (_operator("Foo", "my.domain"), "unknown operator my.domain::Foo"),
    "dynamic": (_dynamic, "give --shape image="),
}


@pytest.fixture
def model(digits: Path) -> onnx.ModelProto:
    return onnx.load(digits / "digits_quant.onnx")


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, model: onnx.ModelProto, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, said = CASES[name]
    spoil(model)
    path = tmp_path / "bad.onnx"
    onnx.save(model, path)
    for words in (["compile", str(path), "-o", str(tmp_path / "m.bin")], ["-m", str(path), "-b", "local"]):
        assert main(words) == 2
        text = capsys.readouterr().err
        assert said in text and len(text.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("data", [b"", b"\x00" * 100, b"\x08\x07garbage", bytes(range(256)) * 20])
def test_not_onnx(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(data)
    assert main(["-m", str(path), "-b", "local"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_shapes_of_a_dynamic_model(model: onnx.ModelProto, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Batch 3 by --shape; the main job takes it from model.bin; another one is said to be another one."""
    _dynamic(model)
    path, binary = tmp_path / "d.onnx", tmp_path / "d.bin"
    onnx.save(model, path)
    assert main(["compile", str(path), "-o", str(binary), "--shape", "image=3,1,8,8"]) == 0
    assert main(["-m", f"{path},{binary}", "-b", "local", "-r", "--json", str(tmp_path / "r.json")]) == 0
    assert json.loads((tmp_path / "r.json").read_text())["pairs"][0]["tensors"][-1]["shape"] == [3, 10]
    capsys.readouterr()
    assert main(["-m", f"{path},{binary}", "-b", "local", "--shape", "image=1,1,8,8"]) == 2
    assert "with other shapes" in capsys.readouterr().err


def test_the_model_itself_is_never_overwritten(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "q.onnx"
    path.write_bytes((digits / "digits_quant.onnx").read_bytes())
    assert main(["compile", str(path), "-o", str(path)]) == 2
    assert path.read_bytes() == (digits / "digits_quant.onnx").read_bytes()
    assert "would be overwritten" in capsys.readouterr().err


DAMAGED: dict[str, tuple[Spoil, str]] = {
    "two unknown operators": (
        lambda m: (_operator("MadeUpOp")(m), m.graph.node.add(op_type="Other", output=["o"]), None)[-1],
        "2 operators keep it from being read",
    ),
    "a weight with other dims": (
        lambda m: next(t for t in m.graph.initializer if len(t.dims) == 4).dims.append(3),
        "is damaged: cannot reshape",
    ),
    "a type that nobody knows": (lambda m: setattr(m.graph.initializer[0], "data_type", 99), "is damaged"),
    "a node without outputs": (lambda m: m.graph.node.add(op_type="Relu", input=["image"]) and None, "has no output"),
    "a stride of 0": (
        lambda m: next(n for n in m.graph.node if n.op_type == "Conv").attribute.append(
            onnx.helper.make_attribute("strides", [1, 0])
        ),
        "strides has a value below 1",
    ),
    "an input without a type": (
        lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 0),
        "no tensor of a known element type",
    ),
    "more zero points than scales": (
        lambda m: next(t for t in m.graph.initializer if t.name == "w1_scale").dims.__setitem__(0, 4),
        "",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged(name: str, model: onnx.ModelProto, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, said = DAMAGED[name]
    spoil(model)
    path = tmp_path / "bad.onnx"
    path.write_bytes(model.SerializeToString())
    assert main(["compile", str(path), "-o", str(tmp_path / "m.bin")]) == 2
    text = capsys.readouterr().err
    assert said in text and "internal error" not in text
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_that_is_no_utf_8(model: onnx.ModelProto, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(model.SerializeToString().replace(b"w1_scale", b"w1\xff\xfecale"))
    assert main(["compile", str(path), "-o", str(tmp_path / "m.bin")]) == 2
    assert "a name is not UTF-8" in capsys.readouterr().err
