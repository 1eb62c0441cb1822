"""compile refuses what the main job, its own reader or the runtime would refuse later, and then writes no file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.cli.main import main
from qverify.errors import BadFileError
from qverify.model_bin.check import check_graph
from qverify.model_bin.graph import Graph, Node
from qverify.session.check_readable import check_readable
from qverify.tensors.spec import TensorSpec

Dims = list[Any] | None


def model(shape: Dims, nodes: list[onnx.NodeProto], out: Dims = None, **constants: Any) -> onnx.ModelProto:
    """Between "d", a dequantized input of this shape, and "r", which is quantized again."""
    held = {"s": np.float32(0.05), "z": np.uint8(128), **{k: np.array(v, np.int64) for k, v in constants.items()}}
    ends = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q0"]),
        helper.make_node("DequantizeLinear", ["q0", "s", "z"], ["d"]),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["q1"]),
        helper.make_node("DequantizeLinear", ["q1", "s", "z"], ["y"]),
    ]
    made = helper.make_tensor_value_info
    x, y = made("x", TensorProto.FLOAT, shape), made("y", TensorProto.FLOAT, shape if out is None else out)
    initializers = [numpy_helper.from_array(np.asarray(v), n) for n, v in held.items()]
    graph = helper.make_graph([*ends[:2], *nodes, *ends[2:]], "g", [x], [y], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def relu(shape: Dims) -> onnx.ModelProto:
    return model(shape, [helper.make_node("Relu", ["d"], ["r"])])


def reshape(shape: Dims) -> onnx.ModelProto:
    return model(shape, [helper.make_node("Reshape", ["d", "to"], ["r"])], ["n", 32], to=[1, 32])


CASES = {
    "a fixed dim given otherwise": (relu([1, 3, 8, 8]), ["x=2,3,8,8"], "got 2 where the model has 1"),
    "a fixed dim among dynamic ones": (relu(["n", 3, 8, 8]), ["x=1,4,8,8"], "got 4 where the model has 3"),
    "too few dims": (relu(["n", 3, 8, 8]), ["x=1,3,8"], "3 dims, the model's input has 4"),
    "one input twice": (relu(["n", 3]), ["x=1,3", "x=2,3"], "another --shape gives 'x' the dims 1,3"),
    "beyond 64 bits": (relu(["n", 3]), ["x=99999999999999999999,3"], "dims of 0 to 1073741824"),
    "beyond 2 GiB": (relu(["n", 3]), ["x=500000000,3"], "6000000000 bytes, a tensor may have at most 2147483647"),
    "no such input": (relu(["n", 3]), ["image=1,3"], "names ['image'], the model's inputs are ['x']"),
    "a shape that the graph contradicts": (reshape(["n", 4, 8]), ["x=2,4,8"], "does not run with --shape x=2,4,8"),
    "no shape at all": (relu(None), [], "for example --shape x=1,3,224,224"),
    "nine dims": (relu([1] * 8 + [2]), [], "tensor 'x' has 9 dims [1, 1, 1, 1, 1, 1, 1, 1, 2]; model.bin may have at most 8"),
    "nine dims inside": (
        model([1, 8], [helper.make_node("Reshape", ["d", "to"], ["r"])], [1] * 8 + [8], to=[1] * 8 + [8]),
        [],
        "node 'q1' (reshape): its output 'q1' has 9 dims",
    ),
    "70 inputs": (model([1, 3], [helper.make_node("Concat", ["d"] * 70, ["r"], axis=1)], [1, 210]), [], "(concat): 70 inputs"),
    "4200 nodes in one table": (
        model([1], [helper.make_node("Relu", [f"t{i}" if i else "d"], [f"t{i + 1}" if i < 4199 else "r"]) for i in range(4200)]),
        [],
        "4200 ONNX nodes it stands for; model.bin may have at most 4096",
    ),
    "a step beyond 32 bits": (
        model([1, 3], [helper.make_node("Slice", ["d", *"abce"], ["r"])], [1, 1], a=[0], b=[9], c=[1], e=[2**40]),
        [],
        "(slice): a word is 1099511627776",
    ),
    "a window only the runtime refuses": (
        model([1, 1, 3, 3], [helper.make_node("MaxPool", ["d"], ["r"], kernel_shape=[1, 1], strides=[70000, 1])], [1, 1, 1, 3]),
        [],
        "the runtime refuses it: not a valid model.bin: q1 (max_pool): word 2 is 70000",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_refused_in_one_line_and_nothing_is_written(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    made, shapes, said = CASES[name]
    source, target = tmp_path / "q.onnx", tmp_path / "m.bin"
    source.write_bytes(made.SerializeToString())
    options = [word for shape in shapes for word in ("--shape", shape)]
    assert main(["compile", str(source), "-o", str(target), "--no-check", *options]) == 2
    line = capsys.readouterr().err
    assert said in line and line.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["q.onnx"]


@pytest.mark.parametrize("shape", [["n", 3, 8, 8], None])
def test_shapes_given_at_compile_time_hold_in_the_main_job(shape: Dims, tmp_path: Path):
    source, target = tmp_path / "q.onnx", tmp_path / "m.bin"
    source.write_bytes(model(shape, [helper.make_node("Relu", ["d"], ["r"])], ["a", "b", "c", "e"]).SerializeToString())
    assert main(["compile", str(source), "-o", str(target), "--shape", "x=2,3,8,8"]) == 0
    assert main(["-m", f"{source},{target}"]) == 0
    assert main(["-m", f"{source},{target}", "--shape", "x=2,3,8,8"]) == 0
    assert main(["-m", f"{source},{target}", "--shape", "x=1,3,8,8"]) == 2


@pytest.mark.parametrize(
    ("nodes", "tensors", "said"),
    [
        (1, 65_536, "65537 tensors; model.bin may have at most 65536. Cut the model in two"),
        (65_537, 0, "65537 nodes; model.bin may have at most 65536"),
    ],
)
def test_counts(nodes: int, tensors: int, said: str):
    specs = {n: TensorSpec(n, "uint8", (1,)) for n in ["x", *(f"t{i}" for i in range(tensors))]}
    made = [Node("t0", "reshape", ("x",), ("t0",))] * nodes
    with pytest.raises(BadFileError, match=said):
        check_graph(Graph(made, specs, {}, ("x",), ("t0",)))


def test_a_name_with_nul_and_a_tensor_of_two_gigabytes():
    specs = {n: TensorSpec(n, "float32", (2**29,) if n == "y" else (1,)) for n in ("x", "y")}
    with pytest.raises(BadFileError, match=r"node 'y' \(reshape\): its output 'y' has 2147483648 bytes"):
        check_graph(Graph([Node("y", "reshape", ("x",), ("y",))], specs, {}, ("x",), ("y",)))
    specs["y"] = TensorSpec("y", "float32", (1,))
    with pytest.raises(BadFileError, match="contains a NUL character"):
        check_graph(Graph([Node("y", "reshape", ("x",), ("y",), covers=("a\0b",))], specs, {}, ("x",), ("y",)))


def test_a_file_its_own_reader_refuses(tmp_path: Path):
    path = tmp_path / "m.bin"
    path.write_bytes(b"QVMODEL\0" + bytes(500))
    with pytest.raises(BadFileError, match="its own reader refuses it"):
        check_readable(str(path))
