"""Law L2: every kind of unit, compiled, equals onnxruntime bit for bit, or within 1 LSB where it has no integer kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from qverify.compare.options import Options
from qverify.compiler.compile import compile_model
from qverify.onnx_model.engine import Engine
from qverify.session.job import verify
from qverify.session.request import Request

from tests.ops.qdq import Qdq

Build = Callable[[Qdq], None]
CASES: dict[
    str, tuple[Build, str, bool]
] = {}  # name: build, the op that must appear, onnxruntime has an integer kernel


def case(op: str, integer: bool = True) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        CASES[build.__name__] = (build, op, integer)
        return build

    return add


def _conv(m: Qdq, x_shape: tuple[int, ...], w_shape: tuple[int, ...], **attrs: Any) -> tuple[str, str]:
    per_channel = attrs.pop("per_channel", True)
    kind, zero, with_bias = attrs.pop("weight", "int8"), attrs.pop("zero", False), attrs.pop("with_bias", True)
    x = m.input(x_shape)
    w = m.weight(w_shape, kind, 0 if per_channel else None, zero)
    inputs = [x, w, m.bias(x, w, w_shape[0])] if with_bias else [x, w]
    return x, m.op("Conv", inputs, **attrs)


@case("conv")
def conv_padded_strided(m: Qdq) -> None:
    m.output(m.quantize(_conv(m, (1, 3, 13, 11), (7, 3, 3, 5), pads=[1, 2, 0, 1], strides=[2, 1])[1], crop=0.8))


@case("conv")
def conv_depthwise_dilated_batch(m: Qdq) -> None:
    m.output(m.quantize(_conv(m, (3, 5, 13, 11), (5, 1, 3, 3), group=5, dilations=[2, 1], pads=[2, 1, 2, 1])[1]))


@case("conv")
def conv_grouped_same_lower(m: Qdq) -> None:
    m.output(m.quantize(_conv(m, (1, 6, 9, 7), (4, 3, 3, 2), group=2, auto_pad="SAME_LOWER", strides=[2, 2])[1]))


@case("conv")
def conv_1d(m: Qdq) -> None:
    m.output(m.quantize(_conv(m, (2, 5, 31), (3, 5, 7), pads=[3, 3], strides=[2])[1]))


@case("conv")
def conv_weight_zero_points(m: Qdq) -> None:
    kind = "uint8" if m.act == "uint8" else "int8"
    m.output(m.quantize(_conv(m, (1, 3, 7, 7), (5, 3, 3, 3), weight=kind, zero=True, per_channel=False)[1]))


@case("conv")
def conv_no_bias(m: Qdq) -> None:
    m.output(m.quantize(_conv(m, (1, 3, 7, 7), (5, 3, 1, 1), with_bias=False)[1], crop=0.6))


@case("conv")
def conv_float_bias(m: Qdq) -> None:
    x, w = m.input((1, 3, 7, 7)), m.weight((5, 3, 3, 3), axis=0)
    bias = m.constant("float_bias", m.rng.normal(0, 1, 5).astype(np.float32))
    m.output(m.quantize(m.op("Conv", [x, w, bias])))


@case("conv")
def conv_relu(m: Qdq) -> None:
    m.output(m.quantize(m.op("Relu", [_conv(m, (1, 3, 9, 9), (5, 3, 3, 3))[1]]), crop=0.7))


@case("conv")
def conv_clip(m: Qdq) -> None:
    low, high = m.constant("low", np.float32(-0.3)), m.constant("high", np.float32(1.1))
    m.output(m.quantize(m.op("Clip", [_conv(m, (1, 3, 9, 9), (5, 3, 3, 3))[1], low, high])))


@case("conv_transpose", integer=False)
def conv_transpose(m: Qdq) -> None:
    x, w = m.input((1, 4, 5, 6)), m.weight((4, 3, 3, 2))
    m.output(m.quantize(m.op("ConvTranspose", [x, w, m.bias(x, w, 3)], strides=[2, 3], pads=[1, 0, 0, 1])))


@case("conv_transpose", integer=False)
def conv_transpose_grouped_output_padding(m: Qdq) -> None:
    x, w = m.input((2, 4, 5, 6)), m.weight((4, 3, 2, 2))
    m.output(m.quantize(m.op("ConvTranspose", [x, w], strides=[3, 3], group=2, output_padding=[1, 0])))


@case("conv_transpose", integer=False)
def conv_transpose_1d(m: Qdq) -> None:
    x, w = m.input((1, 4, 9)), m.weight((4, 3, 4))
    m.output(m.quantize(m.op("ConvTranspose", [x, w], strides=[2], pads=[1, 1])))


@case("fully_connected")
def gemm_transposed_weight(m: Qdq) -> None:
    x, w = m.input((3, 17)), m.weight((11, 17))
    m.output(m.quantize(m.op("Gemm", [x, w, m.bias(x, w, 11)], transB=1), crop=0.8))


@case("fully_connected")
def gemm_plain_weight(m: Qdq) -> None:
    m.output(m.quantize(m.op("Gemm", [m.input((1, 17)), m.weight((17, 5))])))


@case("matmul")
def matmul_constant_per_column(m: Qdq) -> None:
    m.output(m.quantize(m.op("MatMul", [m.input((2, 5, 13)), m.weight((13, 7), axis=1)])))


@case("matmul")
def matmul_two_activations(m: Qdq) -> None:
    m.output(m.quantize(m.op("MatMul", [m.input((2, 3, 5, 13)), m.input((3, 13, 7), -1, 1)])))


@case("add")
def add_relu(m: Qdq) -> None:
    m.output(m.quantize(m.op("Relu", [m.op("Add", [m.input((1, 3, 5, 7)), m.input((1, 3, 5, 7), -7, 1)])]), crop=0.9))


@case("add")
def add_broadcast_channel(m: Qdq) -> None:
    m.output(m.quantize(m.op("Add", [m.input((2, 3, 5, 7)), m.weight((3, 1, 1), m.act)])))


@case("add", integer=False)
def sub(m: Qdq) -> None:
    m.output(m.quantize(m.op("Sub", [m.input((1, 3, 5, 7)), m.input((1, 1, 5, 1), -7, 1)])))


@case("mul")
def mul_gate(m: Qdq) -> None:
    m.output(m.quantize(m.op("Mul", [m.input((2, 3, 5, 7)), m.input((2, 3, 1, 1), 0, 1)])))


@case("global_average_pool")
def global_average_pool(m: Qdq) -> None:
    m.output(m.quantize(m.op("GlobalAveragePool", [m.input((2, 5, 7, 9))])))


@case("average_pool")
def average_pool_padded(m: Qdq) -> None:
    pool = m.op("AveragePool", [m.input((1, 5, 9, 11))], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])
    m.output(m.quantize(pool))


@case("average_pool")
def average_pool_count_pad(m: Qdq) -> None:
    pool = m.op("AveragePool", [m.input((1, 5, 9, 11))], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    m.output(m.quantize(pool))


@case("max_pool")
def max_pool(m: Qdq) -> None:
    x = m.input((1, 5, 9, 11))
    m.output(m.quantize(m.op("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), like=x))


@case("softmax")
def softmax_last(m: Qdq) -> None:
    m.output(m.quantize(m.op("Softmax", [m.input((3, 11))], axis=-1)))


@case("softmax")
def softmax_channel(m: Qdq) -> None:
    m.output(m.quantize(m.op("Softmax", [m.input((1, 11, 3, 2))], axis=1)))


@case("concat")
def concat_three_scales(m: Qdq) -> None:
    parts = [m.input((1, 3, 5, 7)), m.input((1, 2, 5, 7), -1, 0.5), m.input((1, 4, 5, 7), 0, 9)]
    m.output(m.quantize(m.op("Concat", parts, axis=1)))


@case("resize_nearest")
def resize_nearest(m: Qdq) -> None:
    x, scales = m.input((1, 3, 5, 7)), m.constant("scales", np.array([1, 1, 2, 3], np.float32))
    y = m.op(
        "Resize", [x, "", scales], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )
    m.output(m.quantize(y, like=x))


@case("resize_linear", integer=False)
def resize_linear(m: Qdq) -> None:
    x, sizes = m.input((1, 3, 5, 7)), m.constant("sizes", np.array([1, 3, 11, 13], np.int64))
    m.output(m.quantize(m.op("Resize", [x, "", "", sizes], mode="linear"), like=x))


@case("lookup", integer=False)
def relu_alone(m: Qdq) -> None:
    m.output(m.quantize(m.op("Relu", [m.input((1, 3, 5, 7))])))


@case("lookup")
def sigmoid(m: Qdq) -> None:
    m.output(m.quantize(m.op("Sigmoid", [m.input((1, 3, 5, 7), -6, 6)])))


@case("lookup")
def leaky_relu(m: Qdq) -> None:
    m.output(m.quantize(m.op("LeakyRelu", [m.input((1, 3, 5, 7))], alpha=0.1)))


@case("lookup", integer=False)
def tanh(m: Qdq) -> None:
    m.output(m.quantize(m.op("Tanh", [m.input((1, 3, 5, 7))])))


@case("lookup", integer=False)
def hard_swish(m: Qdq) -> None:
    m.output(m.quantize(m.op("HardSwish", [m.input((1, 3, 5, 7), -5, 5)])))


@case("lookup", integer=False)
def gelu_of_parts(m: Qdq) -> None:
    x, root, one, half = m.input((3, 7)), *(m.constant(f"c{v}", np.float32(v)) for v in (1.4142135, 1.0, 0.5))
    phi = m.op("Add", [m.op("Erf", [m.op("Div", [x, root])]), one])
    m.output(m.quantize(m.op("Mul", [m.op("Mul", [x, phi]), half])))


@case("lookup", integer=False)
def divided_by_scalar(m: Qdq) -> None:
    m.output(m.quantize(m.op("Div", [m.input((3, 7)), m.constant("eight", np.float32(8))])))


@case("lookup", integer=False)  # onnxruntime's optimizer drops the first pair: another result, not another arithmetic
def requantized_only(m: Qdq) -> None:
    m.output(m.quantize(m.input((3, 7)), crop=0.5))


@case("batch_norm", integer=False)
def batch_norm(m: Qdq) -> None:
    parts = [m.constant(n, v.astype(np.float32)) for n, v in zip("sbmv", m.rng.uniform(0.5, 2, (4, 5)), strict=True)]
    m.output(m.quantize(m.op("BatchNormalization", [m.input((2, 5, 3, 7)), *parts])))


@case("layer_norm", integer=False)
def layer_norm(m: Qdq) -> None:
    parts = [m.constant(n, v.astype(np.float32)) for n, v in zip("sb", m.rng.normal(0, 1, (2, 13)), strict=True)]
    m.output(m.quantize(m.op("LayerNormalization", [m.input((2, 5, 13)), *parts], axis=-1)))


@case("reduce_mean", integer=False)
def reduce_mean(m: Qdq) -> None:
    m.output(m.quantize(m.op("ReduceMean", [m.input((2, 5, 3, 7)), *_axes(m, [2, 3])], **_axes_attr(m, [2, 3]))))


def _axes(m: Qdq, axes: list[int]) -> list[str]:
    return [m.constant("axes", np.array(axes, np.int64))] if m.opset >= 18 else []


def _axes_attr(m: Qdq, axes: list[int]) -> dict[str, Any]:
    return {} if m.opset >= 18 else {"axes": axes}


@case("lrn", integer=False)
def lrn(m: Qdq) -> None:
    m.output(m.quantize(m.op("LRN", [m.input((1, 11, 3, 5))], size=5, alpha=0.01, beta=0.75, bias=1.0)))


@case("slice")
def sliced(m: Qdq) -> None:
    x = m.input((1, 7, 9, 11))
    at = [
        m.constant(n, np.array(v, np.int64)) for n, v in (("a", [1, -2]), ("b", [6, 0]), ("c", [1, 2]), ("d", [2, -3]))
    ]
    m.output(m.quantize(m.op("Slice", [x, *at]), like=x))


@case("split")
def split_two_outputs(m: Qdq) -> None:
    x = m.input((1, 7, 5))
    sizes = m.constant("sizes", np.array([3, 4], np.int64))
    name = m.op("Split", [x, sizes], 2, axis=1)
    m.output(m.quantize(name, like=x))
    m.output(m.quantize(f"{name}_1", like=x))


@case("pad")
def padded_with_zero(m: Qdq) -> None:
    x = m.input((1, 3, 5, 7))
    m.output(m.quantize(m.op("Pad", [x, m.constant("pads", np.array([0, 0, 1, 2, 0, 1, 0, 3], np.int64))]), like=x))


@case("pad")
def padded_reflected(m: Qdq) -> None:
    x = m.input((1, 3, 5, 7))
    pads = m.constant("pads", np.array([0, 0, 1, 2, 0, 0, 2, 3], np.int64))
    m.output(m.quantize(m.op("Pad", [x, pads], mode="reflect"), like=x))


@case("transpose")
def transposed(m: Qdq) -> None:
    x = m.input((2, 3, 5, 7))
    m.output(m.quantize(m.op("Transpose", [x], perm=[0, 2, 3, 1]), like=x))


@case("gather")
def gathered(m: Qdq) -> None:
    x = m.input((2, 5, 7))
    m.output(m.quantize(m.op("Gather", [x, m.constant("index", np.array([3, 0, -1], np.int64))], axis=1), like=x))


@case("reshape")
def flattened(m: Qdq) -> None:
    x = m.input((2, 3, 5, 7))
    m.output(m.quantize(m.op("Flatten", [x]), like=x))


@case("depth_to_space")
def depth_to_space(m: Qdq) -> None:
    x = m.input((1, 12, 3, 5))
    m.output(m.quantize(m.op("DepthToSpace", [x], blocksize=2, mode="CRD"), like=x))


@case("where")
def where_constant_mask(m: Qdq) -> None:
    mask = m.constant("mask", m.rng.integers(0, 2, (3, 7)).astype(bool))
    m.output(m.quantize(m.op("Where", [mask, m.input((2, 3, 7)), m.input((2, 3, 7), -1, 1)])))


@case("arg_max", integer=False)
def arg_max_of_dequantized(m: Qdq) -> None:
    m.output(m.op("ArgMax", [m.input((2, 11, 3))], axis=1, keepdims=0))


@case("conv")
def two_inputs_two_outputs(m: Qdq) -> None:
    first = m.quantize(_conv(m, (1, 3, 9, 9), (5, 3, 3, 3))[1])
    second = m.quantize(m.op("Add", [first, m.input((1, 5, 7, 7))]))
    m.output(first)
    m.output(second)


@case("conv")
def residual_block(m: Qdq) -> None:
    first = m.quantize(m.op("Relu", [_conv(m, (1, 8, 9, 9), (8, 8, 3, 3), pads=[1] * 4)[1]]))
    w = m.weight((8, 8, 1, 1), axis=0)
    second = m.quantize(m.op("Conv", [first, w, m.bias(first, w, 8)]))
    m.output(m.quantize(m.op("Relu", [m.op("Add", [second, first])])))


ACTIVATIONS = {
    "u8": ("uint8", False),
    "s8": ("int8", False),
    "s8sym": ("int8", True),
    "u16": ("uint16", False),
    "s16": ("int16", True),
}


@pytest.mark.parametrize("act", ACTIVATIONS)
@pytest.mark.parametrize("name", CASES)
def test_unit(name: str, act: str, tmp_path: Path):
    build, op, integer = CASES[name]
    wide = "16" in act
    maker = Qdq(*ACTIVATIONS[act], seed=sum(name.encode()))
    build(maker)
    path = tmp_path / "unit.onnx"
    path.write_bytes(maker.model().SerializeToString())
    compiled = compile_model(path.read_bytes(), "unit.onnx")
    check = compiled.graph.meta["check"]
    assert check["units"] and not check["over"] and not check["not_checked"], check
    stems = {n.op: n.integer_reference for n in compiled.graph.nodes}
    assert op in stems or (wide and f"{op}_float" in stems)
    report = verify(Request([str(path)], "local", options=Options(dump_all=True))).report
    pairs = {(p.a, p.b): p for p in report.pairs}
    assert report.blame is None
    assert all(t.forced is not None and t.forced.verdict == "PASSED" for p in report.pairs for t in p.tensors)
    assert pairs["simulator", "board"].bit_equal
    if integer and not wide:
        assert report.verdict == "PASSED"
        assert all(stems.values())
        assert pairs["reference", "simulator"].bit_equal
        assert _onnxruntime_fused_equal(compiled, maker)


def _onnxruntime_fused_equal(compiled: Any, maker: Qdq) -> bool:
    """The integer ONNX against the untouched file as onnxruntime itself lowers it, on the maker's own input."""
    untouched = Engine(maker.model().SerializeToString(), level="extended").run(maker.feed)
    ours = Engine(onnx.load_from_string(compiled.integer_onnx).SerializeToString()).run(maker.feed)
    return all(np.array_equal(untouched[n], ours[n]) for n in maker.outputs)
