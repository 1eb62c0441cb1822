"""-m model.tflite alone: converted, compiled in LiteRT's arithmetic, and compared with LiteRT's reference kernels."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from qverify.arithmetic.rounding_rules import RULES
from qverify.cli.main import main
from qverify.errors import BadFileError, QVerifyError, UnsupportedError
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.units import units
from qverify.session.host_sides import HostSides
from qverify.session.models import Models, open_models
from qverify.session.tflite_alone import open_tflite
from qverify.sides.simulator import Simulator
from qverify.tflite_model.convert import convert
from qverify.tflite_model.read_tflite import read_tflite

from tests.tflite_files import File, conv, dense

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")


def opened(data: bytes, tmp_path: Path) -> Models:
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    return open_models([str(path)])


def compared(models: Models, seed: int = 0) -> dict[str, int]:
    """Returns, by tensor, the largest difference of simulator and reference, each node on the reference's inputs."""
    reference, simulator = HostSides(models).reference(), Simulator(models.graph)
    prepared = random_inputs(models.graph, seed)
    values = {**prepared.arrays(), **reference.run(prepared).tensors}
    apart = {}
    for unit in units(models.graph):
        given = {n: values[n] for n in unit.inputs}
        made, again = simulator.run_unit(unit, given), reference.run_unit(unit, given)
        for name in unit.outputs:
            assert np.array_equal(again[name], values[name]), name  # the cut operators are those of the file
            apart[name] = int(np.abs(made[name].astype(np.int64) - values[name].astype(np.int64)).max())
    return apart


@pytest.mark.parametrize("dtype, per_channel", [("int8", False), ("int8", True), ("uint8", False)])
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("activation", [0, 1, 3])
def test_convolutions_are_equal(depthwise, dtype, per_channel, activation, tmp_path):
    models = opened(conv(depthwise, per_channel, dtype, 60, activation), tmp_path)
    assert compared(models) == {"y": 0}


@pytest.mark.parametrize("dtype, per_channel", [("int8", False), ("int8", True), ("uint8", False)])
def test_fully_connected_is_equal_and_rounds_once(dtype, per_channel, tmp_path):
    """With convolutions' rounding, about 50 of its 128,000 elements would differ."""
    models = opened(dense(4000, 16, 32, per_channel, dtype), tmp_path)
    assert compared(models) == {"y": 0}
    rq = models.graph.constants[models.graph.nodes[0].inputs[-1] or ""]
    assert rq.dtype == np.float64 and (rq[1] == RULES.index("half away from zero")).all()  # of the exact product


def several(kind: str, table: str = "", shape: tuple[int, ...] = (1, 6, 6, 4), **options) -> bytes:
    """Returns one operator on a tensor of int8 whose output has the same quantization."""
    f = File()
    x = f.tensor("x", [1, 6, 6, 4], scale=0.05, zero=-7)
    more = []
    if kind in ("ADD", "SUB", "MUL"):
        values = np.random.default_rng(0).integers(-128, 128, (1, 6, 6, 4))
        more = [f.tensor("c", [1, 6, 6, 4], scale=0.03, zero=5, value=values)]
    constant = {
        "RESHAPE": [1, *shape[1:]],
        "MEAN": [1, 2],
        "PAD": [[0, 0], [1, 2], [0, 3], [0, 0]],
        "RESIZE_BILINEAR": list(shape[1:3]),
    }.get(kind)
    if constant is not None:
        value = np.array(constant, np.int32)
        more = [f.tensor("dims", list(value.shape), "int32", None, value=value)]
    scale, zero = {"SOFTMAX": (1 / 256, -128), "LOGISTIC": (1 / 256, -128)}.get(kind, (0.05, -7))
    if kind == "QUANTIZE":
        scale, zero = 0.11, 12
    y = f.tensor("y", list(shape), scale=scale, zero=zero)
    f.operator(kind, [x, *more], [y], table, **options)
    f.inputs, f.outputs = [x], [y]
    return f.written()


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("scales", [(0.05, 0.03, 0.07), (0.021, 0.5, 0.4), (0.05, 0.05, 0.05), (0.1, 0.2, 0.05)])
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
def test_sums_and_products_are_equal(kind, scales, dtype, tmp_path):
    f, shape, offset = File(), [1, 80, 80, 4], 128 if dtype == "uint8" else 0
    values = np.random.default_rng(1).integers(offset - 128, offset + 128, shape)
    x = f.tensor("x", shape, dtype, scales[0], 3 + offset)
    c = f.tensor("c", shape, dtype, scales[1], offset - 5, value=values)
    y = f.tensor("y", shape, dtype, scales[2], 9 + offset)
    f.operator(kind, [x, c], [y], f"{kind.capitalize()}Options")
    f.inputs, f.outputs = [x], [y]
    assert compared(opened(f.written(), tmp_path)) == {"y": 0}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("size, to", [((6, 6), (13, 9)), ((17, 17), (65, 65)), ((33, 17), (8, 9))])
@pytest.mark.parametrize("how", [{}, {"alignCorners": True}, {"halfPixelCenters": True}])
def test_resizes_are_equal(how, size, to, dtype, tmp_path):
    f, zero = File(), 120 if dtype == "uint8" else -7
    x, y = (f.tensor(n, [1, *s, 8], dtype, 0.05, zero) for n, s in (("x", size), ("y", to)))
    dims = f.tensor("dims", [2], "int32", None, value=np.array(to, np.int32))
    f.operator("RESIZE_BILINEAR", [x, dims], [y], "ResizeBilinearOptions", **how)
    f.inputs, f.outputs = [x], [y]
    assert compared(opened(f.written(), tmp_path)) == {"y": 0}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("size, step, padding", [(2, 2, 1), (3, 1, 0), (7, 2, 0), (28, 1, 1)])
def test_average_pools_are_equal(size, step, padding, dtype, tmp_path):
    """28 is the whole image; padding 0 is SAME, whose windows at the border divide by fewer elements."""
    f, zero, out = File(), 120 if dtype == "uint8" else -7, (28 - size) // step + 1 if padding else -(-28 // step)
    x, y = (f.tensor(n, [1, s, s, 16], dtype, 0.05, zero) for n, s in (("x", 28), ("y", out)))
    how = {"strideH": step, "strideW": step, "filterHeight": size, "filterWidth": size, "padding": padding}
    f.operator("AVERAGE_POOL_2D", [x], [y], "Pool2DOptions", **how)
    f.inputs, f.outputs = [x], [y]
    assert compared(opened(f.written(), tmp_path)) == {"y": 0}


@pytest.mark.parametrize("scale, zero", [(0.05, -7), (0.013, 5)])
@pytest.mark.parametrize("keep", [False, True])
def test_means_are_equal(keep, scale, zero, tmp_path):
    """Compares 4,000 sums of 196 elements; a multiplier that is rounded instead of cut off would get about 20 wrong."""
    f = File()
    x = f.tensor("x", [1, 14, 14, 4000], "int8", 0.05, -7)
    axes = f.tensor("axes", [2], "int32", None, value=np.array([1, 2], np.int32))
    y = f.tensor("y", [1, 1, 1, 4000] if keep else [1, 4000], "int8", scale, zero)
    f.operator("MEAN", [x, axes], [y], "ReducerOptions", keepDims=keep)
    f.inputs, f.outputs = [x], [y]
    assert max(compared(opened(f.written(), tmp_path)).values()) == 0


POOLED = {"strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2, "padding": 1}


@pytest.mark.parametrize(
    "data, most",
    [
        (several("ADD", "AddOptions", fusedActivationFunction=1), 0),
        (several("SUB", "SubOptions"), 0),
        (several("MUL", "MulOptions"), 0),
        (several("AVERAGE_POOL_2D", "Pool2DOptions", (1, 3, 3, 4), **POOLED), 0),
        (several("MAX_POOL_2D", "Pool2DOptions", (1, 3, 3, 4), **POOLED), 0),
        (several("MEAN", "ReducerOptions", (1, 4), keepDims=False), 0),
        (several("MEAN", "ReducerOptions", (1, 1, 1, 4), keepDims=True), 0),
        (several("SOFTMAX", "SoftmaxOptions", beta=1.0), 1),
        (several("LOGISTIC"), 1),
        (several("RESHAPE", shape=(1, 144)), 0),
        (several("RESHAPE", shape=(1, 4, 9, 4)), 0),
        (several("PAD", shape=(1, 9, 9, 4)), 0),
        (several("RESIZE_BILINEAR", "ResizeBilinearOptions", (1, 13, 9, 4), halfPixelCenters=True), 0),
        (several("QUANTIZE"), 0),
    ],
)
def test_other_operators_are_within_one_step(data, most, tmp_path):
    apart = compared(opened(data, tmp_path), 3)
    assert "y" in apart and max(apart.values()) <= most


@pytest.mark.parametrize("shape", [(1, 6, 6, 4), (1, 144)])
def test_concatenation_and_arg_max(shape, tmp_path):
    f = File()
    x = f.tensor("x", list(shape), scale=0.05, zero=-7)
    half = [*shape[:-1], 2 * shape[-1]]
    y = f.tensor("y", half, scale=0.05, zero=-7)
    f.operator("CONCATENATION", [x, x], [y], "ConcatenationOptions", axis=-1)
    axis = f.tensor("axis", [1], "int32", None, value=np.array([len(shape) - 1]))
    best = f.tensor("best", list(shape[:-1]), "int64", None)
    f.operator("ARG_MAX", [y, axis], [best], "ArgMaxOptions", outputType=4)
    f.inputs, f.outputs = [x], [best]
    assert compared(opened(f.written(), tmp_path)) == {"y": 0, "best": 0}


def test_the_main_job(tmp_path, capsys):
    path, report = tmp_path / "m.tflite", tmp_path / "r.json"
    path.write_bytes(conv())
    words = ["-m", str(path), "-r", "True", "--json", str(report)]
    assert main(words) == 0
    said = json.loads(report.read_text())
    assert [(p["a"], p["b"], p["bit_equal"]) for p in said["pairs"]] == [("reference", "simulator", True)]
    assert said["sides"][0]["engine"] == "LiteRT" and said["sides"][0]["settings"]["kernels"] == "reference"
    assert main([*words, "-b", "local", "--runtime", "litert"]) == 0
    assert {(p["a"], p["b"]) for p in json.loads(report.read_text())["pairs"]} > {("simulator", "board")}
    assert "*.map.json" not in capsys.readouterr().out
    assert main([*words, "-b", "local", "--runtime", "onnxruntime"]) == 2
    assert "wanted qvrt or litert" in capsys.readouterr().err


def test_every_operator_that_is_not_converted_is_named(tmp_path, capsys):
    f = File()
    x = f.tensor("x", [1, 8])
    y, z = f.tensor("y", [1, 8]), f.tensor("z", [1, 8])
    f.operator("SIGN", [x], [y])
    f.operator("FLOOR", [y], [z])
    f.inputs, f.outputs = [x], [z]
    (tmp_path / "m.tflite").write_bytes(f.written())
    assert main(["-m", str(tmp_path / "m.tflite"), "-r", "True"]) == 2
    printed = capsys.readouterr().err
    assert "m.tflite: 2 kinds of operators cannot be converted" in printed and "SIGN" in printed and "FLOOR" in printed


def test_a_function_of_another_type_is_refused():
    f = File()
    x, y = f.tensor("x", [1, 8], "int32", None), f.tensor("y", [1, 8], "int32", None)
    f.operator("LOGISTIC", [x], [y])
    f.inputs, f.outputs = [x], [y]
    with pytest.raises(
        UnsupportedError, match=r"LOGISTIC: a tensor of int32 .*wanted int8, uint8 or int16 .*or float32"
    ):
        convert(read_tflite(f.written(), "m.tflite"))


def test_dims_that_its_operators_do_not_make_are_refused():
    f = File()
    x, y = f.tensor("x", [1, 8]), f.tensor("y", [1, 9])
    f.operator("LOGISTIC", [x], [y])
    f.inputs, f.outputs = [x], [y]
    with pytest.raises(BadFileError, match=r"m\.tflite: tensor 1 \(y\) has the dims \[1, 9\]"):
        open_tflite("m.tflite", f.written())


@pytest.mark.parametrize(
    ("kind", "table", "shapes", "options"),
    [
        ("ADD", "AddOptions", ([1, 8], [1, 9], [1, 8]), {}),
        ("CONCATENATION", "ConcatenationOptions", ([1, 8], [2, 8], [1, 16]), {"axis": 1}),
    ],
)
def test_operands_that_do_not_fit_are_refused_with_the_file(kind, table, shapes, options):
    f = File()
    a, b, y = (f.tensor(name, shape) for name, shape in zip("aby", shapes, strict=True))
    f.operator(kind, [a, b], [y], table, **options)
    f.inputs, f.outputs = [a, b], [y]
    with pytest.raises(BadFileError, match=r"^m\.tflite: onnxruntime refuses the model: "):
        open_tflite("m.tflite", f.written())


def test_without_litert_the_extra_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "m.tflite").write_bytes(dense())
    for module in [m for m in sys.modules if m.partition(".")[0] == "ai_edge_litert"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    assert main(["-m", str(tmp_path / "m.tflite"), "-r", "True"]) == 2
    assert "a .tflite by itself needs LiteRT; pip install 'qverify[litert]'" in capsys.readouterr().err


def test_a_model_bin_beside_it_must_be_what_it_compiles_to(tmp_path, capsys):
    for name, data in (("m", dense()), ("other", dense(seed=1))):
        (tmp_path / f"{name}.tflite").write_bytes(data)
        (tmp_path / f"{name}.bin").write_bytes(open_models([str(tmp_path / f"{name}.tflite")]).binary)
    words = ["-m", f"{tmp_path / 'm.tflite'},{tmp_path / 'm.bin'}", "-r", "True"]
    assert main(words) == 0
    assert main([words[0], words[1].replace("m.bin", "other.bin"), *words[2:]]) == 2
    assert "other.bin: not what m.tflite compiles to; leave it out" in capsys.readouterr().err


def test_a_capture_of_it_is_judged_again(tmp_path, capsys):
    (tmp_path / "m.tflite").write_bytes(conv())
    assert main(["-m", str(tmp_path / "m.tflite"), "-r", "True", "--capture", str(tmp_path / "capture")]) == 0
    (tmp_path / "m.tflite").unlink()
    for more in ([], ["--rerun", "reference"]):
        assert main(["replay", str(tmp_path / "capture"), *more]) == 0
        assert "Quanti.onnx and Sim result Strict check PASSED" in capsys.readouterr().out


@pytest.mark.fuzz
@pytest.mark.parametrize("which", [dense, conv])
def test_damaged_files_are_one_line(which):
    """Cut files, and files in which one byte or several are others."""
    whole, rng, refused = which(), np.random.default_rng(7), 0
    for k in range(600):
        data = bytearray(whole[: rng.integers(0, len(whole))] if k % 3 == 0 else whole)
        for _ in range(0 if k % 3 == 0 else 1 if k % 3 == 1 else 6):
            data[int(rng.integers(0, len(data)))] = int(rng.choice([0, 1, 127, 128, 255]))
        try:
            convert(read_tflite(bytes(data), "m.tflite"))
        except QVerifyError as error:
            assert str(error).startswith("m.tflite: ") and "\n" not in str(error)
            refused += 1
    assert refused > 300


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (3, "not a .tflite (3 bytes, no TFL3 at byte 4)"),
        (10, "a .tflite that is cut off: it has 10 bytes; copy it again"),
        (40, "a .tflite that is cut off: it has 40 bytes, and something in it lies at byte "),
    ],
)
def test_a_file_that_is_cut_off_is_said_to_be(size, said, tmp_path, capsys):
    path = tmp_path / "m.tflite"
    path.write_bytes(dense()[:size])
    assert main(["-m", str(path), "-b", "local"]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_compile_and_inspect_take_it(tmp_path, capsys):
    path, out = tmp_path / "m.tflite", tmp_path / "m.bin"
    path.write_bytes(dense())
    assert main(["compile", str(path), "--list"]) == 0 and main(["compile", str(path), "-o", str(out)]) == 0
    assert main(["-m", f"{path},{out}", "-b", "local", "-r", "True", "-q"]) == 0
    capsys.readouterr()
    assert main(["inspect", str(path), "y"]) == 0
    assert "fully_connected" in capsys.readouterr().out
    for words, said in (
        (["--rounding", "pow2-floor"], "--rounding"),
        (["--no-fuse"], "--no-fuse"),
        (["--integer-onnx", str(tmp_path / "i.onnx")], "--integer-onnx"),
    ):
        assert main(["compile", str(path), "-o", str(tmp_path / "n.bin"), *words]) == 2
        shown = capsys.readouterr().err
        assert f"{said}: m.tflite is compiled" in shown and "LiteRT's arithmetic" in shown and shown.count("\n") == 1
    assert not (tmp_path / "n.bin").exists()


@pytest.mark.parametrize("words, blamed", [([], ["reference"]), (["--runtime", "litert"], ["reference", "board"])])
def test_a_kernel_that_wraps_is_blamed_and_not_who_saturates(
    words: list[str], blamed: list[str], tmp_path: Path
) -> None:
    """LiteRT's QUANTIZE adds a negative zero point to the smallest int32."""
    f = File()
    x, y = f.tensor("x", [1, 64], "float32", None), f.tensor("y", [1, 64], "int8", 0.05, -128)
    w = f.tensor("w", [4, 64], "int8", 0.01, 0, np.random.default_rng(0).integers(-100, 100, (4, 64)))
    b, z = f.tensor("b", [4], "int32", 0.0005, 0, np.arange(4)), f.tensor("z", [1, 4], "int8", 0.5, 0)
    f.operator("QUANTIZE", [x], [y])
    f.operator("FULLY_CONNECTED", [y, w, b], [z], "FullyConnectedOptions")
    f.inputs, f.outputs = [x], [z]
    (tmp_path / "m.tflite").write_bytes(f.written())
    given = np.random.default_rng(1).standard_normal((1, 64)).astype(np.float32)
    given[0, ::7], given[0, 3::9] = -1e9, -1e30
    np.save(tmp_path / "x.npy", given)
    command = ["-m", str(tmp_path / "m.tflite"), "-i", str(tmp_path / "x.npy"), "-b", "local", "-r", "True", *words]
    assert main([*command, "--json", str(tmp_path / "r.json")]) == 1
    found = json.loads((tmp_path / "r.json").read_text())["blamed"]
    assert [(b["side"], b["node"]) for b in found] == [(side, "y") for side in blamed]


def test_default_kernels_are_the_reference_where_the_others_lack_an_operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    f = File()
    x, y = f.tensor("x", [1, 256], "int8", 0.03, 4), f.tensor("y", [1, 256], "int8", 0.025, -90)
    f.operator("ELU", [x], [y])
    f.inputs, f.outputs = [x], [y]
    (tmp_path / "m.tflite").write_bytes(f.written())
    assert main(["-m", str(tmp_path / "m.tflite"), "-b", "local", "-r", "True"]) == 0
    assert (
        "the reference is LiteRT's default kernels, since its reference kernels refuse the file"
        in capsys.readouterr().out
    )


def test_a_network_of_more_inputs_than_a_small_store_keeps(tmp_path, capsys):
    """A store in memory kept 64 contents, and the model was gone before its 100 inputs had come."""
    f = File()
    inputs = [f.tensor(f"x{k}", [1, 4], "int8", 0.05, 0) for k in range(100)]
    halves = [f.tensor(f"half{k}", [1, 200], "int8", 0.05, 0) for k in range(2)]
    for k, half in enumerate(halves):
        f.operator("CONCATENATION", inputs[50 * k : 50 * k + 50], [half], "ConcatenationOptions", axis=1)
    y = f.tensor("y", [1, 400], "int8", 0.05, 0)
    f.operator("CONCATENATION", halves, [y], "ConcatenationOptions", axis=1)
    f.inputs, f.outputs = inputs, [y]
    (tmp_path / "m.tflite").write_bytes(f.written())
    assert main(["-m", str(tmp_path / "m.tflite"), "-b", "local", "-r", "True"]) == 0, capsys.readouterr()


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("seed", range(6))
def test_sums_are_those_of_the_default_kernels_where_these_are_the_reference(dtype, seed, tmp_path):
    """LiteRT's reference kernels have no ELU, and its default kernels sum integers in another way."""
    rng, f = np.random.default_rng(seed), File()
    ties, middle = seed % 2, 128 if dtype == "uint8" else 0
    steps = (2.0**-5, 2.0**-3) if ties else (rng.uniform(0.01, 0.1), rng.uniform(0.05, 0.6))
    x = f.tensor("x", [1, 6, 5, 64], dtype, steps[0], middle + int(rng.integers(-20, 20)))
    axes = f.tensor("axes", [2], "int32", None, value=np.array([1, 2]))
    y = f.tensor("y", [1, 64], dtype, steps[1], middle + int(rng.integers(-20, 20)))
    real, z = f.tensor("real", [1, 6, 5, 64], "float32", None), f.tensor("z", [1, 6, 5, 64], "float32", None)
    f.operator("SUM", [x, axes], [y], "ReducerOptions", keepDims=False)
    f.operator("DEQUANTIZE", [x], [real])
    f.operator("ELU", [real], [z])
    f.inputs, f.outputs = [x], [y, z]
    assert compared(opened(f.written(), tmp_path), seed)["y"] == 0
