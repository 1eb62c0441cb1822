"""Weights of 2, 4 and 8 bits in blocks, and small integers with one scale: the numbers that onnxruntime computes with, or
a refusal by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from qverify.compare.options import Options
from qverify.compiler.compile_model import CompiledModel, compile_model
from qverify.compiler.unpack_weights import obstacle
from qverify.errors import BadFileError, UnsupportedError
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.load import read_model
from qverify.session.job import verify
from qverify.session.request import Request

from tests.ops.cases.matmul_float import n_bits
from tests.ops.qdq import Qdq
from tests.plain.verified_model import passes


def compiled(m: Qdq) -> CompiledModel:
    return compile_model(m.model().SerializeToString(), "q.onnx")


def refused(m: Qdq, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        compiled(m)


def held(result: CompiledModel) -> np.ndarray:
    """The weight of the only matmul_float."""
    node = next(n for n in result.graph.nodes if n.op == "matmul_float")
    return result.graph.constants[node.inputs[1] or ""]


def ends_in_passed(m: Qdq, tmp_path: Path) -> list[str]:
    """Asserts that every node passes; the report's notes."""
    path = tmp_path / "q.onnx"
    path.write_bytes(m.model().SerializeToString())
    report = verify(Request([str(path)], "local", options=Options(dump_all=True))).report
    assert report.verdict == "PASSED"
    pairs = {(p.a, p.b): p for p in report.pairs}
    assert pairs["simulator", "board"].bit_equal
    return report.notes


def plain(seed: int = 0, opset: int = 21) -> Qdq:
    """An empty model."""
    return Qdq(seed=seed, opset=opset)


def floats_in(m: Qdq, shape: tuple[int, ...]) -> str:
    """A float input that nothing quantizes."""
    m.inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, shape))
    m.feed["x"] = m.rng.normal(size=shape).astype(np.float32)
    return "x"


def small_integers(m: Qdq, shape: tuple[int, ...], kind: str, scale: np.ndarray, **attrs: int) -> str:
    """A constant of 2 or 4 bits behind its DequantizeLinear, with zero points."""
    dtype = helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(kind.upper()))
    count = 1 << int(kind[-1])
    low = -count // 2 if kind.startswith("int") else 0
    value, zeros = (m.rng.integers(low, low + count, s).astype(dtype) for s in (shape, scale.shape))
    stored = [m.constant("w", value), m.constant("s", scale.astype(np.float32)), m.constant("z", zeros)]
    return m.op("DequantizeLinear", stored, **attrs)


@pytest.mark.parametrize("kind", ["int4", "uint4"])
def test_blocks_hold_what_onnxruntime_dequantizes(kind: str, tmp_path: Path):
    """A file whose only quantized tensor is a weight of 4 bits, without an operator on integers after it is folded."""
    m = plain()
    weight = small_integers(m, (45, 24), kind, m.rng.uniform(0.01, 0.1, (3, 24)), axis=0, block_size=16)
    m.output(m.op("MatMul", [floats_in(m, (5, 45)), weight]))
    wanted = Engine(m.model([weight]).SerializeToString()).run(m.feed)[weight]
    w, s, z = (m.constants[n] for n in ("w", "s", "z"))
    rows = np.arange(45) // 16
    centred = w.astype(np.int32) - z.astype(np.int32)[rows]
    assert np.array_equal(wanted, centred.astype(np.float32) * s[rows])
    assert held(compiled(m)).tobytes() == wanted.tobytes()
    assert any("1 MatMul has weights in blocks" in note for note in ends_in_passed(m, tmp_path))


@pytest.mark.parametrize("kind", ["int2", "uint2"])
def test_why_default_onnxruntime_differs_with_2_bits(kind: str, tmp_path: Path):
    """Its optimizer makes a MatMulNBits of 2 bits, which is wrong where nothing is rounded to 8 bits, too."""
    m = plain(opset=25)
    weight = small_integers(m, (64, 6), kind, m.rng.uniform(0.01, 0.1, (2, 6)), axis=0, block_size=32)
    m.output(m.op("MatMul", [floats_in(m, (3, 64)), weight]))
    notes = [note for note in ends_in_passed(m, tmp_path) if "in blocks" in note]
    assert len(notes) == 1 and "1 MatMul has weights of 2 bits in blocks" in notes[0]
    assert "whose result is wrong" in notes[0] and "8 bits" not in notes[0]


def test_blocks_of_a_convolution(tmp_path: Path):
    m = plain()
    weight = small_integers(m, (6, 32, 3, 3), "int4", m.rng.uniform(0.01, 0.1, (6, 2, 3, 3)), axis=1, block_size=16)
    m.output(m.quantize(m.op("Conv", [m.input((1, 32, 7, 5)), weight])))
    assert "conv_float" in {n.op for n in compiled(m).graph.nodes}
    ends_in_passed(m, tmp_path)


@pytest.mark.parametrize(("kind", "axis"), [("int4", 0), ("uint4", None)])
def test_four_bits_with_one_scale_are_integers_of_eight(kind: str, axis: int | None, tmp_path: Path):
    """The integer kernels compute with them; no float node is made of them."""
    m = plain()
    scale = m.rng.uniform(0.01, 0.1, () if axis is None else (6,))
    weight = small_integers(m, (6, 5, 3, 3), kind, np.asarray(scale), **({} if axis is None else {"axis": axis}))
    m.output(m.quantize(m.op("Conv", [m.input((1, 5, 7, 5)), weight])))
    graph = passes(m.model(), tmp_path, plain=False)
    conv = next(n for n in graph.nodes if n.op == "conv")
    assert graph.spec(conv.inputs[1] or "").dtype == kind.removesuffix("4") + "8"


@pytest.mark.parametrize("kind", ["int4", "uint4", "int8"])
@pytest.mark.parametrize("blocks", [True, False])
def test_weights_quantized_by_a_node(kind: str, blocks: bool, tmp_path: Path):
    """QuantizeLinear and DequantizeLinear of a float constant: with blocks a float32 constant, else an integer weight."""
    m = plain()
    shape, attrs = ((2, 8), {"axis": 0, "block_size": 16}) if blocks else ((8,), {"axis": 1})
    dtype = helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(kind.upper()))
    s, z = m.constant("s", m.rng.uniform(0.1, 0.3, shape).astype(np.float32)), m.constant("z", np.ones(shape, dtype))
    q = m.op("QuantizeLinear", [m.constant("w", m.rng.normal(size=(32, 8)).astype(np.float32)), s, z], **attrs)
    x = (
        m.op("Tanh", [m.input((4, 32))]) if blocks else m.input((4, 32))
    )  # onnxruntime fails on integers and blocks of 8 bits
    m.output(m.op("MatMul", [x, m.op("DequantizeLinear", [q, s, z], **attrs)]))
    assert [n.op for n in compiled(m).graph.nodes][-1] == ("matmul_float" if blocks else "matmul")
    ends_in_passed(m, tmp_path)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["", "packed"])
def test_n_bits_are_unpacked_as_onnxruntime_does(bits: int, zeros: str):
    """Its MatMulNBits of the identity gives each weight; a bias and blocks that K does not fill."""
    m = plain(opset=17)
    m.output(n_bits(m, floats_in(m, (45, 45)), 45, 9, bits, zeros=zeros, bias=True))
    m.feed["x"] = np.eye(45, dtype=np.float32)
    bias = next(v for n, v in m.constants.items() if n.startswith("bias"))
    weights = held(compiled(m))
    reference = Engine(m.model().SerializeToString()).run(m.feed)[m.outputs[0]]
    assert weights.shape == (45, 9) and np.abs(weights).max() > 0.01
    assert np.abs(weights + bias - reference).max() <= 2.0**-20 * np.abs(reference).max()


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_accuracy_levels_are_verified_in_float32(level: int, tmp_path: Path):
    """But for 4: tests/plain/test_integer_blocks.py."""
    m = plain(opset=17)
    m.output(n_bits(m, floats_in(m, (5, 64)), 64, 24, 4, size=32, zeros="packed", accuracy_level=level))
    integer = onnx.load_from_string(compiled(m).integer_onnx)
    assert {n.op_type for n in integer.graph.node} == {"MatMul"}
    assert not any("accuracy level" in note for note in ends_in_passed(m, tmp_path))


def ordered(order: np.ndarray, bits: int = 4, zeros: str = "", rows: int = 45, bias: bool = False) -> Qdq:
    """A model whose weights of a block of 16 are those rows that `order`, its g_idx, gives the block's number."""
    m = plain(opset=17)
    m.output(n_bits(m, floats_in(m, (rows, rows)), rows, 9, bits, zeros=zeros, bias=bias))
    m.feed["x"] = np.eye(rows, dtype=np.float32)
    words = m.nodes[-1].input
    words.extend([""] * (4 - len(words)))
    name = m.constant("order", order)
    words[4:5] = [name]
    return m


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("length", [45, 48])
@pytest.mark.parametrize("zeros", ["", "float"])
def test_rows_in_another_order(zeros: str, length: int, bias: bool, tmp_path: Path):
    """GPTQ's act_order; onnxruntime's MatMulNBits of the identity gives each weight."""
    m = ordered((np.arange(length)[::-1] * 7 % length // 16).astype(np.int32), zeros=zeros, bias=bias)
    added = next((v for n, v in m.constants.items() if n.startswith("bias")), np.zeros(9, np.float32))
    weights = held(compiled(m))
    reference = Engine(m.model().SerializeToString()).run(m.feed)[m.outputs[0]]
    assert np.abs(weights + added - reference).max() <= 2.0**-20 * np.abs(reference).max()
    ends_in_passed(m, tmp_path)


@pytest.mark.parametrize(
    ("order", "bits", "zeros", "said"),
    [
        (np.zeros(45, np.int32), 4, "packed", "onnxruntime ignores packed zero points"),
        (np.zeros(45, np.int32), 2, "", "g_idx beside bits=2 has no right kernel"),
        (np.zeros(45, np.int64), 4, "", "g_idx is int64 of 45 elements; wanted int32 of 45"),
        (np.zeros(44, np.int32), 4, "", "g_idx is int32 of 44 elements"),
        (np.full(45, 3, np.int32), 4, "", "g_idx has values from 3 to 3; wanted 0 to 2"),
        (np.full(45, -1, np.int32), 4, "", "g_idx has values from -1 to -1"),
    ],
)
def test_an_order_that_onnxruntime_does_not_follow_is_refused(order: np.ndarray, bits: int, zeros: str, said: str):
    m = ordered(order, bits, zeros)
    model = m.model()
    assert said in obstacle(model.graph.node[-1], {i.name: i for i in model.graph.initializer})
    with pytest.raises((UnsupportedError, BadFileError), match="MatMulNBits"):  # some of it by onnxruntime itself
        compiled(m)


def test_one_constant_for_nodes_of_the_same_weight():
    m = plain(opset=17)
    first = n_bits(m, floats_in(m, (5, 64)), 64, 64, 4)
    second = onnx.NodeProto.FromString(m.nodes[-1].SerializeToString())
    second.input[0], second.output[0], second.name = first, "again", "again_node"
    m.nodes.append(second)
    m.output("again")
    graph = compiled(m).graph
    assert len({n.inputs[1] for n in graph.nodes}) == 1 and len(graph.nodes) == 2


def test_external_data_of_small_integers(tmp_path: Path):
    m = plain()
    weight = small_integers(m, (45, 24), "int4", m.rng.uniform(0.01, 0.1, (3, 24)), axis=0, block_size=16)
    m.output(m.op("MatMul", [floats_in(m, (5, 45)), weight]))
    path = tmp_path / "q.onnx"
    onnx.save_model(m.model(), path, save_as_external_data=True, location="q.data", size_threshold=0)
    again = compile_model(read_model(str(path)), "q.onnx")
    assert held(again).tobytes() == held(compiled(m)).tobytes()


def test_blocks_of_tensors_at_run_time_are_refused():
    m = plain()
    s, z = m.constant("s", np.full((5, 2), 0.1, np.float32)), m.constant("z", np.zeros((5, 2), np.uint8))
    q = m.op("QuantizeLinear", [floats_in(m, (5, 32)), s, z], axis=1, block_size=16)
    m.output(m.op("DequantizeLinear", [q, s, z], axis=1, block_size=16))
    refused(m, "blocked quantization is supported for constants")


def test_what_cannot_be_unpacked_is_refused_by_name():
    m = plain(opset=17)
    x = floats_in(m, (5, 64))
    m.inputs.append(helper.make_tensor_value_info("scales", TensorProto.FLOAT, (24, 4)))
    m.feed["scales"] = np.ones((24, 4), np.float32)
    m.output(n_bits(m, x, 64, 24, 4))
    m.nodes[-1].input[2] = "scales"
    refused(m, "'scales' is computed at run time")


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_a_float_weight_that_the_model_quantizes_to_4_bits_behind_a_pool_with_ceil_mode(kind: str, tmp_path: Path):
    """AIMET's form. The pool's shape is found by a run, which cannot return 4-bit tensors; inference finds theirs."""
    m = plain(seed=3)
    pooled = m.op(kind, [m.input((1, 4, 7, 7))], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    dtype = helper.tensor_dtype_to_np_dtype(TensorProto.INT4)
    scale = [m.constant("s", np.full(5, 0.11, np.float32)), m.constant("z", np.zeros(5, dtype))]
    weight = m.constant("w", m.rng.uniform(-0.8, 0.8, (5, 4, 3, 3)).astype(np.float32))
    stored = m.op("QuantizeLinear", [weight, *scale], axis=0)
    x = m.quantize(pooled)
    m.output(m.quantize(m.op("Conv", [x, m.op("DequantizeLinear", [stored, *scale], axis=0)])))
    passes(m.model(), tmp_path)
