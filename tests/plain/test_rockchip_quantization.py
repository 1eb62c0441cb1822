"""The quantized ONNX that is written from a float ONNX and Rockchip's quantization.cfg. The networks and texts are made by
the test, in the form that rknn-toolkit2 2.5.0 writes; the real files of one network are used where they are at hand."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.cli.main import main
from qverify.errors import BadFileError
from qverify.onnx_model.stated_names import names_in, with_names
from qverify.vendor_files.rockchip_cfg import is_cfg, read_cfg
from qverify.vendor_files.rockchip_names import onnx_names, stems
from qverify.vendor_quantization import Quantized, write_quantized
from qverify.vendor_quantization.rknn_parts.weights import divide, weight_steps

from tests.onnx_engine import engine_command

Array = npt.NDArray[Any]
REAL = Path(__file__).resolve().parents[3] / "shared" / "vendor-real" / "rknn-2.5.0" / "resnet8_cifar10"
FLOAT = REAL.parents[2] / "models" / "resnet8_cifar10" / "resnet8_cifar10.onnx"


def cfg(tensors: dict[str, tuple[str, float, int]]) -> bytes:
    """Returns the text of hybrid_quantization_step1 for tensors: dtype, scale, zero point."""
    lines = ["custom_quantize_layers: {}", "quantize_parameters:"]
    for name, (dtype, scale, zero) in tensors.items():
        narrow = dtype == "int8"
        lines += [f"    {name}:", "        qtype: asym", "        qmethod: layer", f"        dtype: {dtype}"]
        lines += [
            "        min:",
            f"        -   {(-128 - zero) * scale}",
            "        max:",
            f"        -   {(127 - zero) * scale}",
        ]
        lines += ["        scale:", f"        -   {scale!r}"] if narrow else ["        scale: []"]
        lines += ["        zero_point:", f"        -   {zero}"] if narrow else ["        zero_point: []"]
    return "\n".join([*lines, ""]).encode()


def model(nodes: list[onnx.NodeProto], constants: dict[str, Array], shape: list[int], output: str) -> bytes:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made).SerializeToString()


def conv(x: str, y: str, constants: dict[str, Array], weights: Array, bias: Array, **kwargs: Any) -> onnx.NodeProto:
    constants |= {f"{y}_w": weights.astype(np.float32), f"{y}_b": bias.astype(np.float32)}
    return helper.make_node("Conv", [x, f"{y}_w", f"{y}_b"], [y], **kwargs)


def small(rng: np.random.Generator) -> tuple[bytes, dict[str, tuple[str, float, int]]]:
    """Returns a network of Conv, Relu, mean of 8x8, Gemm and Softmax, and what the toolkit states of it."""
    constants: dict[str, Array] = {
        "w": rng.normal(0, 0.3, (5, 6)).astype(np.float32),
        "b": rng.normal(0, 1, 5).astype(np.float32),
    }
    nodes = [
        conv("x", "c", constants, rng.normal(0, 0.3, (6, 4, 1, 1)), rng.normal(0, 0.3, 6)),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["m"], transB=1),
        helper.make_node("Softmax", ["m"], ["y"], axis=1),
    ]
    stated = {
        "x": ("float32", 0.0, 0),
        "c": ("int8", 0.011, -128),
        "r": ("int8", 0.011, -128),
        "g_2conv0": ("int8", 0.02, -128),
        "g": ("int8", 0.005, -128),
        "m_mm": ("int8", 0.017, 9),
        "y-rs": ("float16", 0.0, 0),
        "y": ("float16", 0.0, 0),
        "x_int8": ("int8", 0.02, 3),
        "m_mm__float16": ("float16", 0.0, 0),
    }
    return model(nodes, constants, [1, 4, 8, 8], "y"), stated


def run(made: Quantized, x: Array, names: list[str]) -> dict[str, Array]:
    """Returns tensors of the written ONNX on onnxruntime without optimization."""
    parsed = onnx.load_from_string(made.onnx)
    onnx.checker.check_model(parsed)
    known = {o.name for o in parsed.graph.output}
    parsed.graph.output.extend(
        helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names if n not in known
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(parsed.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, {"x": x}), strict=True))


def quantized(real: Array, scale: float, zero: int) -> Array:
    codes = np.clip(np.rint(real.astype(np.float32) / np.float32(scale)) + zero, -128, 127)
    return ((codes - zero).astype(np.float32) * np.float32(scale)).astype(np.float32)


def test_a_network_has_the_values_of_the_formulas() -> None:
    rng = np.random.default_rng(5)
    data, stated = small(rng)
    made = write_quantized(data, {"net.quantization.cfg": cfg(stated)})
    x = rng.normal(0, 1, (1, 4, 8, 8)).astype(np.float32)
    got = run(made, x, ["c", "r", "g_2conv0", "g", "m", "y"])
    weights = numpy_helper.to_array(onnx.load_from_string(data).graph.initializer[2])
    assert weights.shape == (6, 4, 1, 1)
    low, high = np.minimum(weights.min((1, 2, 3)), 0), np.maximum(weights.max((1, 2, 3)), 0)
    step = (high.astype(np.float64) - low) / 255
    zero = np.rint(-128 - low / step).reshape(6, 1, 1, 1)
    codes = np.clip(np.rint(weights / step.reshape(6, 1, 1, 1)) + zero, -128, 127) - zero
    held = quantized(x, 0.02, 3).astype(np.float64)
    bias = numpy_helper.to_array(onnx.load_from_string(data).graph.initializer[3]).astype(np.float64)
    whole = np.rint(bias / (0.02 * step)) * 0.02 * step
    exact = np.einsum("nchw,oc->nohw", held, codes[:, :, 0, 0] * step[:, None]) + whole[None, :, None, None]
    assert np.allclose(got["c"], exact, atol=1e-5)  # not quantized: Relu is computed with it
    assert np.array_equal(got["r"], quantized(np.maximum(got["c"], 0), 0.011, -128))
    four = got["r"].reshape(1, 6, 2, 4, 2, 4).sum((3, 5), dtype=np.float64) / 8
    assert np.abs(got["g_2conv0"] - four).max() < 0.011  # half a step
    assert np.allclose(got["g"], quantized(got["g_2conv0"].sum((2, 3), keepdims=True) / 8, 0.005, -128), atol=0.0051)
    half = got["m"].astype(np.float16).astype(np.float64)
    soft = (np.exp(half) / np.exp(half).sum()).astype(np.float16)
    assert np.abs(got["y"].astype(np.float64) - soft).max() < 1e-3 and np.array_equal(
        got["y"], got["y"].astype(np.float16)
    )


def test_what_the_toolkit_changed_is_said_and_its_names_are_resolved() -> None:
    data, stated = small(np.random.default_rng(5))
    made = write_quantized(data, {"net.quantization.cfg": cfg(stated)})
    said = "\n".join(made.changes)
    for text in (
        "became a convolution of 1x1: 1 time, first m",
        "two convolutions",
        "first g",
        "Softmax reads and gives float16",
        "m_mm for m",
    ):
        assert text in said
    assert made.names["m_mm"] == "m" and made.names["x_int8"] == "x_DequantizeLinear_Output"
    assert made.names["m_mm__float16"] == "m__float16" and made.names["y-rs"] == "y"


def test_the_main_job_computes_the_same_on_both_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, stated = small(np.random.default_rng(5))
    (tmp_path / "net.onnx").write_bytes(data)
    (tmp_path / "net.quantization.cfg").write_bytes(cfg(stated))
    files = [str(tmp_path / "net.onnx"), "--quantization", str(tmp_path / "net.quantization.cfg")]
    assert main(["-m", *files, "-r", "True"]) == 0
    assert "net.onnx was quantized as net.quantization.cfg states" in capsys.readouterr().out
    written = tmp_path / "quant.onnx"
    assert main(["quantize", files[0], "--from", files[2], "-o", str(written)]) == 0
    assert "Softmax reads and gives float16" in capsys.readouterr().out
    assert written.read_bytes() == write_quantized(data, {"net.quantization.cfg": cfg(stated)}).onnx
    assert main(["-m", str(written), *files[1:]]) == 2
    assert "wanted the float ONNX that was quantized" in capsys.readouterr().err


def test_a_capture_keeps_the_written_onnx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, stated = small(np.random.default_rng(5))
    (tmp_path / "net.onnx").write_bytes(data)
    (tmp_path / "net.quantization.cfg").write_bytes(cfg(stated))
    engine = f"command,command={engine_command(tmp_path / 'log')}"
    words = ["-m", str(tmp_path / "net.onnx"), "--quantization", str(tmp_path / "net.quantization.cfg"), "-b", "local"]
    words += ["--simulator", engine, "-r", "True", "--capture", str(tmp_path / "capture")]
    status = main(words)
    lines = [line for line in capsys.readouterr().out.splitlines() if "Strict check" in line]
    assert main(["replay", str(tmp_path / "capture"), "-r", "True"]) == status
    assert len(lines) == 6 and [n for n in capsys.readouterr().out.splitlines() if "Strict check" in n] == lines
    stored = sorted(path.name for path in (tmp_path / "capture" / "models").iterdir())
    assert stored == ["1.onnx", "compiled.bin"]
    made = write_quantized(data, {"net.quantization.cfg": cfg(stated)}).onnx
    assert (tmp_path / "capture" / "models" / "1.onnx").read_bytes() == made
    assert main(["replay", str(tmp_path / "capture"), "-r", "True", "--rerun", "reference,simulator"]) == status
    assert main(["triage", str(tmp_path / "capture"), "--explain", "0"]) in (0, 1)


def test_the_written_onnx_and_the_text_read_a_board_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A board's folder in the toolkit's names and dims: with --quantization, and with what `quantize --from` wrote of it."""
    data, stated = small(np.random.default_rng(7))
    (tmp_path / "net.onnx").write_bytes(data)
    (tmp_path / "net.cfg").write_bytes(cfg(stated))
    x = np.random.default_rng(8).uniform(-2, 2, (1, 4, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    quant, float_onnx = str(tmp_path / "q.onnx"), str(tmp_path / "net.onnx")
    assert main(["quantize", float_onnx, "--from", str(tmp_path / "net.cfg"), "-o", quant]) == 0
    tensors = run(write_quantized(data, {"net.cfg": cfg(stated)}), x, ["r", "g", "m", "y"])
    tensors["x_int8"] = quantized(x, 0.02, 3)
    dims = {"x_int8": (1, 4, 8, 8), "r": (1, 6, 8, 8), "g": (1, 6, 1, 1), "m_mm": (1, 5, 1, 1), "y": (1, 5)}
    for side in ("simulator", "runtime"):
        folder = tmp_path / "snapshot" / side / "npy"
        folder.mkdir(parents=True)
        for name, shape in dims.items():
            value = tensors[name.removesuffix("_mm")].reshape(shape).copy()
            if name == "y" and side == "runtime":
                value += np.float32(0.01)
            np.save(folder / f"{name}.npy", value)
    sides = [str(tmp_path / "snapshot" / side) for side in ("simulator", "runtime")]
    printed = []
    for how in ([quant], [float_onnx, "--quantization", str(tmp_path / "net.cfg")]):
        assert main(["compare", *sides, "-m", *how]) == 1
        shown = capsys.readouterr().out
        assert "[1, 5, 1, 1] taken as [1, 5]" in shown and "recorded, int8" not in shown
        assert "blame: B " in shown
        printed.append([line for line in shown.splitlines() if line.startswith(("A ~ B: 5 of", "A and B result"))])
        assert main(["identify", sides[1], "-m", *how, "-i", str(tmp_path / "x.npy")]) in (0, 1, 3)
        assert "conv " in capsys.readouterr().out
    assert printed[0] == printed[1] and len(printed[0]) == 2


def test_names_of_the_toolkit_in_metadata_that_are_none_are_refused(tmp_path: Path) -> None:
    data, stated = small(np.random.default_rng(7))
    made = write_quantized(data, {"net.cfg": cfg(stated)})
    written = made.onnx
    assert names_in(written, "") == made.names and made.names["m_mm"] and names_in(data, "") == {}
    assert with_names(data, {}) == data
    for text in ("[", "[1]", '{"a": 1}', "[" * 5000):
        model = onnx.load_from_string(written)
        model.metadata_props[-1].value = text
        with pytest.raises(BadFileError, match=r"qverify\.names"):
            names_in(model.SerializeToString(), "q.onnx")


def test_weights_of_a_small_channel_have_the_coarser_step() -> None:
    weights = np.array([[[[4.0]], [[-4.0]]], [[[1e-5]], [[0.0]]], [[[0.0]], [[0.0]]]], np.float32)
    step, zero = weight_steps(weights, 0)
    assert step[0] == 8 / 255 and step[1] == step[2] == step[0] / 2**14
    assert zero.tolist() == [0, -128, -128]


@pytest.mark.parametrize(
    ("size", "windows"),
    [
        (6, (1, 6, 0, 0)),
        (7, (1, 7, 0, 0)),
        (8, (2, 4, 0, 0)),
        (9, (2, 5, 0, 1)),
        (13, (2, 7, 0, 1)),
        (15, (3, 7, 3, 3)),
        (16, (3, 7, 2, 3)),
        (20, (3, 7, 0, 1)),
        (25, (4, 7, 1, 2)),
        (28, (4, 7, 0, 0)),
        (32, (5, 7, 1, 2)),
    ],
)
def test_windows_of_a_mean_are_those_of_the_simulator(size: int, windows: tuple[int, int, int, int]) -> None:
    found = divide(size)
    assert (found.count, found.size, found.before, found.after) == windows


def test_the_first_convolution_of_an_addition_computes_it() -> None:
    rng = np.random.default_rng(1)
    constants: dict[str, Array] = {}
    nodes = [
        conv("x", "a", constants, rng.normal(0, 1, (2, 2, 1, 1)), np.zeros(2)),
        helper.make_node("Relu", ["a"], ["ar"]),
        conv("x", "p", constants, rng.normal(0, 1, (2, 2, 1, 1)), np.zeros(2)),
        conv("ar", "q", constants, rng.normal(0, 1, (2, 2, 1, 1)), np.zeros(2)),
        helper.make_node("Add", ["q", "p"], ["s"]),
        helper.make_node("HardSigmoid", ["s"], ["h"]),
    ]
    stated = {n: ("int8", 0.05, 0) for n in ("a", "ar", "p", "q", "s")} | {
        "x_int8": ("int8", 0.05, 0),
        "h": ("int8", 0.004, -128),
    }
    made = write_quantized(model(nodes, constants, [1, 2, 3, 3], "h"), {"n.cfg": cfg(stated)})
    stored = {n.output[0] for n in onnx.load_from_string(made.onnx).graph.node if n.op_type == "QuantizeLinear"}
    assert stored == {
        f"{n}_QuantizeLinear_Output" for n in ("x", "ar", "q", "s", "h")
    }  # p is computed with the addition


def test_swish_is_one_operation_and_a_sigmoid_after_an_addition_is_not() -> None:
    rng = np.random.default_rng(1)
    constants: dict[str, Array] = {}
    nodes = [
        conv("x", "a", constants, rng.normal(0, 1, (2, 2, 1, 1)), np.zeros(2)),
        helper.make_node("Sigmoid", ["a"], ["g"]),
        helper.make_node("Mul", ["a", "g"], ["w"]),
        helper.make_node("Add", ["w", "x"], ["s"]),
        helper.make_node("Sigmoid", ["s"], ["h"]),
    ]
    stated = {n: ("int8", 0.05, 0) for n in ("a", "w", "s", "x_int8")} | {"h_int8": ("int8", 0.004, -128)}
    made = write_quantized(model(nodes, constants, [1, 2, 3, 3], "h"), {"n.cfg": cfg(stated)})
    stored = {n.output[0] for n in onnx.load_from_string(made.onnx).graph.node if n.op_type == "QuantizeLinear"}
    assert stored == {f"{n}_QuantizeLinear_Output" for n in ("x", "w", "s", "h")}


def test_constant_channels_go_into_the_next_bias() -> None:
    constants: dict[str, Array] = {}
    weights = np.array([[0.5, 0.25], [1e-12, -1e-12]], np.float32).reshape(2, 2, 1, 1)
    nodes = [
        conv("x", "a", constants, weights, np.array([0.0, 2.0])),
        helper.make_node("Relu", ["a"], ["ar"]),
        conv("ar", "b", constants, np.array([[1.0, 1e-4]]).reshape(1, 2, 1, 1), np.array([0.5])),
    ]
    stated = {
        "x_int8": ("int8", 0.01, 0),
        "a": ("int8", 0.01, -128),
        "ar": ("int8", 0.01, -128),
        "b_int8": ("int8", 0.02, 0),
    }
    made = write_quantized(model(nodes, constants, [1, 2, 2, 2], "b"), {"n.cfg": cfg(stated)})
    stored = {i.name: numpy_helper.to_array(i) for i in onnx.load_from_string(made.onnx).graph.initializer}
    assert stored["b/weight_quantized"].ravel().tolist() == [
        127,
        -128,
    ]  # 1e-4 is less than half a step: it is lost there
    assert stored["b/bias_quantized"].tolist() == [round((0.5 + 2e-4) / float(np.float32(0.01 * 1.0 / 255)))]


def test_the_text_is_read_and_damage_is_named() -> None:
    text = (
        "custom_quantize_layers: {}\nquantize_parameters:\n    '458':\n        dtype: int8\n        scale:\n        -   0.5\n"
        '        zero_point:\n        -   -3\n    "\\xE9-x":\n        dtype: float16\n        scale: []\n'
        "        zero_point: []\n    ? a name of more than 128 characters\n    :   qtype: asym\n        dtype: float32\n    in/put:0:\n"
        "        dtype: int8\n        scale:\n        -   1.5\n        zero_point:\n        -   0\n"
    )
    read = read_cfg(text.encode(), "n.cfg")
    assert is_cfg(text.encode()) and not is_cfg(b"text: 1\n")
    assert list(read) == ["458", "é-x", "a name of more than 128 characters", "in/put:0"]
    assert read["458"].scale == (0.5,) and read["458"].zero_point == (-3,) and read["458"].quantized
    assert not read["é-x"].quantized and read["in/put:0"].scale == (1.5,)
    for bad, told in (("-   0.5", "-   -0.5"), ("-   -3", "-   1.5"), ("-   0.5", "-   nan"), ("'458':", "458")):
        with pytest.raises(BadFileError, match=r"n\.cfg"):
            read_cfg(text.replace(bad, told, 1).encode(), "n.cfg")


def test_a_text_of_another_network_or_of_none_is_refused() -> None:
    data, _ = small(np.random.default_rng(5))
    with pytest.raises(BadFileError, match="no tensor of it is one of the float ONNX"):
        write_quantized(data, {"n.cfg": cfg({"other": ("int8", 0.1, 0)})})
    with pytest.raises(BadFileError, match=r"notes\.txt: wanted the files"):
        write_quantized(data, {"notes.txt": b"hello"})


def test_names_without_the_optimizers_endings() -> None:
    assert stems("prob_mm-rs_int8") == ["prob_mm-rs", "prob_mm", "prob"]
    names = onnx_names(
        ["x", "x_int8", "logits_mm", "logits_mm__float16", "prob-rs", "prob", "g_2conv0", "t_sw"],
        {"x", "logits", "prob"},
    )
    assert names == {"logits_mm": "logits"}


@pytest.mark.skipif(not FLOAT.exists(), reason="needs the real files of rknn-toolkit2 in ../shared")
def test_every_integer_of_a_real_snapshot(tmp_path: Path) -> None:
    """resnet8: 89,408 int8 elements that rknn-toolkit2's simulator computed, on the reference and on the simulator."""
    text = (REAL / "resnet8_cifar10.quantization.cfg").read_bytes()
    made = write_quantized(FLOAT.read_bytes(), {"resnet8_cifar10.quantization.cfg": text})
    (tmp_path / "q.onnx").write_bytes(made.onnx)
    with np.load(REAL / "simulator-int8-tensors.npz") as recorded:
        wanted = {name: recorded[name] for name in recorded.files}
    for side in ("reference", "simulator"):
        words = ["infer", "-m", str(tmp_path / "q.onnx"), "-i", str(REAL / "input.npy"), "--side", side, "--dequantize"]
        assert main([*words, "-o", str(tmp_path / side)]) == 0
        equal = total = 0
        for name, values in wanted.items():
            source = made.names.get(name, name)
            got = next(
                np.load(io.BytesIO(path.read_bytes()))
                for path in (tmp_path / side).glob("*.npy")
                if path.stem in (source, f"{source}_QuantizeLinear_Output", source.replace("Dequantize", "Quantize"))
            )
            equal, total = equal + int((got.ravel() == values.ravel()).sum()), total + values.size
        assert (equal, total) == (89_408, 89_408)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("dtype: int8", "dtype: int9", "wanted one of int8, uint8, int16, uint16"),
        ("dtype: int8", "dtype: ", "wanted one of int8, uint8, int16, uint16"),
        ("zero_point:\n        -   3", "zero_point:\n        -   300", "zero_point [300"),
        ("quantize_parameters:", "quantize_parameters:\n    - 3", "wanted a tensor, or a field and its numbers"),
    ],
    ids=["type", "no type", "zero point", "no tensor"],
)
def test_a_text_that_contradicts_itself_is_refused_in_one_line(old: str, new: str, why: str) -> None:
    network, stated = small(np.random.default_rng(0))
    text = cfg(stated).decode()
    assert old in text
    with pytest.raises(BadFileError) as refused:
        write_quantized(network, {"a.quantization.cfg": text.replace(old, new).encode()})
    assert why in str(refused.value) and "\n" not in str(refused.value)


def branches(
    rng: np.random.Generator, kernels: list[int], skip: bool, group: int = 1
) -> tuple[bytes, dict[str, Array]]:
    """Returns a network that adds convolutions of x with these kernels, and x itself if `skip`, and its constants."""
    constants: dict[str, Array] = {}
    nodes, total = list[onnx.NodeProto](), "x" if skip else ""
    for at, k in enumerate(kernels):
        weights = rng.normal(0, 0.2, (6, 6 // group, k, k))
        nodes.append(conv("x", f"c{at}", constants, weights, rng.normal(0, 0.2, 6), pads=[k // 2] * 4, group=group))
        if total:
            nodes.append(helper.make_node("Add", [f"c{at}", total], [f"a{at}"]))
        total = f"a{at}" if total else f"c{at}"
    nodes[-1].output[0] = "s"
    nodes.append(helper.make_node("Relu", ["s"], ["y"]))
    return model(nodes, constants, [1, 6, 9, 9], "y"), constants


BRANCHES = {"x": ("int8", 0.02, 3), "s": ("int8", 0.03, -128), "y": ("int8", 0.03, -128)}


@pytest.mark.parametrize(
    ("kernels", "skip", "group"), [([3], True, 1), ([3, 1], True, 1), ([3, 1], False, 1), ([5, 3], True, 6)]
)
def test_branches_that_are_added_are_one_convolution(kernels: list[int], skip: bool, group: int) -> None:
    """The sum of the kernels is quantized, as the toolkit's simulator was seen to compute RepVGG blocks."""
    rng = np.random.default_rng(3)
    float_onnx, constants = branches(rng, kernels, skip, group)
    written = write_quantized(float_onnx, {"n.quantization.cfg": cfg(BRANCHES)})
    graph = onnx.load_model_from_string(written.onnx).graph
    assert [n.op_type for n in graph.node].count("Conv") == 1 and "Add" not in [n.op_type for n in graph.node]
    widest = max(kernels)
    weights = np.zeros((6, 6 // group, widest, widest), np.float32)
    for at, k in enumerate(kernels):
        edge = (widest - k) // 2
        weights += np.pad(constants[f"c{at}_w"], ((0, 0), (0, 0), (edge, edge), (edge, edge)))
    for channel in range(6 if skip else 0):
        weights[channel, channel % weights.shape[1], widest // 2, widest // 2] += 1
    bias = sum(constants[f"c{at}_b"] for at in range(len(kernels)))
    x = (rng.integers(-128, 128, (1, 6, 9, 9)) - 3).astype(np.float32) * np.float32(0.02)
    one = model(
        [conv("x", "s", {}, weights, bias, pads=[widest // 2] * 4, group=group)],
        {"s_w": weights, "s_b": bias},
        [1, 6, 9, 9],
        "s",
    )
    wanted = onnxruntime.InferenceSession(one).run(None, {"x": x})[0]
    as_written = onnxruntime.SessionOptions()  # products of integers saturate on processors without VNNI
    as_written.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    got = onnxruntime.InferenceSession(written.onnx, as_written).run(None, {"x": x})[0]
    step = np.ptp(weights) / 255
    assert np.abs(got - np.maximum(wanted, 0)).max() < 0.03 + step * np.abs(x).max() * 2


@pytest.mark.parametrize("stated", [True, False])
def test_a_branch_that_the_text_states_is_a_convolution_of_its_own(stated: bool) -> None:
    float_onnx, _ = branches(np.random.default_rng(3), [3, 1], False)
    texts = {**BRANCHES, **({"c0": ("int8", 0.02, 0), "c1": ("int8", 0.02, 0)} if stated else {})}
    written = write_quantized(float_onnx, {"n.quantization.cfg": cfg(texts)})
    kinds = [n.op_type for n in onnx.load_model_from_string(written.onnx).graph.node]
    assert kinds.count("Conv") == (2 if stated else 1)
