"""Forms of operators that are written as other forms: each is verified, its result that of onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from qverify.compare.options import Options
from qverify.compiler.compile_model import compile_model
from qverify.errors import InternalError
from qverify.onnx_model.decompose import check_same_values, decompose
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.load import load
from qverify.session.job import verify
from qverify.session.request import Request

from tests.ops.cases.matmul_integer import dynamic, integers
from tests.ops.qdq import Qdq
from tests.plain.verified_model import refused, verified


def ints(m: Qdq, *values: int) -> str:
    return m.constant(f"c{len(m.constants)}", np.array(values, np.int64))


def whole(m: Qdq, shape: tuple[int, ...], kind: int = 6) -> str:
    """A quantized input as integers, by default int32."""
    return m.op("Cast", [m.op("Mul", [m.input(shape), m.constant("ten", np.float32(10))])], to=kind)


def float_output(m: Qdq, name: str) -> None:
    m.output(m.op("Cast", [name], to=1))


def integer_products_of_vectors(m: Qdq) -> None:
    """A row by a matrix, a matrix and several by a column, both; zero points of x, and of each column."""
    vector, matrix, many = dynamic(m, (7,)), dynamic(m, (3, 7)), dynamic(m, (2, 3, 7))
    column = integers(m, (7,), "int8")
    for x in (vector, matrix, many):
        float_output(m, m.op("MatMulInteger", [x, column, f"{x}_2"]))
    zeros = m.constant("zeros", np.array([1, -2, 3, 0, 9], np.int8))
    float_output(m, m.op("MatMulInteger", [vector, integers(m, (7, 5), "int8"), f"{vector}_2", zeros]))
    float_output(m, m.op("MatMulInteger", [vector, integers(m, (2, 7, 5), "int8")]))


def products_of_wide_integers(m: Qdq) -> None:
    for at, (a, b) in enumerate(
        (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((4,), (2, 4, 3)), ((2, 1, 3, 4), (3, 4, 2)), ((5,), (5,)))
    ):
        x, y = (whole(m, shape, 7 if at % 2 else 6) for shape in (a, b))
        float_output(m, m.op("MatMul", [x, y]))


def pads_that_crop(m: Qdq) -> None:
    """Cropped alone, cropped and padded, in each mode, along chosen axes, of integers."""
    m.opset = 19
    x = m.input((1, 3, 7, 6))
    m.output(m.op("Pad", [m.op("Tanh", [x]), ints(m, 0, -1, -2, 0, 0, 0, -1, -3)]))
    for mode in ("constant", "edge", "reflect", "wrap"):
        m.output(m.op("Pad", [m.op("Tanh", [x]), ints(m, 0, 0, -2, 2, 0, 0, 1, -1)], mode=mode))
    fill = m.constant("fill", np.float32(0.3))
    m.output(m.op("Pad", [m.op("Tanh", [x]), ints(m, -1, 2, 3, -2), fill, ints(m, -1, 2)]))
    m.output(m.op("Pad", [m.op("Tanh", [x]), ints(m, 0, 2, 3, 0), "", ints(m, 1, -1)], mode="wrap"))
    float_output(m, m.op("Pad", [whole(m, (3, 5)), ints(m, -1, 1, 0, -2)]))


def pads_of_opset_10(m: Qdq) -> None:
    m.opset = 10
    m.output(m.op("Pad", [m.op("Tanh", [m.input((1, 3, 7, 6))])], pads=[0, 0, -2, 2, 0, 1, 1, -1], value=0.5))


def resizes_that_keep_the_ratio(m: Qdq) -> None:
    """In every mode and policy, with axes in any order, not the last ones, and all of them."""
    m.opset = 19
    x, flat = m.op("Tanh", [m.input((1, 2, 7, 5))]), m.op("Tanh", [m.input((7, 5))])
    for policy in ("not_larger", "not_smaller"):
        for mode in ("nearest", "linear", "cubic"):
            more = {"mode": mode, "keep_aspect_ratio_policy": policy}
            for axes, sizes in (([2, 3], (11, 9)), ([3, 2], (4, 4)), ([2, 3], (6, 5)), ([3], (13,))):
                m.output(m.op("Resize", [x, "", "", ints(m, *sizes)], axes=axes, **more))
            m.output(m.op("Resize", [flat, "", "", ints(m, 10, 9)], axes=[1, 0], **more))
        m.output(m.op("Resize", [flat, "", "", ints(m, 7, 9)], axes=[0, 1], **more))
    asymmetric = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    m.output(m.op("Resize", [flat, "", "", ints(m, 8, 5)], keep_aspect_ratio_policy="not_smaller", **asymmetric))
    m.output(m.op("Resize", [x, "", m.constant("scales", np.array([1, 1, 1.1, 2], np.float32))], **asymmetric))


def resize_of_integers_that_keeps_the_ratio(m: Qdq) -> None:
    m.opset = 19
    x = m.input((1, 2, 7, 5))
    more = {"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}
    for mode in ("nearest", "linear"):
        m.output(m.quantize(m.op("Resize", [x, "", "", ints(m, 11, 9)], mode=mode, **more), like=x))


def largest_as_one(m: Qdq) -> None:
    """Along each axis, with ties."""
    x = m.input((2, 5, 3))
    for axis in (0, 1, -1):
        m.output(m.op("Hardmax", [m.op("Round", [x]) if axis else m.op("Tanh", [x])], axis=axis))


def largest_as_one_of_opset_11(m: Qdq) -> None:
    m.opset = 11
    for axis in (0, 1, -1):
        m.output(m.op("Hardmax", [m.op("Tanh", [m.input((2, 5, 3))])], axis=axis))


def reversed_rows(m: Qdq) -> None:
    """Constant and computed lengths, both orders of the axes."""
    x = m.op("Tanh", [m.input((5, 3, 2))])
    m.output(m.op("ReverseSequence", [x, ints(m, 5, 1, 3)]))
    m.output(m.op("ReverseSequence", [x, ints(m, 3, 1, 2, 0, 3)], time_axis=1, batch_axis=0))
    lengths = m.op("Cast", [m.op("Abs", [m.op("Mul", [m.input((3,)), m.constant("four", np.float32(1.9))])])], to=7)
    m.output(m.op("ReverseSequence", [x, m.op("Min", [lengths, ints(m, 5)])]))


def diagonals(m: Qdq) -> None:
    x = m.input((4, 5))
    m.output(m.op("Add", [m.op("Tanh", [x]), m.op("EyeLike", [x], k=1)]))
    m.output(m.op("MatMul", [m.op("Tanh", [x]), m.op("EyeLike", [m.op("MatMul", [m.op("Transpose", [x]), x])])]))
    float_output(m, m.op("Mul", [whole(m, (4, 5)), m.op("EyeLike", [whole(m, (4, 5))], k=-2, dtype=6)]))


def infinities_of_one_sign(m: Qdq) -> None:
    x = m.op("Div", [m.input((3, 5)), m.op("Abs", [m.op("Floor", [m.input((3, 5))])])])
    x = m.op(
        "Max", [m.op("Min", [m.op("Floor", [x]), m.constant("a", np.float32(np.inf))]), m.constant("b", np.float32(-9))]
    )
    for positive, negative in ((1, 0), (0, 1), (0, 0), (1, 1)):
        float_output(m, m.op("IsInf", [x], detect_positive=positive, detect_negative=negative))


def powers_of_integers(m: Qdq) -> None:
    for kind in (6, 7):
        for exponent in (np.int64(2), np.int32(3), np.float32(2), np.array([3], np.int64)):
            float_output(m, m.op("Pow", [whole(m, (3, 5), kind), m.constant(f"c{len(m.constants)}", exponent)]))


def shifts(m: Qdq) -> None:
    """Each element by its own; what leaves the type is lost."""
    x = m.op("Cast", [m.op("Mul", [m.op("Abs", [m.input((3, 8))]), m.constant("many", np.float32(60))])], to=2)
    by = m.constant("by", np.arange(8, dtype=np.uint8))
    wide, fifteen = m.op("Cast", [x], to=4), m.constant("fifteen", np.uint16(15))
    for direction in ("LEFT", "RIGHT"):
        float_output(m, m.op("BitShift", [x, by], direction=direction))
        float_output(m, m.op("BitShift", [wide, fifteen], direction=direction))


def integers_of_16_bits(m: Qdq) -> None:
    """Arithmetic beyond their range, comparisons."""
    m.opset = 18
    for kind in (4, 5):
        many = m.constant(f"c{len(m.constants)}", np.float32(20000))
        x, y = (m.op("Cast", [m.op("Cast", [m.op("Mul", [m.input((3, 7)), many])], to=6)], to=kind) for _ in range(2))
        one = m.constant(f"c{len(m.constants)}", np.array(1, np.uint16 if kind == 4 else np.int16))
        odd = m.op("BitwiseOr", [y, one])
        for at, name in enumerate(
            ("Add", "Sub", "Mul", "Div", "Mod", "Equal", "Greater", "Less", "BitwiseAnd", "BitwiseXor")
        ):
            float_output(m, m.op(name, [x, odd if at in (3, 4) else y]))
        float_output(m, m.op("BitwiseNot", [x]))
        if kind == 5:
            for name in ("Abs", "Neg", "Sign"):
                float_output(m, m.op(name, [x]))


def statistics_of_norms(m: Qdq) -> None:
    """Both, and each alone."""
    for at, (axis, read) in enumerate(((-1, (1, 2)), (1, (1,)), (-2, (2,)))):
        x, gamma = (
            m.input((2, 5, 8)),
            m.constant(f"gamma{at}", m.rng.normal(size=(5, 8) if axis != -1 else 8).astype(np.float32)),
        )
        y = m.op("LayerNormalization", [x, gamma], 3, axis=axis, epsilon=0.01)
        for name in (y, *(f"{y}_{n}" for n in read)):
            m.output(m.op("Neg", [name]))


def statistics_of_norms_18(m: Qdq) -> None:
    m.opset = 18
    statistics_of_norms(m)


def sums_along_a_computed_constant(m: Qdq) -> None:
    axis = m.op("Cast", [m.op("Identity", [m.constant("axis", np.float32(1))])], to=6)
    m.output(m.op("CumSum", [m.op("Tanh", [m.input((3, 5))]), axis]))


def casts_like(m: Qdq) -> None:
    """To the type of a constant, and to that of a tensor."""
    x = m.op("Neg", [m.input((3, 5))])
    float_output(m, m.op("CastLike", [x, m.constant("one", np.array([1], np.int32))]))
    m.output(m.op("CastLike", [whole(m, (3, 5)), x]))


def extrema_of_integers(m: Qdq) -> None:
    """One, three and four tensors, which broadcast; uint8, int32 and int64."""
    for kind in (2, 6, 7):
        x, row, one = whole(m, (3, 7), kind), whole(m, (7,), kind), whole(m, (1,), kind)
        for name in ("Min", "Max"):
            for inputs in ([x], [x, row, one], [one, row, x, row]):
                float_output(m, m.op(name, inputs))


def joined_with_nothing(m: Qdq) -> None:
    """Quantized tensors with constants that have no elements, and one whose others have none."""
    nothing = m.constant("nothing", np.zeros((3, 0), np.float32))
    x, y = m.input((3, 7)), m.input((3, 2), -1, 1)
    m.output(m.quantize(m.op("Concat", [x, nothing, y, nothing], axis=1)))
    m.output(m.quantize(m.op("Concat", [nothing, m.op("Exp", [x])], axis=-1)))


def limits_that_are_computed(m: Qdq) -> None:
    """A lower, an upper, both, behind a Conv between quantized tensors and alone; constants of one element."""
    x = m.input((1, 3, 7, 5))
    low, high = m.op("ReduceMean", [x], keepdims=0), m.op("Neg", [m.op("ReduceMin", [x], keepdims=0)])
    w = m.weight((3, 3, 3, 3), axis=0)
    first, last = (m.constant(n, np.float32([v])) for n, v in (("first", -0.1), ("last", 0.5)))
    for limits in ([low], ["", high], [low, high], [high, low], [first, last]):
        conv = m.op("Conv", [x, w, m.bias(x, w, 3)])
        m.output(m.quantize(m.op("Clip", [conv, *limits])))
    m.output(m.op("Clip", [m.op("Exp", [x]), low, high]))


def products_with_a_computed_bias(m: Qdq) -> None:
    """Biases that are added whole and scaled, and a constant one."""
    x = m.input((3, 7))
    for more in ({}, {"beta": 0.5}, {"alpha": 2.0, "transB": 1}):
        w = m.weight((5, 7) if "transB" in more else (7, 5))
        m.output(m.quantize(m.op("Gemm", [x, w, m.input((3, 5), -1, 1)], **more)))
    w = m.weight((7, 5))
    m.output(m.quantize(m.op("Gemm", [x, w, m.bias(x, w, 5)])))


def products_with_a_computed_bias_10(m: Qdq) -> None:
    """A Gemm of this opset must have a bias."""
    m.opset = 10
    products_with_a_computed_bias(m)


def masks_of_dropout_11(m: Qdq) -> None:
    m.opset = 11
    masks_of_dropout(m)


def masks_of_dropout(m: Qdq) -> None:
    y = m.op("Dropout", [m.input((3, 7))], 2)
    m.output(m.quantize(y))
    float_output(m, f"{y}_1")


def attentions_with_caches(m: Qdq) -> None:
    """Every option at once, and a packed query; tests/plain/test_grouped_attention.py has them one by one."""
    cos, sin = (m.constant(n, m.rng.uniform(-1, 1, (9, 8)).astype(np.float32)) for n in ("cos", "sin"))
    last, total = m.constant("last", np.full(2, 4, np.int32)), m.constant("total", np.int32(5))
    positions = m.constant("positions", np.full((2, 1), 4, np.int64))
    bias = m.constant("bias", m.rng.normal(size=(1, 4, 1, 5)).astype(np.float32))
    caches = [m.input((2, 2, 4, 16)), m.input((2, 2, 4, 16), -1, 1)]
    own = [m.input((2, 1, 64)), m.input((2, 1, 32)), m.input((2, 1, 32))]
    more = {"softcap": 2.5, "scale": 0.3, "local_window_size": 3, "rotary_interleaved": 1, "causal": 1}
    more |= {"smooth_softmax": 0, "kv_cache_bit_width": 0, "qk_output": 0, "sliding_window_cache": 0}
    for inputs, attributes in (
        (
            [*own, *caches, last, total, cos, sin, positions, bias],
            {**more, "k_quant_type": "NONE", "v_quant_type": "NONE"},
        ),
        ([m.input((2, 1, 128)), "", "", *caches, last, total, cos, sin], {}),
    ):
        heads = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
        y = m.op("GroupQueryAttention", inputs, 3, "com.microsoft", **heads, **attributes)
        m.kinds |= {y: (2, 1, 64), f"{y}_1": (2, 2, 5, 16), f"{y}_2": (2, 2, 5, 16)}
        for name in (y, f"{y}_1", f"{y}_2"):
            m.output(name)


GOOD: dict[str, Callable[[Qdq], None]] = {
    f.__name__: f
    for f in (
        integer_products_of_vectors, products_of_wide_integers, extrema_of_integers, joined_with_nothing, limits_that_are_computed,
        products_with_a_computed_bias, masks_of_dropout, products_with_a_computed_bias_10, masks_of_dropout_11, pads_that_crop, pads_of_opset_10,
        resizes_that_keep_the_ratio, resize_of_integers_that_keeps_the_ratio,
        largest_as_one, largest_as_one_of_opset_11, reversed_rows, diagonals, infinities_of_one_sign,
        powers_of_integers, shifts, integers_of_16_bits, statistics_of_norms, statistics_of_norms_18,
        sums_along_a_computed_constant, casts_like, attentions_with_caches,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_written_out(name: str, tmp_path: Path) -> None:
    m = Qdq(seed=sum(name.encode()))
    GOOD[name](m)
    assert not verified(m.model(), tmp_path).islands


def test_top_k_without_an_order(tmp_path: Path) -> None:
    """Floats with ties, integers, the smallest: all sides give one order, with the elements of onnxruntime."""
    m = Qdq(seed=5)
    x = m.op("Neg", [m.input((3, 13))])
    ties, integer = m.op("Round", [m.op("Mul", [x, m.constant("two", np.float32(2))])]), whole(m, (13, 4))
    for source, more in ((x, {}), (ties, {"largest": 0}), (integer, {"axis": 0})):
        y = m.op("TopK", [source, ints(m, 5)], 2, sorted=0, **more)
        float_output(m, y)
        float_output(m, f"{y}_1")
    model = m.model()
    path = tmp_path / "q.onnx"
    path.write_bytes(model.SerializeToString())
    report = verify(Request([str(path)], "local", options=Options(dump_all=True))).report
    assert report.verdict == "PASSED" and all(p.bit_equal for p in report.pairs)
    assert [n for n in report.notes if "order of its own" in n] != []
    compiled, theirs = compile_model(model.SerializeToString(), "q.onnx"), Engine(model.SerializeToString()).run(m.feed)
    assert not compiled.graph.islands
    mine = Engine(compiled.integer_onnx).run(m.feed)
    for name, axis in zip(m.outputs, (-1, -1, -1, -1, 0, 0), strict=True):
        assert np.array_equal(np.sort(mine[name], axis), np.sort(theirs[name], axis))
    assert any(not np.array_equal(mine[name], theirs[name]) for name in m.outputs)


def test_a_wrong_element_of_top_k_is_found() -> None:
    m = Qdq()
    y = m.op("TopK", [m.op("Tanh", [m.input((3, 13))]), ints(m, 5)], 2, sorted=0)
    m.output(y)
    m.output(f"{y}_1")
    done = decompose(load(m.model().SerializeToString(), "q.onnx"), "q.onnx", {})
    check_same_values(done)
    done.rounds[0].replaced[0].nodes[-1].attribute.append(onnx.helper.make_attribute("largest", 0))
    with pytest.raises(InternalError, match="writing TopK out changed it"):
        check_same_values(done)


def axes_from_the_last(m: Qdq) -> None:
    m.opset = 19
    x, more = m.op("Tanh", [m.input((1, 2, 7, 5))]), {"axes": [-2, -1], "keep_aspect_ratio_policy": "not_larger"}
    m.output(m.op("Resize", [x, "", "", ints(m, 11, 9)], **more))


def many_products(m: Qdq) -> None:
    float_output(m, m.op("MatMul", [whole(m, (512, 256)), whole(m, (256, 512))]))


def shift_by_what_is_computed(m: Qdq) -> None:
    x = m.op("Cast", [m.op("Abs", [m.input((3, 5))])], to=2)
    float_output(m, m.op("BitShift", [x, x], direction="LEFT"))


REFUSED: dict[str, tuple[Callable[[Qdq], None], str]] = {
    "axes": (
        axes_from_the_last,
        r"axes \[-2, -1\] with keep_aspect_ratio_policy, .*count them from the first: \[2, 3\]",
    ),
    "shift": (shift_by_what_is_computed, r"BitShift\): wanted uint8 or uint16, and constant shifts below"),
    "products": (many_products, r"MatMul\): 67108864 products of integers; at most 16777216 are supported"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    refused(*REFUSED[name])
