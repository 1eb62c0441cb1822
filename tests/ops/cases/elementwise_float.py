"""elementwise_float: reference cases and random nodes."""

from __future__ import annotations

import numpy as np
from qverify.compiler.builder import float_word
from qverify.model_bin.float_functions import FUNCTIONS

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def divided_by_another_tensor(m: Qdq) -> None:
    m.output(m.quantize(m.op("Div", [m.input((3, 5, 7)), m.input((5, 1), 1, 4)])))


@reference(integer=False)
def largest_of_two_and_its_exponential(m: Qdq) -> None:
    m.output(m.op("Exp", [m.op("Max", [m.input((3, 5, 7)), m.input((5, 7), -1, 1)])]))


@reference(integer=False)
def slopes_of_channels(m: Qdq) -> None:
    slope = m.constant("slope", m.rng.uniform(-0.5, 1.5, (5, 1, 1)).astype(np.float32))
    m.output(m.quantize(m.op("PRelu", [m.op("Sub", [m.input((2, 5, 7, 3)), m.input((7, 3))]), slope])))


@reference(integer=False)
def gelus_by_tanh_and_by_sigmoid(m: Qdq) -> None:
    m.opset = max(m.opset, 20)
    x = m.op("Sub", [m.input((3, 5, 7)), m.input((5, 7))])
    m.output(m.op("FastGelu", [x], domain="com.microsoft"))
    m.output(m.op("Gelu", [x], approximate="tanh"))
    m.output(m.quantize(m.op("QuickGelu", [x], domain="com.microsoft", alpha=1.25)))


@reference(integer=False)
def sum_with_a_quantized_bias(m: Qdq) -> None:
    """A bias of int32 with a scale of its own, of a MatMul that was left out of the quantization."""
    x, w = m.input((2, 5, 7)), m.weight((7, 3))
    bias = m.bias(x, w, 3)
    product = m.quantize(m.op("MatMul", [x, m.constant("float_w", m.rng.normal(0, 1, (7, 3)).astype(np.float32))]))
    m.output(m.quantize(m.op("Add", [bias, product])))


@reference(integer=False)
def steps_and_waves(m: Qdq) -> None:
    x = m.op("Mul", [m.input((3, 5, 7)), m.input((3, 5, 7), -9, 9)])
    for kind in ("Floor", "Ceil", "Round", "Sign", "Sin"):
        m.output(m.op(kind, [x]))
    m.output(m.quantize(m.op("Shrink", [x], lambd=1.5, bias=0.75)))


@reference(integer=False)
def powers_of_negative_numbers(m: Qdq) -> None:
    x = m.op("Sub", [m.input((3, 5, 7)), m.input((5, 7))])
    for exponent in (4, 5):
        m.output(m.op("Pow", [x, m.constant(f"e{exponent}", np.float32(exponent))]))
    m.output(m.quantize(m.op("Pow", [x, m.constant("e0", np.float32(0))])))


NEAR = {  # functions to the graph inputs that they are defined on; others take any
    **dict.fromkeys(("sqrt", "log", "pow"), "positive"),
    **dict.fromkeys(("asin", "acos", "atanh"), "unit"),
    "acosh": "large",
}


def random_nodes(r: RandomNodes) -> None:
    """Every function, where it is defined."""
    pair = (r.floats((3, 5, 17)), r.floats((5, 1)))
    sources = {name: r.floats((999,), 9.0) for name in ("any", "positive", "unit", "large")}
    size = np.abs(r.values[sources["positive"].name])
    r.values[sources["positive"].name] = size + np.float32(1e-3)
    r.values[sources["large"].name] = size + np.float32(1)
    r.values[sources["unit"].name] = np.clip(r.values[sources["unit"].name] / np.float32(9), -1, 1)
    for name, function in FUNCTIONS.items():
        if function.operands == 2:
            r.node("elementwise_float", pair, r.float_output((3, 5, 17)), (function.number, 0, 0))
            continue
        source = sources[NEAR.get(name, "any")]
        if name == "pow":
            for p in (0.0, 1.0, 2.0, 3.0, 4.0, 7.0, -2.0, -3.0):
                words = (function.number, float_word(p), 0)
                r.node("elementwise_float", (sources["any"],), r.float_output((999,)), words)
        for p in (2.0, 3.0, 0.5, -0.7) if name == "pow" else (0.2,):
            words = (function.number, float_word(p), float_word(0.6))
            r.node("elementwise_float", (source,), r.float_output((999,)), words)
