"""Operators that stand for several others, written out: each is verified, its result that of the operator itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from qverify.compiler.compile_model import compile_model
from qverify.errors import InternalError
from qverify.onnx_model.decompose import check_same_values, decompose, is_close
from qverify.onnx_model.load import load
from qverify.onnx_model.open_exposed import open_exposed

from tests.ops.qdq import Qdq
from tests.plain.verified_model import refused, verified

MICROSOFT = "com.microsoft"


def normal(m: Qdq, *shape: int) -> str:
    return m.constant(f"c{len(m.constants)}", m.rng.normal(size=shape).astype(np.float32))


def fused(m: Qdq, kind: str, inputs: list[str], shape: tuple[int, ...], outputs: int = 1, **attributes: object) -> str:
    """A node of com.microsoft; onnx infers no shape of its output."""
    name = m.op(kind, inputs, outputs, MICROSOFT, **attributes)
    m.kinds[name] = shape
    return name


def convolutions(m: Qdq) -> None:
    x = m.input((1, 3, 7, 5))
    for name, parameters in (
        ("Relu", []),
        ("Tanh", []),
        ("Sigmoid", []),
        ("LeakyRelu", [0.2]),
        ("HardSigmoid", [0.3, 0.4]),
    ):
        more = {"activation_params": parameters} if parameters else {}
        inputs = [x, normal(m, 4, 3, 3, 3), normal(m, 4)]
        m.output(fused(m, "FusedConv", inputs, (1, 4, 7, 5), activation=name, pads=[1, 1, 1, 1], **more))


def convolution_of_integers(m: Qdq) -> None:
    """Between DequantizeLinear and QuantizeLinear: one unit of integers, with the Clip inside."""
    x, w = m.input((1, 3, 7, 5)), m.weight((4, 3, 1, 1), axis=0)
    more = {"activation": "Clip", "activation_params": [0.0, 6.0]}
    m.output(m.quantize(fused(m, "FusedConv", [x, w, m.bias(x, w, 4)], (1, 4, 7, 5), **more)))


def convolution_with_sum(m: Qdq) -> None:
    """Both sums: of a tensor that is added, with and without an activation."""
    x, added = m.input((1, 3, 7, 5)), m.input((1, 4, 7, 5))
    inputs = [x, normal(m, 4, 3, 1, 1), normal(m, 4), added]
    m.output(fused(m, "FusedConv", inputs, (1, 4, 7, 5), activation="Relu"))
    m.output(fused(m, "FusedConv", inputs, (1, 4, 7, 5)))


def products(m: Qdq) -> None:
    x = m.input((5, 13))
    for name, more in (("Relu", {}), ("Tanh", {}), ("LeakyRelu", {"activation_alpha": 0.3})):
        inputs = [x, normal(m, 7, 13), normal(m, 7)]
        m.output(fused(m, "FusedGemm", inputs, (5, 7), activation=name, transB=1, alpha=0.5, **more))


def batched_products(m: Qdq) -> None:
    a, b = m.input((2, 3, 5, 7)), m.input((2, 3, 5, 4))
    m.output(fused(m, "FusedMatMul", [a, b], (2, 3, 7, 4), transA=1, alpha=0.35))
    m.output(fused(m, "FusedMatMul", [b, b], (2, 3, 5, 5), transB=1))


def gelus(m: Qdq) -> None:
    x = m.input((2, 5, 7))
    for kind in ("BiasGelu", "FastGelu"):
        m.output(fused(m, kind, [x, normal(m, 7)], (2, 5, 7)))
    m.output(fused(m, "FastGelu", [x], (2, 5, 7)))


def skips(m: Qdq) -> None:
    """With and without bias and beta; the sum is an output of its own."""
    x, skip, parts = m.input((2, 5, 8)), m.input((2, 5, 8)), [normal(m, 8) for _ in range(3)]
    y = fused(m, "SkipLayerNormalization", [x, skip, *parts], (2, 5, 8), outputs=4, epsilon=1e-3)
    m.kinds[f"{y}_3"] = (2, 5, 8)
    m.output(m.quantize(y))
    m.output(f"{y}_3")
    m.output(fused(m, "SkipLayerNormalization", [x, skip, parts[0]], (2, 5, 8), epsilon=1e-5))
    m.output(fused(m, "SkipSimplifiedLayerNormalization", [x, skip, parts[0], parts[1]], (2, 5, 8), epsilon=1e-5))


EQUATIONS = {
    "btc,kc->bkt": ((2, 3, 5), (4, 5)),
    "bhid,bhjd->bhij": ((2, 2, 3, 5), (2, 2, 4, 5)),
    "bhij,bjhd->bihd": ((2, 2, 3, 4), (2, 4, 2, 5)),
    "i,j->ji": ((3,), (4,)),
    "abc,abc->a": ((2, 3, 4), (2, 3, 4)),
    "abcd,cdef->abef": ((2, 3, 4, 5), (4, 5, 2, 3)),
    "...ij,jk": ((2, 1, 3, 4), (4, 5)),
    "b...i,...ij->b...j": ((2, 1, 3), (4, 3, 5)),
    "ij->ji": ((3, 4),),
    "abc->b": ((2, 3, 4),),
    "bxi,oij,byj->boxy": ((2, 3, 4), (5, 4, 2), (2, 6, 2)),
}


def einsums(m: Qdq) -> None:
    """Products in batches, of several dims, with ellipses and broadcasting, sums, transposes, three operands."""
    for equation, shapes in EQUATIONS.items():
        m.output(m.op("Einsum", [m.op("Tanh", [m.input(shape)]) for shape in shapes], equation=equation))


def einsum_of_integers(m: Qdq) -> None:
    a, b = m.input((2, 4, 2, 5)), m.input((2, 3, 2, 5))
    scores = m.quantize(m.op("Einsum", [a, b], equation="bihd,bjhd->bhij"))
    m.output(m.quantize(m.op("Einsum", [scores, m.weight((3, 7))], equation="bhij,jk->bkhi")))


def attentions(m: Qdq) -> None:
    """Both masks, other sizes of values, an attention bias, keys of another length."""
    x, mask = (
        m.op("Tanh", [m.input((2, 5, 6))]),
        m.constant("mask", np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)),
    )
    m.output(fused(m, "Attention", [x, normal(m, 6, 24), normal(m, 24), mask], (2, 5, 8), num_heads=2))
    sizes = {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4], "unidirectional": 1, "scale": 0.3}
    m.output(fused(m, "Attention", [x, normal(m, 6, 20), normal(m, 20)], (2, 5, 4), **sizes))
    q, k, v = (m.op("Tanh", [m.input((2, n, 8))]) for n in (4, 7, 7))
    inputs = [q, k, v, normal(m, 24), "", normal(m, 1, 2, 4, 7)]
    m.output(fused(m, "MultiHeadAttention", inputs, (2, 4, 8), num_heads=2))
    m.output(fused(m, "MultiHeadAttention", [q, k, v], (2, 4, 8), num_heads=4))


def smooth_resizes(m: Qdq) -> None:
    """With antialias, over the last dims of three, and over none."""
    m.opset = 19
    x = m.op("Tanh", [m.input((1, 6, 9))])
    for sizes in ((1, 6, 4), (1, 3, 13), (1, 6, 9)):
        dims = m.constant(f"c{len(m.constants)}", np.array(sizes, np.int64))
        m.output(m.op("Resize", [x, "", "", dims], mode="linear", antialias=1))


def squares_to_channels(m: Qdq) -> None:
    x = m.input((2, 3, 4, 6))
    y = m.op("SpaceToDepth", [x], blocksize=2)
    m.output(m.op("Sigmoid", [y]))
    m.output(m.quantize(m.op("Conv", [m.quantize(y, like=x), m.weight((4, 12, 1, 1))])))


def attention_of_integers(m: Qdq) -> None:
    x = m.op("DynamicQuantizeLinear", [m.op("Tanh", [m.input((2, 5, 6))])], 3)
    w = m.constant("w", m.rng.integers(-127, 128, (6, 24)).astype(np.int8))
    scale, zero = m.constant("scale", np.float32(0.01)), m.constant("zero", np.int8(0))
    inputs = [x, w, normal(m, 24), f"{x}_1", scale, "", f"{x}_2", zero]
    m.output(fused(m, "QAttention", inputs, (2, 5, 8), num_heads=2))


def products_of_moved_batches(m: Qdq) -> None:
    """The rows of an operand come first, its batch dims behind them."""
    a, b = m.input((4, 2, 3, 5)), m.input((5, 2, 3, 7), -1, 1)
    m.output(m.quantize(fused(m, "FusedMatMul", [a, b], (2, 3, 4, 7), transBatchA=1, transBatchB=1)))
    flipped = m.input((7, 2, 3, 5))
    m.output(fused(m, "FusedMatMul", [a, flipped], (2, 3, 4, 7), transBatchA=1, transBatchB=1, transB=1, alpha=0.5))


def scales_at_run_time(m: Qdq) -> None:
    """A tensor that is quantized dynamically and moved before it is dequantized, and the scale of each token."""
    x = m.input((1, 6, 8))
    quantized = m.op("DynamicQuantizeLinear", [x], 3)
    moved = m.op("Transpose", [quantized], perm=[0, 2, 1])
    m.output(m.op("DequantizeLinear", [moved, f"{quantized}_1", f"{quantized}_2"]))
    largest = m.op("ReduceMax", [m.op("Abs", [x])], axes=[0, 2], keepdims=0)
    scales = m.op("Div", [largest, m.constant("steps", np.float32(127))])
    zeros = m.constant("zeros", np.arange(-3, 3, dtype=np.int8))
    integers = m.op("QuantizeLinear", [x, scales, zeros], axis=1)
    m.output(m.op("DequantizeLinear", [integers, scales, zeros], axis=1))


def rows_of_a_table_in_blocks(m: Qdq) -> None:
    """Packed uint8, without and with zero points; test_gather_block_quantized.py has the other types."""
    rows, scales = m.constant("rows", np.array([3, 0, 10])), m.rng.uniform(0.01, 0.1, (11, 2)).astype(np.float32)
    inputs = [m.constant("table", m.rng.integers(0, 256, (11, 24), np.uint8)), rows, m.constant("table_scales", scales)]
    x, zeros = m.input((3, 48)), m.constant("table_zeros", m.rng.integers(0, 256, (11, 1), np.uint8))
    blocks = {"block_size": 32, "quantize_axis": 1, "gather_axis": 0, "bits": 4}
    for more in ([], [zeros]):
        y = fused(m, "GatherBlockQuantized", [*inputs, *more], (3, 48), **blocks)
        m.output(m.quantize(m.op("Add", [x, y])))


GOOD: dict[str, Callable[[Qdq], None]] = {
    f.__name__: f
    for f in (
        convolutions, convolution_of_integers, convolution_with_sum, products, batched_products, gelus, skips,
        einsums, einsum_of_integers, attentions, attention_of_integers, smooth_resizes, squares_to_channels,
        rows_of_a_table_in_blocks, products_of_moved_batches, scales_at_run_time,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_written_out(name: str, tmp_path: Path) -> None:
    m = Qdq(seed=sum(name.encode()))
    GOOD[name](m)
    verified(m.model(), tmp_path)


def test_an_activation_between_integers_stays_in_its_unit(tmp_path: Path) -> None:
    m = Qdq()
    convolution_of_integers(m)
    nodes = compile_model(m.model().SerializeToString(), "unit.onnx").graph.nodes
    assert [n.op for n in nodes] == ["quantize", "conv", "dequantize"]


def test_einsum_between_integers_is_a_product_of_integers() -> None:
    m = Qdq()
    einsum_of_integers(m)
    nodes = compile_model(m.model().SerializeToString(), "unit.onnx").graph.nodes
    assert [n.op for n in nodes if n.op not in ("reshape", "transpose", "quantize", "dequantize")] == ["matmul"] * 2


def test_rows_of_embeddings() -> None:
    """EmbedLayerNormalization against its operators: with and without segments and positions, the sum as an output."""
    m = Qdq()
    tables, ids = (
        [normal(m, n, 6) for n in (20, 9, 3)],
        [m.constant(f"i{n}", np.array([[0, 1, 2, 1]] * 2, np.int32)) for n in range(3)],
    )
    whole = [m.op("Identity", [name]) for name in ids]
    parts = [normal(m, 6), normal(m, 6)]
    m.output(m.op("Relu", [m.input((2, 3))]))
    y = fused(m, "EmbedLayerNormalization", [*whole[:2], *tables, *parts, "", whole[2]], (2, 4, 6), 3, epsilon=1e-3)
    m.kinds[f"{y}_2"] = (2, 4, 6)
    m.output(y)
    m.output(f"{y}_2")
    m.output(fused(m, "EmbedLayerNormalization", [whole[0], "", *tables[:2], "", *parts], (2, 4, 6), 2))
    model = m.model()
    for at, node in enumerate([n for n in model.graph.node if n.op_type == "Identity"]):
        model.graph.input.append(onnx.helper.make_tensor_value_info(f"run{at}", onnx.TensorProto.INT32, (2, 4)))
        node.input[0] = f"run{at}"
    done = decompose(load(model.SerializeToString(), "unit.onnx"), "unit.onnx", {})
    check_same_values(done)
    assert not done.refused and "EmbedLayerNormalization" not in {n.op_type for n in done.model.graph.node}


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_rows_of_quantized_embeddings(dtype: str, opset: int, tmp_path: Path) -> None:
    """QEmbedLayerNormalization, a model's only quantized operator: with and without segments; mask_index counts the
    ones of the mask, and without a mask it is 0."""
    m = Qdq(opset=opset)
    shapes, limits = ((20, 6), (9, 6), (3, 6), (6,), (6,)), np.iinfo(dtype)
    tables = [m.constant(f"t{k}", m.rng.integers(limits.min, limits.max + 1, s, dtype)) for k, s in enumerate(shapes)]
    scales = [m.constant(f"s{k}", np.float32(0.01 * (k + 1)).reshape([1] * (k % 2))) for k in range(5)]
    zeros = [m.constant(f"z{k}", np.array(m.rng.integers(limits.min, limits.max + 1), dtype)) for k in range(5)]
    words, segments, mask = (m.integers((2, 4), high, "int32") for high in (20, 3, 3))
    for these, epsilon in (((segments, mask), 1e-3), (("", ""), 1e-12)):
        given = [words, these[0], *tables, these[1], *scales, *zeros]
        if not these[0]:
            given[4] = given[10] = given[15] = ""
        y = fused(m, "QEmbedLayerNormalization", given, (2, 4, 6), 2, epsilon=epsilon)
        m.kinds[f"{y}_1"] = (2,)
        m.output(y)
        m.output(m.op("Cast", [f"{y}_1"], to=int(onnx.TensorProto.FLOAT)))
    verified(m.model(), tmp_path)


def diagonal(m: Qdq) -> None:
    m.output(m.op("Einsum", [m.op("Tanh", [m.input((3, 3))])], equation="ii->i"))


def means_that_are_used(m: Qdq) -> None:
    x = m.input((2, 5, 8))
    y = fused(m, "SkipLayerNormalization", [x, x, normal(m, 8)], (2, 5, 8), outputs=2, epsilon=1e-5)
    m.kinds[f"{y}_1"] = (2, 5, 1)
    m.output(y)
    m.output(f"{y}_1")


REFUSED: dict[str, tuple[Callable[[Qdq], None], str]] = {
    "diagonal": (diagonal, r"Einsum\): equation 'ii->i': a label twice in one operand"),
    "mean": (means_that_are_used, r"SkipLayerNormalization\): its mean or inv_std_var is used"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    refused(*REFUSED[name])


def test_a_wrong_decomposition_is_a_bug() -> None:
    m = Qdq()
    products(m)
    model = load(m.model().SerializeToString(), "unit.onnx")
    done = decompose(model, "unit.onnx", {})
    check_same_values(done)
    gemm = next(n for r in done.rounds[0].replaced for n in r.nodes if n.op_type == "Gemm")
    next(a for a in gemm.attribute if a.name == "alpha").f = 0.51
    with pytest.raises(InternalError, match="writing FusedGemm out changed it"):
        check_same_values(done)


def test_without_such_operators_the_model_stays() -> None:
    m = Qdq()
    m.output(m.op("Relu", [m.input((2, 3))]))
    model = load(m.model().SerializeToString(), "unit.onnx")
    assert decompose(model, "unit.onnx", {}).model is model
    assert isinstance(model, onnx.ModelProto)


@pytest.mark.parametrize(
    ("mine", "theirs", "close"),
    [
        (np.array([True, False]), np.array([True, False]), True),
        (np.array([True, False]), np.array([False, True]), False),
        (np.uint8([3, 4]), np.uint8([4, 3]), True),
        (np.int16([3]), np.int16([5]), False),
        (np.int32([3]), np.int32([4]), False),
        (np.float32([1, 2]), np.float32([1, 2.0001]), True),
        (np.float32([1, 2]), np.float32([1, 2.01]), False),
        (np.float32([1]), np.float32([[1]]), False),
    ],
)
def test_how_close_a_written_out_node_must_be(mine: Any, theirs: Any, close: bool) -> None:
    assert is_close(mine, theirs) is close


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_a_computed_scale_of_0_gives_what_onnxruntime_does(dtype: str) -> None:
    m = Qdq(opset=21)
    x = m.input((1, 4))
    scale = m.op("ReduceMax", [m.op("Abs", [x])], keepdims=0)
    zero = m.constant("zero", np.array(3, dtype))
    m.output(m.op("DequantizeLinear", [m.op("QuantizeLinear", [x, scale, zero]), scale, zero]))
    written = decompose(load(m.model().SerializeToString(), "q.onnx"), "q.onnx", {})
    (round_,) = written.rounds
    feed = {"in0": np.zeros((1, 4), np.float32)}
    names = [o for replaced in round_.replaced if replaced.kind == "QuantizeLinear" for o in replaced.outputs]
    assert len(names) == 1
    before, after = (open_exposed(each, names).run(feed, names)[names[0]] for each in (round_.before, round_.after))
    assert np.array_equal(before, after)
