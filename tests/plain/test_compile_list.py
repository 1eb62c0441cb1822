"""compile --list and the refusal name everything that keeps a model from being compiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.cli.main import main

from tests.ops.qdq import Qdq

SHAPE = (1, 2, 5, 5)


def region(m: Qdq) -> str:
    """One region, of the first picture."""
    return m.constant(f"c{len(m.constants)}", np.float32([[0, 0, 0, 4, 4]]))


def blocked() -> onnx.ModelProto:
    """Four nodes without a page; a Conv with a float output is none of them."""
    m = Qdq(seed=2, opset=19)
    x = m.input(SHAPE)
    first = m.quantize(m.op("MaxRoiPool", [x, region(m)], pooled_shape=[5, 5]))
    second = m.op("MaxRoiPool", [first, region(m)], pooled_shape=[5, 5])
    third = m.op(
        "Det", [m.op("Inverse", [m.op("Conv", [first, m.weight((2, 2, 1, 1), axis=0)])], domain="com.microsoft")]
    )
    m.output(second)
    m.output(third)
    return m.model()


def test_all_that_blocks_is_listed_with_its_next_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path, target = tmp_path / "q.onnx", tmp_path / "m.bin"
    path.write_bytes(blocked().SerializeToString())
    assert main(["compile", str(path), "--list"]) == 2
    listed = capsys.readouterr().out.splitlines()
    assert listed[0] == "q.onnx: 3 things keep 4 nodes from being compiled:"
    pooled, rest = listed[1], "\n".join(listed[2:])
    assert "(MaxRoiPool): this operator is not supported. Replace the operator" in pooled
    assert pooled.endswith("(2 MaxRoiPool nodes in all)") and "cut" not in pooled  # nothing comes before the first
    assert "(Inverse): no integer form and no float kernel for it. Replace the operator, or cut" in rest
    assert "Conv" not in rest
    assert "(Det): no integer form" in rest
    assert main(["compile", str(path), "--no-host", "-o", str(target)]) == 2
    assert capsys.readouterr().err.splitlines() == [f"qverify: {listed[0]}", *listed[1:-1]]
    assert listed[-1].startswith("without --no-host it is compiled: 4 nodes computed on the host")
    assert main(["-m", str(path), "--no-host"]) == 2
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_blocks_the_example(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["compile", str(digits / "digits_quant.onnx"), "--list"]) == 0
    assert "nothing keeps it from being compiled" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_without_an_output_it_is_said(digits: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["compile", str(digits / "digits_quant.onnx")]) == 2
    assert "'-o'" in capsys.readouterr().err


def test_dynamic_quantization_is_quantization(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], name="dyn"),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["y"], name="product"),
    ]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])]
    y = [helper.make_tensor_value_info("y", TensorProto.INT32, [2, 4])]
    graph = helper.make_graph(nodes, "g", ends, y, [numpy_helper.from_array(np.ones((3, 4), np.uint8), "w")])
    path = tmp_path / "q.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert main(["compile", str(path), "--list"]) == 0
    assert "nothing keeps it from being compiled" in capsys.readouterr().out


def test_names_of_the_file_add_no_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = blocked()
    for node in model.graph.node:
        node.name = f"{node.name}\nqverify: PASSED"
    path = tmp_path / "q.onnx"
    path.write_bytes(model.SerializeToString())
    assert main(["compile", str(path), "--list"]) == 2
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert main(["compile", str(path), "--no-host", "-o", str(tmp_path / "m.bin")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 4


def listed(m: Qdq, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    path = tmp_path / "q.onnx"
    path.write_bytes(m.model().SerializeToString())
    assert main(["compile", str(path), "--list"]) == 2
    return capsys.readouterr().out.splitlines()


def test_a_tensor_without_elements_is_named_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    m = Qdq(seed=2)
    x = m.op("Relu", [m.input((2, 5))])
    m.output(m.quantize(x))
    ends = [m.constant(f"c{at}", np.int64([at])) for at in (0, 0, 1)]
    m.output(m.op("Slice", [x, ends[0], ends[1], ends[2]]))
    said, *_ = listed(m, tmp_path, capsys)
    assert said.endswith(
        "'slice5' has dims [2, 0], so no elements; wanted dims of 1 or more. Export the model without it"
    )


def test_what_is_computed_from_float64_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    m, path = Qdq(seed=2), tmp_path / "q.onnx"
    x = m.quantize(m.op("Relu", [m.input((2, 5))]))
    wide = m.op("Add", [m.op("Cast", [x], to=TensorProto.DOUBLE), m.constant("half", np.float64(0.5))])
    m.output(m.op("Cast", [m.op("Mul", [wide, wide])], to=TensorProto.FLOAT))
    path.write_bytes(m.model().SerializeToString())
    assert main(["compile", str(path), "-o", str(tmp_path / "m.bin")]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "on the host" in line]
    assert len(said) == 4 and not any("known when" in line for line in said), said
    assert all(" is double" in line and "Export it as float32, or cut the model before it" in line for line in said)
