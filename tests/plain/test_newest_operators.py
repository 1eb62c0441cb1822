"""Tests that an operator without a kernel in onnxruntime is verified in a form that is the same function, and is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from qverify.compiler.compile_model import compile_model
from qverify.errors import BadFileError, RefusedModelError
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.load import load
from qverify.session.job import verify
from qverify.session.request import Request

from tests.ops.qdq import Qdq

Array = np.ndarray


def at_opset(build: Callable[[Qdq], None], opset: int) -> onnx.ModelProto:
    """The model that build() makes, which states this opset; what it measures it measures in opset 23."""
    m = Qdq(seed=1, opset=23)
    m.output(m.quantize(m.input((2, 3, 8))))
    build(m)
    m.opset = opset
    return m.model()


def swish(m: Qdq) -> None:
    m.output(m.op("Swish", [m.outputs[0]], alpha=1.7))


def gate(m: Qdq) -> None:
    m.output(m.op("SwiGLU", [m.outputs[0], m.op("Relu", [m.outputs[0]])], alpha=0.8))


def quantizers(m: Qdq) -> None:
    m.output(m.op("Relu", [m.outputs[0]]))


def wanted(name: str, x: Array) -> Array:
    alpha = {"swish": 1.7, "gate": 0.8}.get(name)
    if alpha is None:
        return np.maximum(x, 0)
    return x / (1 + np.exp(-alpha * x.astype(np.float64))) * (np.maximum(x, 0) if name == "gate" else 1)


@pytest.mark.parametrize(
    ("build", "opset", "note"),
    [
        (swish, 26, "no kernel of Swish in opset 26: 1 node verified as QuickGelu (com.microsoft), the same function"),
        (swish, 28, "verified as opset 27, in which each operator of the model is the same"),
        (gate, 28, "no kernel of SwiGLU in opset 28: 1 node verified as QuickGelu (com.microsoft) and Mul"),
        (quantizers, 28, "no kernel of DequantizeLinear and QuantizeLinear in opset 28: verified as opset 27"),
    ],
)
def test_it_is_verified_in_another_form(build: Callable[[Qdq], None], opset: int, note: str, tmp_path: Path) -> None:
    model = at_opset(build, opset)
    with pytest.raises(RefusedModelError):
        Engine(model.SerializeToString())
    path = tmp_path / "new.onnx"
    path.write_bytes(model.SerializeToString())
    report = verify(Request([str(path)], "local")).report
    assert report.verdict == "PASSED" and any(note in n for n in report.notes), report.notes
    loaded = load(model.SerializeToString(), "new")
    values = Engine(loaded.SerializeToString()).run({"in0": np.linspace(-3, 4, 48, dtype=np.float32).reshape(2, 3, 8)})
    x, y = (values[o.name] for o in model.graph.output)
    assert np.allclose(y, wanted(build.__name__, x), rtol=0, atol=1e-6)


def test_an_operator_without_an_older_form_stays_refused() -> None:
    """SpaceToDepth has a mode from opset 28 on."""

    def build(m: Qdq) -> None:
        x = m.input((1, 2, 4, 4))
        m.output(m.op("SpaceToDepth", [x], blocksize=2, mode="CRD"))

    with pytest.raises(RefusedModelError, match="Could not find an implementation"):
        compile_model(at_opset(build, 28).SerializeToString(), "new.onnx")


def test_a_swiglu_without_a_second_operand_is_refused() -> None:
    def build(m: Qdq) -> None:
        m.output(m.op("SwiGLU", [m.outputs[0]], "half"))
        m.kinds["half"] = (2, 3, 8)

    m = Qdq(opset=23)
    m.outputs = [m.input((2, 3, 8))]
    build(m)
    model = m.model(["half"])
    model.opset_import[0].version = 28
    with pytest.raises(BadFileError):
        compile_model(model.SerializeToString(), "new.onnx")


def packed(kind: int, dims: tuple[int, ...], data: Array, name: str) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name=name, data_type=kind, dims=dims)
    tensor.raw_data = data.astype(np.uint8).tobytes()
    return tensor


FLOAT4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def float4_model(scale: str) -> tuple[onnx.ModelProto, Array]:
    """A MatMul by weights of float4 in blocks of 16, and the weights. scale: how the scales are stored: float32, float8
    with a scale of their own (NVFP4), or powers of two (MXFP4), cast or not."""
    rng, m = np.random.default_rng(3), Qdq(opset=25)
    codes = rng.integers(0, 256, 32 * 8 // 2)
    values = FLOAT4[np.stack([codes & 15, codes >> 4], -1).reshape(32, 8)]
    extra = [packed(TensorProto.FLOAT4E2M1, (32, 8), codes, "w")]
    if scale == "float32":
        scales = rng.uniform(0.01, 0.1, (2, 8)).astype(np.float32)
        m.constant("scales", scales)
    elif scale == "nvfp4":
        bits = rng.integers(48, 72, (2, 8))
        extra.append(packed(TensorProto.FLOAT8E4M3FN, (2, 8), bits, "bits"))
        m.op("DequantizeLinear", ["bits", m.constant("global", np.float32(0.05))], "scales")
        of_bits = 2.0 ** ((bits >> 3) - 7) * (1 + (bits & 7) / 8)
        scales = (of_bits * np.float64(np.float32(0.05))).astype(np.float32)
    else:
        bits = rng.integers(121, 126, (2, 8))
        extra.append(packed(TensorProto.FLOAT8E8M0, (2, 8), bits, "bits" if scale == "cast" else "scales"))
        if scale == "cast":
            m.op("Cast", ["bits"], "scales", to=TensorProto.FLOAT)
        scales = (2.0 ** (bits - 127)).astype(np.float32)
    more = {"output_dtype": TensorProto.FLOAT} if scale == "mxfp4" else {}
    w = m.op("DequantizeLinear", ["w", "scales"], axis=0, block_size=16, **more)
    x = m.input((3, 32))
    m.output(m.op("MatMul", [x, w]))
    m.kinds[m.outputs[0]] = (3, 8)
    made = onnx.ModelProto()
    made.CopyFrom(_with(m, extra))
    return made, values * np.repeat(scales, 16, axis=0)


def _with(m: Qdq, extra: list[onnx.TensorProto]) -> onnx.ModelProto:
    outputs, m.outputs = m.outputs, []
    model = m.model(outputs)
    model.graph.initializer.extend(extra)
    model.ir_version = 12
    return model


@pytest.mark.parametrize("scale", ["float32", "nvfp4", "mxfp4", "cast"])
def test_weights_of_float4_are_unpacked(scale: str, tmp_path: Path) -> None:
    model, weights = float4_model(scale)
    with pytest.raises(RefusedModelError):
        Engine(model.SerializeToString())
    graph = compile_model(model.SerializeToString(), "w.onnx").graph
    assert not graph.islands and any(np.array_equal(c, weights) for c in graph.constants.values() if c.shape == (32, 8))
    path = tmp_path / "w.onnx"
    path.write_bytes(model.SerializeToString())
    assert verify(Request([str(path)], "local")).report.verdict == "PASSED"


def test_a_scale_that_is_not_a_number_is_not_converted() -> None:
    model, _ = float4_model("mxfp4")
    next(i for i in model.graph.initializer if i.name == "scales").raw_data = bytes([255] * 16)
    with pytest.raises(Exception, match=r"onnxruntime|NaN"):
        compile_model(model.SerializeToString(), "w.onnx")


def test_a_swish_inside_a_branch_is_written_too() -> None:
    inner = helper.make_graph(
        [helper.make_node("Swish", ["x"], ["y"], alpha=0.5)], "b", [], [onnx.ValueInfoProto(name="y")]
    )
    node = helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, [4]), helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("z", 1, [4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=12)
    loaded = load(model.SerializeToString(), "if")
    x = np.array([-2, -1, 0.5, 3], np.float32)
    y = Engine(loaded.SerializeToString()).run({"x": x, "c": np.array(True)})["z"]
    assert np.allclose(y, x / (1 + np.exp(-0.5 * x)), rtol=0, atol=1e-6)
