"""lookup: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RANGE, RandomNodes


@reference(integer=False)
def relu_alone(m: Qdq) -> None:
    m.output(m.quantize(m.op("Relu", [m.input((1, 3, 5, 7))])))


@reference()
def sigmoid(m: Qdq) -> None:
    m.output(m.quantize(m.op("Sigmoid", [m.input((1, 3, 5, 7), -6, 6)])))


@reference()
def leaky_relu(m: Qdq) -> None:
    m.output(m.quantize(m.op("LeakyRelu", [m.input((1, 3, 5, 7))], alpha=0.1)))


@reference(integer=False)
def tanh(m: Qdq) -> None:
    m.output(m.quantize(m.op("Tanh", [m.input((1, 3, 5, 7))])))


@reference(integer=False)
def hard_swish(m: Qdq) -> None:
    m.output(m.quantize(m.op("HardSwish", [m.input((1, 3, 5, 7), -5, 5)])))


@reference(integer=False)
def gelu_of_parts(m: Qdq) -> None:
    x, root, one, half = m.input((3, 7)), *(m.constant(f"c{v}", np.float32(v)) for v in (1.4142135, 1.0, 0.5))
    phi = m.op("Add", [m.op("Erf", [m.op("Div", [x, root])]), one])
    m.output(m.quantize(m.op("Mul", [m.op("Mul", [x, phi]), half])))


@reference(integer=False)
def divided_by_scalar(m: Qdq) -> None:
    m.output(m.quantize(m.op("Div", [m.input((3, 7)), m.constant("eight", np.float32(8))])))


@reference(integer=False)  # onnxruntime's optimizer drops the first pair: another result, not another arithmetic
def requantized_only(m: Qdq) -> None:
    m.output(m.quantize(m.input((3, 7)), crop=0.5))


def random_nodes(r: RandomNodes) -> None:
    for dtype in (r.type(), r.type("uint16", "int16")):
        x, y = r.input(dtype, (3, 5, 7)), r.output(r.type("uint8", "int8", "uint16", "int16"), (3, 5, 7))
        low, high = RANGE[y.dtype]
        entries = 1 << 8 * x.numpy_dtype.itemsize
        table = r.constant(r.rng.integers(low, high, entries, endpoint=True).astype(y.dtype))
        r.node("lookup", (x, table), y)
