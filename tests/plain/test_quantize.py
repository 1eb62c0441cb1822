"""`qverify quantize`: a float ONNX and inputs become a quantized ONNX that compiles and is verified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from qverify.cli.main import main
from qverify.onnx_model.engine import Engine

TYPES = {"u8s8": ("UINT8", "INT8"), "s8s8": ("INT8", "INT8"), "u8u8": ("UINT8", "UINT8"), "s16s8": ("INT16", "INT8")}


@pytest.fixture
def pictures(digits, tmp_path) -> Path:
    """A folder with the ten digits, one .npy each."""
    folder = tmp_path / "digits"
    folder.mkdir()
    for name, value in np.load(digits / "digits.npz").items():
        np.save(folder / f"{name}.npy", value)
    return folder


def zero_types(model: onnx.ModelProto, op: str) -> set[str]:
    constants = {i.name: i.data_type for i in model.graph.initializer}
    kinds = {constants[n.input[2]] for n in model.graph.node if n.op_type == op}
    return {onnx.TensorProto.DataType.Name(k) for k in kinds}


@pytest.mark.parametrize("scheme", list(TYPES))
def test_the_result_is_verified(scheme, digits, pictures, tmp_path, capsys) -> None:
    quantized = tmp_path / "q.onnx"
    words = ["quantize", str(digits / "digits_float.onnx"), "-i", str(pictures), "-o", str(quantized)]
    assert main([*words, "--scheme", scheme]) == 0
    out = capsys.readouterr().out
    assert "calibrated on 10 frames" in out and "the same largest value in 10 of 10 items" in out
    activations, weights = TYPES[scheme]
    model = onnx.load(quantized)
    assert zero_types(model, "QuantizeLinear") == {activations}
    assert zero_types(model, "DequantizeLinear") == {activations, weights, "INT32"}
    assert main(["-m", str(quantized), "-b", "local", "-r", "-i", str(pictures / "digit_3.npy")]) == 0
    assert "Sim and Arm result Strict check PASSED" in capsys.readouterr().out


def test_what_is_printed_next_works(digits, pictures, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.toml").write_text("[inputs.image]\n")
    words = ["quantize", str(digits / "digits_float.onnx"), "-i", "digits", "-o", "q.onnx"]
    assert main([*words, "--description", "d.toml"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    first, second = line.removeprefix("next: ").split(" && ")
    assert second.endswith("-i digits --description d.toml")
    assert main(first.split()[1:]) == 0
    assert main(second.split()[1:]) == 0


def test_named_nodes_stay_float_or_get_16_bits(digits, pictures, tmp_path) -> None:
    quantized = tmp_path / "q.onnx"
    words = ["quantize", str(digits / "digits_float.onnx"), "-i", str(pictures), "-o", str(quantized)]
    assert main([*words, "--float", "conv1", "--int16", "conv2"]) == 0
    model = onnx.load(quantized)
    made = {o: n for n in model.graph.node for o in n.output}
    conv1 = next(n for n in model.graph.node if n.name == "conv1")
    assert [made[i].op_type for i in conv1.input if i in made and made[i].op_type == "DequantizeLinear"] == []
    assert "UINT16" in zero_types(model, "QuantizeLinear")


def test_ranges_come_from_the_inputs(digits, pictures, tmp_path) -> None:
    """The input's scale is that of the largest value in the folder, not of another."""
    for path in pictures.iterdir():
        np.save(path, np.load(path) * np.float32(4))
    quantized = tmp_path / "q.onnx"
    assert main(["quantize", str(digits / "digits_float.onnx"), "-i", str(pictures), "-o", str(quantized)]) == 0
    model = onnx.load(quantized)
    constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    first = next(n for n in model.graph.node if n.op_type == "QuantizeLinear" and n.input[0] == "image")
    largest = max(float(np.load(p).max()) for p in pictures.iterdir())
    assert float(constants[first.input[1]]) == pytest.approx(largest / 255)


def test_frames_that_do_not_fit_are_named(digits, pictures, tmp_path, capsys) -> None:
    (pictures / "broken.npy").write_bytes(b"xx")
    words = ["quantize", str(digits / "digits_float.onnx"), "-o", str(tmp_path / "q.onnx"), "-i"]
    assert main([*words, str(pictures)]) == 0
    out = capsys.readouterr().out
    assert "calibrated on 10 frames, 1 left out" in out and "left out: broken.npy" in out
    for path in pictures.glob("digit_*"):
        path.unlink()
    assert main([*words, str(pictures)]) == 2
    assert "broken.npy: not a readable .npy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "more", "said"),
    [
        ("digits_quant.onnx", [], "wanted a float ONNX, it is quantized already: qverify compile"),
        ("digits_float.onnx", ["--float", "conv_1"], "no node 'conv_1'; wanted the name of a node, such as conv1"),
        ("digits_float.onnx", ["--int16", "relu9"], "no node 'relu9'"),
    ],
)
def test_mistakes(model, more, said, digits, pictures, tmp_path, capsys) -> None:
    output = tmp_path / "q.onnx"
    assert main(["quantize", str(digits / model), "-i", str(pictures), "-o", str(output), *more]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not output.exists()


def test_without_inputs_nothing_is_made(digits, tmp_path, capsys) -> None:
    assert main(["quantize", str(digits / "digits_float.onnx"), "-o", str(tmp_path / "q.onnx")]) == 2
    assert "-i is missing" in capsys.readouterr().err


def test_the_model_itself_is_not_overwritten(digits, pictures, tmp_path, capsys) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes((digits / "digits_float.onnx").read_bytes())
    assert main(["quantize", str(path), "-i", str(pictures), "-o", str(path)]) == 2
    assert "is the model itself" in capsys.readouterr().err


def test_an_old_opset_is_raised(pictures, tmp_path) -> None:
    weights = numpy_helper.from_array(np.linspace(-1, 1, 9, dtype=np.float32).reshape(1, 1, 3, 3), "w")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Conv", ["image", "w"], ["y"])],
        "g",
        [value("image", onnx.TensorProto.FLOAT, [1, 1, 8, 8])],
        [value("y", onnx.TensorProto.FLOAT, [1, 1, 6, 6])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)
    onnx.save(model, tmp_path / "old.onnx")
    quantized = tmp_path / "q.onnx"
    assert main(["quantize", str(tmp_path / "old.onnx"), "-i", str(pictures), "-o", str(quantized)]) == 0
    feed = {"image": np.load(pictures / "digit_3.npy")}
    exact, made = (Engine(p.read_bytes()).run(feed)["y"] for p in (tmp_path / "old.onnx", quantized))
    assert np.abs(exact - made).max() < 0.05 * np.abs(exact).max()


def test_an_output_whose_shape_follows_from_values_is_not_compared(tmp_path, capsys) -> None:
    value, weights = helper.make_tensor_value_info, np.random.default_rng(1).normal(0, 1, (6, 40)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Relu", ["m"], ["y"]),
        helper.make_node("NonZero", ["y"], ["places"]),
    ]
    weights[:, 0] *= 1000  # beside it the other columns are 0 in 8 bits
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", onnx.TensorProto.FLOAT, [2, 6])],
        [value("y", onnx.TensorProto.FLOAT, [2, 40]), value("places", onnx.TensorProto.INT64, [2, None])],
        [numpy_helper.from_array(weights, "w")],
    )
    path, case = tmp_path / "n.onnx", tmp_path / "x.npy"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    np.save(case, np.random.default_rng(2).normal(0, 1, (2, 6)).astype(np.float32))
    assert main(["quantize", str(path), "-i", str(case), "-o", str(tmp_path / "q.onnx")]) == 0
    out = capsys.readouterr().out
    assert "y: cosine 0.99" in out and "not compared with the float model" in out and "): places" in out


def test_several_outputs_are_listed_the_worst_first(tmp_path, capsys) -> None:
    value, rng = helper.make_tensor_value_info, np.random.default_rng(1)
    weights = {n: rng.normal(0, 1, (6, 40)).astype(np.float32) for n in ("u", "v")}
    weights["v"][:, 0] *= 1000  # one range for all columns, per tensor
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", n], [f"{n}_out"]) for n in weights],
        "g",
        [value("x", onnx.TensorProto.FLOAT, [2, 6])],
        [value(f"{n}_out", onnx.TensorProto.FLOAT, [2, 40]) for n in weights],
        [numpy_helper.from_array(w, n) for n, w in weights.items()],
    )
    path, case = tmp_path / "n.onnx", tmp_path / "x.npy"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    np.save(case, rng.normal(0, 1, (2, 6)).astype(np.float32))
    assert main(["quantize", str(path), "-i", str(case), "-o", str(tmp_path / "q.onnx")]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("beside the float model, 1 frame: 2 outputs, the worst first")
    cosines = [float(line.partition("cosine ")[2].partition(",")[0]) for line in lines[at + 1 : at + 3]]
    assert cosines == sorted(cosines) and sum("beside the float model" in line for line in lines) == 1
