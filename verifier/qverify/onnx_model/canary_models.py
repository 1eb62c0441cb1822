"""One-node models that reveal a wrong or different integer kernel: extreme values (16-bit saturation), ties (fused
multiply-add, zero point added before or after rounding), small output scales, one dominating softmax element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]
ELEMENT = {
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "int32": TensorProto.INT32,
    "float32": TensorProto.FLOAT,
}
SCALE = {
    "uint8": 1 / 16384,
    "int8": 1 / 4096,
}  # scale of the second operand, which keeps most sums inside the output's range
Canary = tuple[ModelProto, dict[str, Array]]


def one_node(kind: str, inputs: Mapping[str, Any], y: str, feed: str, domain: str = "", **attributes: Any) -> Canary:
    """Returns a model of one node, and its feed. Every input except `feed` is an initializer; y is the output's
    dtype."""
    values = {k: np.asarray(v) for k, v in inputs.items()}
    node = helper.make_node(kind, list(values), ["y"], domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "canary",
        [helper.make_tensor_value_info(feed, ELEMENT[str(values[feed].dtype)], values[feed].shape)],
        [helper.make_tensor_value_info("y", ELEMENT[y], None)],
        [numpy_helper.from_array(v, n) for n, v in values.items() if n != feed],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return model, {feed: values[feed]}


def scale_and_zero(name: str, scale: float, zero: int, dtype: str) -> dict[str, Any]:
    """Returns the scale and zero-point inputs of tensor `name`, by name."""
    return {f"{name}_scale": np.float32(scale), f"{name}_zero": np.array(zero, dtype)}


def random_extremes(dtype: str, shape: tuple[int, ...], seed: int) -> Array:
    """Returns an array that contains only the lowest and the highest value of the type, chosen at random (PCG64)."""
    limits = np.iinfo(dtype)
    return np.random.Generator(np.random.PCG64(seed)).choice(np.array([limits.min, limits.max], dtype), shape)


def grid(dtype: str) -> Array:
    """Returns all 256 values of an 8-bit type, [256]."""
    limits = np.iinfo(dtype)
    return np.arange(limits.min, limits.max + 1).astype(dtype)


def matmul(a: str, b: str) -> Canary:
    """Returns a QLinearMatMul of extreme values. a, b: dtypes of the operands."""
    first = {"a": random_extremes(a, (8, 64), 1)} | scale_and_zero("a", 1, 0, a)
    second = {"b": random_extremes(b, (64, 16), 2)} | scale_and_zero("b", SCALE[b], 0, b)
    return one_node("QLinearMatMul", first | second | scale_and_zero("y", 1, 3, a), a, "a")


def gemm(a: str, b: str) -> Canary:
    """Returns a QGemm of extreme values with a bias. a, b: dtypes of the operands."""
    first = {"a": random_extremes(a, (8, 64), 7)} | scale_and_zero("a", 1, 0, a)
    second = {"b": random_extremes(b, (64, 16), 8)} | scale_and_zero("b", SCALE[b], 0, b)
    inputs = first | second | {"c": np.arange(-8, 8, dtype=np.int32) * 999} | scale_and_zero("y", 1, 3, a)
    return one_node("QGemm", inputs, a, "a", "com.microsoft", transB=0)


def conv(x: str, w: str) -> Canary:
    """Returns a per-channel QLinearConv of extreme values. x, w: dtypes of input and weights."""
    first = {"x": random_extremes(x, (1, 16, 9, 9), 3)} | scale_and_zero("x", 1, 0, x)
    weights = random_extremes(w, (8, 16, 3, 3), 4)
    scales = (np.arange(1, 9) * SCALE[w] / 4).astype(np.float32)
    second = {"w": weights, "w_scale": scales, "w_zero": np.zeros(8, w)}
    bias = {"b": np.arange(-4, 4, dtype=np.int32) * 1000}
    inputs = first | second | scale_and_zero("y", 1, 3, x) | bias
    return one_node("QLinearConv", inputs, x, "x", pads=[1, 1, 1, 1], kernel_shape=[3, 3])


def matmul_integer(a: str, b: str) -> Canary:
    """Returns a MatMulInteger of extreme values. a, b: dtypes of the operands."""
    inputs = {"a": random_extremes(a, (8, 64), 9), "b": random_extremes(b, (64, 16), 10), "a_zero": np.array(3, a)}
    return one_node("MatMulInteger", inputs, "int32", "a")


def conv_integer(x: str, w: str) -> Canary:
    """Returns a ConvInteger of extreme values. x, w: dtypes of input and weights."""
    inputs = {
        "x": random_extremes(x, (1, 16, 9, 9), 11),
        "w": random_extremes(w, (8, 16, 3, 3), 12),
        "x_zero": np.array(3, x),
    }
    return one_node("ConvInteger", inputs, "int32", "x", pads=[1, 1, 1, 1], kernel_shape=[3, 3])


def two_operands(kind: str, dtype: str, scales: tuple[float, float, float]) -> Canary:
    """Returns a two-operand node on all pairs of values, with scales that put many results on ties."""
    low = int(np.iinfo(dtype).min)
    a = {"a": grid(dtype).repeat(256).reshape(256, 256)} | scale_and_zero("a", scales[0], low + 3, dtype)
    b = {"b": np.tile(grid(dtype), (256, 1))} | scale_and_zero("b", scales[1], low + 7, dtype)
    return one_node(kind, a | b | scale_and_zero("y", scales[2], low + 5, dtype), dtype, "a", "com.microsoft")


def unary(kind: str, dtype: str, scale: float, zero: int, y_scale: float, y_zero: int, **attributes: Any) -> Canary:
    """Returns a quantized one-operand node on all values of an 8-bit type."""
    inputs = {"x": grid(dtype)} | scale_and_zero("x", scale, zero, dtype) | scale_and_zero("y", y_scale, y_zero, dtype)
    return one_node(kind, inputs, dtype, "x", "com.microsoft", **attributes)


def softmax_int8() -> Canary:
    """Returns a QLinearSoftmax with a dominating element, which must saturate, not wrap."""
    x = np.full((2, 8), -128, np.int8)
    x[0, 3] = 127
    x[1] = np.arange(-4, 4)
    inputs = {"x": x} | scale_and_zero("x", 0.5, 0, "int8") | scale_and_zero("y", 1 / 256, -128, "int8")
    return one_node("QLinearSoftmax", inputs, "int8", "x", "com.microsoft", axis=1, opset=17)


def pool(kind: str, **attributes: Any) -> Canary:
    """Returns a quantized pool of random values."""
    x = np.random.Generator(np.random.PCG64(5)).integers(0, 256, (1, 64, 8, 7)).astype(np.uint8)
    inputs = {"x": x} | scale_and_zero("x", 0.5, 100, "uint8") | scale_and_zero("y", 0.25, 50, "uint8")
    return one_node(kind, inputs, "uint8", "x", "com.microsoft", **attributes)


def quantize() -> Canary:
    """Returns a QuantizeLinear on ties and on values for which multiplying by the reciprocal rounds differently from
    dividing."""
    x = np.random.Generator(np.random.PCG64(6)).uniform(-20, 20, 4096).astype(np.float32)
    x[:512] = (np.arange(512) - 256) * np.float32(0.05)
    return one_node("QuantizeLinear", {"x": x} | scale_and_zero("y", 0.1, 128, "uint8"), "uint8", "x")


def float_to_8bit(kind: str, y_scale: float, **attributes: Any) -> Canary:
    """Returns the nodes dequantize, float function, quantize: a function that onnxruntime computes in float is compared
    after quantizing its result."""
    x = np.tile(grid("uint8"), (2, 1))
    tensors = {"x": x} | scale_and_zero("x", 0.03, 128, "uint8") | scale_and_zero("y", y_scale, 0, "uint8")
    inputs = {k: np.asarray(v) for k, v in tensors.items()}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["real"]),
        helper.make_node(kind, ["real"], ["value"], **attributes),
        helper.make_node("QuantizeLinear", ["value", "y_scale", "y_zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "canary",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(v, n) for n, v in inputs.items() if n != "x"],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), {"x": x}


TYPES = {"u8u8": ("uint8", "uint8"), "u8s8": ("uint8", "int8"), "s8s8": ("int8", "int8")}
PRODUCTS: dict[str, Callable[[str, str], Canary]] = {"QLinearConv": conv, "QLinearMatMul": matmul, "QGemm": gemm}
CANARIES: dict[str, Callable[[], Canary]] = {
    **{f"{kind} {n}": partial(make, *types) for kind, make in PRODUCTS.items() for n, types in TYPES.items()},
    **{f"MatMulInteger {n}": partial(matmul_integer, *TYPES[n]) for n in ("u8u8", "u8s8")},
    **{f"ConvInteger {n}": partial(conv_integer, *TYPES[n]) for n in ("u8u8", "u8s8")},
    "QLinearAdd u8": lambda: two_operands("QLinearAdd", "uint8", (0.5, 0.25, 1)),
    "QLinearAdd s8": lambda: two_operands("QLinearAdd", "int8", (0.037, 0.0411, 0.071)),
    "QLinearMul u8": lambda: two_operands("QLinearMul", "uint8", (0.5, 0.02, 0.4)),
    "QLinearSigmoid u8": lambda: unary("QLinearSigmoid", "uint8", 0.03, 255, 1e-4, 0),
    "QLinearLeakyRelu s8": lambda: unary("QLinearLeakyRelu", "int8", 0.02, -7, 0.03, 2, alpha=0.1),
    "QLinearSoftmax s8": softmax_int8,
    "QLinearAveragePool u8": lambda: pool("QLinearAveragePool", kernel_shape=[3, 2], strides=[2, 1]),
    "QLinearGlobalAveragePool u8": lambda: pool("QLinearGlobalAveragePool", channels_last=0),
    "QuantizeLinear u8": quantize,
    "Tanh": lambda: float_to_8bit("Tanh", 1 / 255),
    "Softmax": lambda: float_to_8bit("Softmax", 1e-4, axis=-1),
}
