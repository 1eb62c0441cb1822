"""Movements between DequantizeLinear and an operator and before QuantizeLinear: integers move, the bits stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from qverify.compiler.same_bits import check_same_bits
from qverify.errors import InternalError
from qverify.onnx_model.exact_products import inexact_kernels
from qverify.session.job import verify
from qverify.session.request import Request

from tests.ops.qdq import Qdq
from tests.plain.verified_model import passes, small

INT = np.int64


def transposed_weights(m: Qdq) -> None:
    """Per-channel weights stored transposed, as torch exports x @ w.T."""
    x, w = m.input((3, 7)), m.weight((5, 7), axis=0)
    m.output(m.quantize(m.op("MatMul", [x, m.op("Transpose", [w], perm=[1, 0])])))


def reshaped_weights(m: Qdq) -> None:
    x, w = m.input((1, 3, 5, 5)), m.weight((4, 27), axis=0)
    shape = m.constant("shape", np.array([4, 3, 3, 3], INT))
    m.output(m.quantize(m.op("Conv", [x, m.op("Reshape", [w, shape])])))


def unsqueezed_weights(m: Qdq) -> None:
    x, w = m.input((1, 3, 11)), m.weight((4, 3), axis=0)
    axes = m.constant("axes", np.array([2], INT))
    m.output(m.quantize(m.op("Conv", [x, m.op("Identity", [m.op("Unsqueeze", [w, axes])])])))


def activation_behind_dequantize(m: Qdq) -> None:
    """DQ -> Dropout -> Flatten -> Gemm, as the ends of classifiers are."""
    x, w = m.input((2, 3, 4, 5)), m.weight((60, 7), axis=1)
    m.output(m.quantize(m.op("Gemm", [m.op("Flatten", [m.op("Dropout", [x])]), w, m.bias(x, w, 7)])))


def heads_of_attention(m: Qdq) -> None:
    """Reshape and Transpose on both sides of two MatMuls."""
    x, w = m.input((1, 6, 8)), m.weight((8, 8))
    shape, back = m.constant("shape", np.array([1, 6, 2, 4], INT)), m.constant("back", np.array([1, 6, 8], INT))
    q = m.quantize(m.op("MatMul", [x, w]))
    heads = m.op("Transpose", [m.op("Reshape", [q, shape])], perm=[0, 2, 1, 3])
    keys = m.op("Transpose", [m.op("Reshape", [q, shape])], perm=[0, 2, 3, 1])
    scores = m.quantize(m.op("MatMul", [heads, keys]))
    rows = m.op("Transpose", [m.op("MatMul", [scores, heads])], perm=[0, 2, 1, 3])
    m.output(m.quantize(m.op("Reshape", [rows, back])))


def patches(m: Qdq) -> None:
    """Conv -> Reshape -> Transpose -> Q, as patch embeddings are; the same with an activation between."""
    x, w = m.input((1, 3, 6, 6)), m.weight((5, 3, 2, 2), axis=0)
    shape = m.constant("shape", np.array([1, 5, 9], INT))
    y = m.op(
        "Transpose", [m.op("Reshape", [m.op("Relu", [m.op("Conv", [x, w], strides=[2, 2])]), shape])], perm=[0, 2, 1]
    )
    m.output(m.quantize(y))


def slices_and_gathers(m: Qdq) -> None:
    x = m.input((1, 6, 5))
    for name, value in (("from", [1]), ("to", [4]), ("axes", [1])):
        m.constant(name, np.array(value, INT))
    part = m.op("Slice", [x, "from", "to", "axes"])
    other = m.op("Gather", [x, m.constant("which", np.array([5, 0, 2], INT))], axis=1)
    m.output(m.quantize(m.op("Add", [part, other])))


def pools_and_resizes(m: Qdq) -> None:
    """Padded MaxPool, DepthToSpace and nearest Resize without quantization between, as NNCF and TensorRT have them."""
    x = m.input((1, 4, 7, 5))
    w, w2 = m.weight((8, 4, 2, 2), axis=0), m.weight((3, 2, 1, 1), axis=0)
    pooled = m.op("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    m.constant("scales", np.array([1, 1, 2, 2], np.float32))
    wide = m.op("Resize", [pooled, "", "scales"], mode="nearest")
    y = m.quantize(m.op("DepthToSpace", [m.op("Relu", [m.op("Conv", [wide, w])])], blocksize=2))
    m.output(m.quantize(m.op("Conv", [m.op("MaxPool", [y], kernel_shape=[2, 2]), w2])))


def pads(m: Qdq) -> None:
    """Pad by zeros, reflected and by edges, before and behind a Conv."""
    x, w, w2 = m.input((1, 2, 7, 5)), m.weight((3, 2, 3, 3), axis=0), m.weight((2, 3, 1, 1))
    wide, zero = m.constant("wide", np.array([0, 0, 1, 2, 0, 0, 2, 1], INT)), m.constant("zero", np.float32(0))
    y = m.op("Conv", [m.op("Pad", [m.op("Pad", [x, wide]), wide], mode="reflect"), w])
    y = m.quantize(m.op("Pad", [m.op("Relu", [y]), wide, zero]))
    m.output(m.quantize(m.op("Conv", [m.op("Pad", [y, wide], mode="edge"), w2])))


def splits_and_concats(m: Qdq) -> None:
    """Halves of one tensor, exchanged and joined again, quantized alike all the way."""
    x, w = m.input((1, 4, 5, 5)), m.weight((3, 4, 1, 1), axis=0)
    half = m.constant("half", np.array([1, 3], INT))
    left = m.op("Split", [x, half], 2, axis=1)
    joined = m.op("Concat", [f"{left}_1", m.op("Transpose", [left], perm=[0, 1, 3, 2])], axis=1)
    m.output(m.quantize(m.op("Conv", [joined, w])))


def same_type_casts(m: Qdq) -> None:
    x, w = m.input((3, 7)), m.weight((7, 5), axis=1)
    product = m.op("MatMul", [m.op("Cast", [x], to=TensorProto.FLOAT), m.op("Cast", [w], to=TensorProto.FLOAT)])
    m.output(m.quantize(m.op("Cast", [product], to=TensorProto.FLOAT)))


BUILDS: list[Callable[[Qdq], None]] = [
    transposed_weights, reshaped_weights, unsqueezed_weights, activation_behind_dequantize, heads_of_attention, patches,
    slices_and_gathers, pools_and_resizes, pads, splits_and_concats, same_type_casts,
]  # fmt: skip


@pytest.mark.parametrize("act", ["uint8", "int8"])
@pytest.mark.parametrize("build", BUILDS)
def test_bits_stay(build: Callable[[Qdq], None], act: str, tmp_path: Path):
    m = Qdq(act, act == "int8", seed=8)
    build(m)
    # Without VNNI no default session multiplies two int8 activations as the model is written: they become uint8.
    is_plain = not (build is heads_of_attention and act == "int8" and inexact_kernels())
    graph = passes(m.model(), tmp_path, is_plain)
    assert not [n for n in graph.nodes if not n.integer_reference]
    assert {n.op for n in graph.nodes} - {"reshape", "transpose", "slice", "gather", "quantize", "dequantize"}


def hand_quantized(m: Qdq, source: str, kind: str) -> str:
    """QuantizeLinear to a type of which numpy has no ranges, and DequantizeLinear."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(getattr(TensorProto, kind))
    scale, zero = m.constant("scale", np.float32(0.02)), m.constant("zero", np.zeros((), dtype))
    return m.op("DequantizeLinear", [m.op("QuantizeLinear", [source, scale, zero]), scale, zero])


def squeezed_after_an_rnn(m: Qdq, kind: str) -> None:
    w, r = (m.constant(n, m.rng.normal(0, 0.3, (1, 8, 8)).astype(np.float32)) for n in ("w", "r"))
    rows = m.op("RNN", [m.input((5, 1, 8)), w, r], hidden_size=8)
    m.output(hand_quantized(m, m.op("Squeeze", [rows, m.constant("axis", np.array([1]))]), kind))


def moved_before_a_matmul(m: Qdq, kind: str) -> None:
    x, w = hand_quantized(m, m.input((7, 3)), kind), m.weight((7, 5))
    m.output(m.quantize(m.op("MatMul", [m.op("Transpose", [x], perm=[1, 0]), w])))


def joined_before_a_matmul(m: Qdq, kind: str) -> None:
    parts, w = [hand_quantized(m, m.input((3, 7)), kind) for _ in range(2)], m.weight((7, 5))
    m.output(m.quantize(m.op("MatMul", [m.op("Concat", parts, axis=0), w])))


def test_concats_in_a_row_whose_last_one_a_float_node_reads(tmp_path: Path):
    """The first Concat of bytes has no DequantizeLinear of its own; its scale is that of its inputs."""
    m = Qdq(seed=8)
    x = m.input((2, 5))
    twice = m.op("Concat", [m.op("Concat", [x, x], axis=1)] * 3, axis=0)
    index = m.op("ArgMax", [twice], axis=-1, keepdims=0)
    m.output(m.quantize(m.op("Gather", [twice, index], axis=-1)))
    graph = passes(m.model(), tmp_path)
    scales = {graph.spec(n.outputs[0]).scale for n in graph.nodes if n.op == "concat"}
    assert len(scales) == 1 and () not in scales


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4"])
@pytest.mark.parametrize("build", [squeezed_after_an_rnn, moved_before_a_matmul, joined_before_a_matmul])
def test_float8_and_4_bits_are_moved_as_floats(build: Callable[[Qdq, str], None], kind: str, tmp_path: Path):
    """onnxruntime cannot move elements of these types; the host quantizes to them."""
    m = Qdq(seed=8, opset=21 if "INT" in kind else 19)
    build(m, kind)
    model = m.model()
    model.ir_version = 10
    path = tmp_path / "q.onnx"
    path.write_bytes(model.SerializeToString())
    report = verify(Request([str(path)], "local")).report
    assert report.verdict == "PASSED" and report.on_host
    assert {node["op"] for node in report.on_host} == {"QuantizeLinear", "DequantizeLinear"}


def test_a_reshape_that_mixes_channels_is_not_stepped_over():
    """The scales of a per-channel weight do not follow it."""
    from qverify.compiler.compile_model import compile_model

    m = Qdq(seed=8)
    x, w = m.input((3, 4)), m.weight((2, 10), axis=0)
    shape = m.constant("shape", np.array([4, 5], INT))
    m.output(m.quantize(m.op("MatMul", [x, m.op("Reshape", [w, shape])])))
    graph = compile_model(m.model().SerializeToString(), "q.onnx").graph
    assert "matmul_float" in {node.op for node in graph.nodes}


def test_a_border_that_is_not_zero_is_not_stepped_over():
    from qverify.compiler.compile_model import compile_model

    m = Qdq(seed=8)
    x, w = m.input((1, 2, 7, 5)), m.weight((3, 2, 3, 3), axis=0)
    wide, value = m.constant("wide", np.array([0, 0, 1, 2, 0, 0, 2, 1], INT)), m.constant("value", np.float32(0.013))
    m.output(m.quantize(m.op("Conv", [m.op("Pad", [x, wide, value]), w])))
    graph = compile_model(m.model().SerializeToString(), "q.onnx").graph
    assert "conv_float" in {node.op for node in graph.nodes}


def test_a_dropout_that_trains_is_refused():
    from qverify.compiler.compile_model import compile_model
    from qverify.errors import UnsupportedError

    m = Qdq(seed=8)
    x, w = m.input((3, 4)), m.weight((4, 5))
    ratio, train = m.constant("ratio", np.float32(0.5)), m.constant("train", np.array(True))
    m.output(m.quantize(m.op("MatMul", [m.op("Dropout", [x, ratio, train]), w])))
    with pytest.raises(UnsupportedError, match=r"Dropout.*training"):
        compile_model(m.model().SerializeToString(), "q.onnx")


def test_names_of_the_file_that_the_compiler_would_make(tmp_path: Path):
    m = Qdq(seed=8)
    activation_behind_dequantize(m)
    model = m.model()
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = ["flatten6/quantized" if n == "dropout5" else n for n in names]
    passes(model, tmp_path)


def test_other_bits_are_a_bug_that_is_said():
    one, other = small(), small()
    conv = next(n for n in other.graph.node if n.op_type == "Relu")
    conv.op_type = "Abs"
    with pytest.raises(InternalError, match="changed it"):
        check_same_bits(one, other)
    check_same_bits(one, onnx.ModelProto.FromString(one.SerializeToString()))


def test_rows_of_a_small_table_are_chosen_by_an_input(tmp_path: Path):
    """Token types of a BERT have two rows; other indices would end the check's run."""
    m = Qdq(seed=1)
    table = m.weight((2, 6))
    rows = m.op("Gather", [table, m.integers((1, 40))])
    m.output(m.quantize(rows))
    turned = m.op("Transpose", [m.input((1, 4, 6, 5))], perm=[0, 1, 3, 2])  # stepped over, so that the check runs
    m.output(m.quantize(m.op("Conv", [turned, m.weight((3, 4, 1, 1))])))
    passes(m.model(), tmp_path)
