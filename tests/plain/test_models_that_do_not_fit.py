"""`compare -m` with a file that is no ONNX, is cut off, that onnxruntime refuses, or of another network: one line each, with what
is wanted, and no dump is blamed for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from qverify.cli.main import main
from qverify.onnx_model.engine import version

from tests.plain.test_compare_locates import MODEL, QUANT, RELU1, compare, host, plus, save

__all__ = ["host"]
Array = np.ndarray


def _text() -> bytes:
    return b"hello\n"


def _cut() -> bytes:
    return Path(MODEL).read_bytes()[:3000]


def _changed(change: Callable[[onnx.ModelProto], object]) -> bytes:
    model = onnx.load(MODEL)
    change(model)
    return model.SerializeToString()


def _of_a_newer_opset() -> bytes:
    return _changed(lambda m: setattr(m.opset_import[0], "version", 99))


def _of_another_input() -> bytes:
    return _changed(lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[2], "dim_value", 5))


def _of_other_names() -> bytes:
    def rename(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            for names in (node.input, node.output):
                names[:] = [f"net/{n}" for n in names]
        for item in (*model.graph.initializer, *model.graph.input, *model.graph.output, *model.graph.value_info):
            item.name = f"net/{item.name}"

    return _changed(rename)


FIT = "; wanted an ONNX that onnxruntime "
CASES = {
    _text: "wrong.onnx: not an ONNX: 6 bytes that protobuf does not parse, of another format or cut off; give the whole .onnx",
    _cut: "wrong.onnx: not an ONNX: 3000 bytes that protobuf does not parse, of another format or cut off",
    _of_a_newer_opset: "wrong.onnx: onnxruntime refuses the model: it is of a newer opset than ",
    _of_another_input: "wrong.onnx: onnxruntime refuses the model: Node (logits) Op (Gemm) [ShapeInferenceError] ",
    _of_other_names: "-m wrong.onnx: none of its 9 tensors is in host or b.npz: got image_QuantizeLinear_Output, relu1_Quant",
}


@pytest.mark.parametrize("make", CASES)
def test_a_wrong_model_is_one_line(
    host: dict[str, Array], make: Callable[[], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("wrong.onnx").write_bytes(make())
    path = save({**host, RELU1: plus(3)(host[RELU1])})
    capsys.readouterr()
    assert main(["compare", "host", path, "-m", "wrong.onnx"]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1 and shown.err.startswith(f"qverify: {CASES[make]}")
    assert "ONNXRuntimeError" not in shown.err and "guarantees" not in shown.err
    if make is _of_a_newer_opset:
        assert "export it with opset " in shown.err and version() in shown.err
    if make is _of_another_input:
        assert shown.err.rstrip().endswith(f"{FIT}{version()} runs: export it again, or give the right file")
    if make is _of_other_names:
        assert shown.err.rstrip().endswith("give the network that the dumps are of, or no -m")


def test_a_network_of_the_same_names_blames_no_dump(host: dict[str, Array]) -> None:
    """Its first convolution has 4 channels, those of the dumps have 8."""
    model = onnx.load(MODEL)
    for constant in model.graph.initializer:
        value = numpy_helper.to_array(constant)
        axis = {(8, 1, 3, 3): 0, (8,): 0, (16, 8, 3, 3): 1}.get(value.shape)
        if axis is not None:
            half = np.ascontiguousarray(np.take(value, range(4), axis))
            constant.CopyFrom(numpy_helper.from_array(half, constant.name))
    onnx.save(model, MODEL)
    report = compare("host", save({**host, RELU1: plus(3)(host[RELU1])}))
    (pair,) = report["pairs"]
    assert (report["verdict"], pair["cause"], report["blame"]) == ("FAILED", "unlocated", None)
    forced = {row["name"]: row["forced"] for row in pair["tensors"]}
    assert forced[RELU1]["why"] == f"{RELU1} has 512 elements in both dumps, 256 in the model (-m of another network?)"
    assert forced[QUANT[2]]["why"].startswith(f"its input {RELU1} is uint8[1, 8, 8, 8] in B, uint8[1, 4, 8, 8] in")
    assert not any("ONNXRuntimeError" in note for note in pair["notes"])
