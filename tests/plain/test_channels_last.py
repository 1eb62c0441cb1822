"""Operators under the names and layouts that onnxruntime's optimizer writes: channels last, former names, its own domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from qverify.compiler.compile_model import compile_model

from tests.ops.qdq import Qdq
from tests.plain.test_attention_past import assert_same_values, drawn
from tests.plain.test_decompositions import fused, normal
from tests.plain.verified_model import passes, refused, verified

MICROSOFT = "com.microsoft"
CONVOLUTIONS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "plain": ((4, 3, 3, 3), {}),
    "pads, strides": ((4, 3, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    "same upper": ((4, 3, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same lower": ((4, 3, 2, 2), {"auto_pad": "SAME_LOWER"}),
    "dilations": ((4, 3, 2, 2), {"dilations": [2, 1]}),
    "depthwise": ((3, 1, 3, 3), {"group": 3, "pads": [1, 1, 1, 1]}),
    "lines": ((4, 3, 3), {"pads": [1, 1]}),
}


def integers(m: Qdq, dims: tuple[int, ...], dtype: type = np.uint8) -> list[str]:
    """An input of floats, quantized; its name, scale and zero point."""
    name = f"q{len(m.constants)}"
    scale, zero = m.constant(f"{name}_scale", np.float32(0.02)), m.constant(f"{name}_zero", np.array(7, dtype))
    return [m.op("QuantizeLinear", [m.op("Tanh", [m.input(dims)]), scale, zero]), scale, zero]


def of_result(m: Qdq, dtype: type = np.uint8) -> list[str]:
    return [m.constant(f"y{n}{len(m.constants)}", v) for n, v in (("s", np.float32(0.05)), ("z", np.array(9, dtype)))]


def floats(m: Qdq, y: str, scale: list[str], shape: tuple[int, ...]) -> None:
    m.kinds[y] = shape
    m.output(m.op("DequantizeLinear", [y, *scale]))


def convolution(m: Qdq, form: str, bias: bool) -> None:
    kernel, attributes = CONVOLUTIONS[form]
    x, y = integers(m, (2, *(7, 6)[: len(kernel) - 2], 3)), of_result(m)
    w = m.constant("w", m.rng.integers(-127, 128, kernel).astype(np.int8))
    scales = m.constant("w_scales", m.rng.uniform(0.01, 0.03, kernel[0]).astype(np.float32))
    zeros = m.constant("w_zeros", np.zeros(kernel[0], np.int8))
    inputs = [*x, w, scales, zeros, *y]
    if bias:
        inputs.append(m.constant("b", m.rng.integers(-500, 500, kernel[0]).astype(np.int32)))
    shape = result_of(m, "QLinearConv", inputs, {**attributes, "channels_last": 1})
    floats(m, fused(m, "QLinearConv", inputs, shape, **attributes, channels_last=1), y, shape)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("form", CONVOLUTIONS)
def test_convolutions(form: str, bias: bool, tmp_path: Path) -> None:
    m = Qdq(seed=4)
    convolution(m, form, bias)
    assert_same_values(m)
    assert not passes(m.model(), tmp_path).islands


def result_of(m: Qdq, kind: str, inputs: list[str], attributes: dict[str, Any]) -> tuple[int, ...]:
    """The dims that onnxruntime gives the output; ONNX infers none."""
    model = m.model()
    model.graph.node.append(onnx.helper.make_node(kind, inputs, ["shaped"], domain=MICROSOFT, **attributes))
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info("shaped"))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return tuple(session.run(["shaped"], m.feed)[0].shape)


POOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "maxima": ("NhwcMaxPool", {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 0, 0, 1]}),
    "maxima, ceil": ("NhwcMaxPool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1, "dilations": [2, 1]}),
    "means": ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 1], "pads": [1, 0, 0, 1]}),
    "means with pads": ("QLinearAveragePool", {"kernel_shape": [3, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    "means, ceil": ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    "global means": ("QLinearGlobalAveragePool", {}),
}


def pool(m: Qdq, form: str, dtype: type) -> None:
    kind, attributes = POOLS[form]
    x, y = integers(m, (2, 7, 5, 3), dtype), of_result(m, dtype)
    if kind == "NhwcMaxPool":
        inputs, y = x[:1], x[1:]
    else:
        inputs, attributes = [*x, *y], {**attributes, "channels_last": 1}
    shape = result_of(m, kind, inputs, attributes)
    floats(m, fused(m, kind, inputs, shape, **attributes), y, shape)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("form", POOLS)
def test_pools(form: str, dtype: type, tmp_path: Path) -> None:
    m = Qdq(seed=4)
    pool(m, form, dtype)
    assert_same_values(m)
    assert not passes(m.model(), tmp_path).islands


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_file_that_onnxruntime_saved_at_its_default_level(dtype: str, tmp_path: Path) -> None:
    m = Qdq(dtype, seed=1)
    x, w, w2 = m.input((1, 3, 16, 16)), m.weight((8, 3, 3, 3), axis=0), m.weight((8, 8, 3, 3))
    y = m.quantize(m.op("Relu", [m.op("Conv", [x, w, m.bias(x, w, 8)], pads=[1] * 4)]))
    pooled = m.quantize(m.op("MaxPool", [y], kernel_shape=[2, 2], strides=[2, 2]), like=y)
    z = m.quantize(m.op("Conv", [pooled, w2, m.bias(pooled, w2, 8)], pads=[1] * 4))
    m.output(m.quantize(m.op("AveragePool", [m.quantize(m.op("Add", [z, pooled]))], kernel_shape=[2, 2])))
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(tmp_path / "saved.onnx"), 3
    onnxruntime.InferenceSession(
        m.model().SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=["NchwcTransformer"],  # which writes the layout of the processor that saves the file
    )
    saved = onnx.load(tmp_path / "saved.onnx")
    assert any(a.name == "channels_last" and a.i for node in saved.graph.node for a in node.attribute)
    assert not passes(saved, tmp_path).islands


BLOCKS = "com.microsoft.nchwc"  # onnxruntime's layout in blocks of 8 or 16 channels


def pools_of_floats(m: Qdq) -> None:
    x = m.op("MaxPool", [m.op("Tanh", [m.input((1, 16, 8, 8))])], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    y = m.op("AveragePool", [x], kernel_shape=[2, 2], pads=[0, 0, 1, 1])
    m.output(m.quantize(m.op("Relu", [m.op("GlobalAveragePool", [y])])))
    m.output(m.op("GlobalMaxPool", [y]))


def test_a_file_with_the_layout_of_the_processor_that_saved_it(tmp_path: Path) -> None:
    """What this processor's onnxruntime saves: in blocks if it has AVX2 or AVX-512, else plain."""
    m = Qdq(seed=1)
    pools_of_floats(m)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(tmp_path / "saved.onnx"), 3
    onnxruntime.InferenceSession(m.model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    saved = onnx.load(tmp_path / "saved.onnx")
    assert not verified(saved, tmp_path).islands


@pytest.mark.parametrize("last", [0, 1])
def test_blocks_of_channels_are_read_as_planes(last: int, tmp_path: Path) -> None:
    """Nodes of the layout, written by hand, with channels first and last around them: the values are those of the plain
    network."""
    m = Qdq(seed=1)
    pools_of_floats(m)
    model = m.model()
    plain = compile_model(model.SerializeToString(), "plain.onnx").graph
    nodes, after = [], list[onnx.NodeProto]()
    for node in model.graph.node:
        if node.op_type == "MaxPool":
            source, y = node.input[0], node.output[0]
            if last:
                nodes.append(onnx.helper.make_node("Transpose", [source], ["moved"], perm=[0, 2, 3, 1]))
                after = [onnx.helper.make_node("Transpose", ["back"], [y], perm=[0, 3, 1, 2])]
            node.input[0], node.output[0] = "blocks", "pooled"
            node.domain = BLOCKS
            layout = {"domain": BLOCKS, "channels_last": last}
            nodes.append(onnx.helper.make_node("ReorderInput", ["moved" if last else source], ["blocks"], **layout))
            out = onnx.helper.make_node("ReorderOutput", ["pooled"], ["back" if last else y], channels=16, **layout)
            after = [out, *after]
        nodes += [node, *after]
        after = []
    del model.graph.node[:], model.graph.value_info[:]
    model.graph.node.extend(nodes)
    model.opset_import.append(onnx.helper.make_opsetid(BLOCKS, 1))
    graph = verified(model, tmp_path)
    kinds = [node.op for node in graph.nodes if node.op not in ("transpose", "reshape")]
    assert not graph.islands and kinds == [node.op for node in plain.nodes]


def pool_of_opset_11(m: Qdq) -> None:
    m.opset = 11
    pool(m, "maxima", np.uint8)


def test_a_pool_of_an_older_opset_is_refused_by_name() -> None:
    refused(pool_of_opset_11, r"NhwcMaxPool\): it needs opset 12 here, got 11")


def former_names(m: Qdq) -> None:
    """TransposeMatMul, now FusedMatMul; GridSample, now ONNX's."""
    a, b = drawn(m, 2, 5, 4), normal(m, 2, 7, 5)
    m.output(fused(m, "TransposeMatMul", [a, b], (2, 4, 7), transA=1, transB=1, alpha=0.5))
    x, grid = drawn(m, 1, 2, 5, 6), drawn(m, 1, 3, 4, 2)
    for more in ({}, {"mode": "nearest"}, {"padding_mode": "border", "align_corners": 1}):
        m.output(fused(m, "GridSample", [x, grid], (1, 2, 3, 4), **more))


def test_former_names() -> None:
    m = Qdq(seed=2)
    former_names(m)
    assert_same_values(m)
    assert not compile_model(m.model().SerializeToString(), "q.onnx").graph.islands


def every_layout(m: Qdq) -> None:
    convolution(m, "dilations", True)
    for form in POOLS:
        pool(m, form, np.uint8)


GOOD = {"channels_last": every_layout, "former_names": former_names}
