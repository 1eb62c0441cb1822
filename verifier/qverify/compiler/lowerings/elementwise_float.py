"""Functions of one or two float tensors -> elementwise_float, numbered in model_bin/float_functions.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.attributes import ANY, only
from qverify.compiler.builder import float_word
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings import elementwise_integer, variadic_float
from qverify.errors import UnsupportedError
from qverify.model_bin.float_functions import FUNCTIONS
from qverify.onnx_model.graph_view import attributes

NAMES = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Add": "add",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Celu": "celu",
    "Clip": "clip",
    "Cos": "cos",
    "Cosh": "cosh",
    "Div": "div",
    "Elu": "elu",
    "Erf": "erf",
    "Exp": "exp",
    "FastGelu": "gelu_tanh",
    "Floor": "floor",
    "Gelu": "gelu",
    "HardSigmoid": "hard_sigmoid",
    "HardSwish": "hard_swish",
    "LeakyRelu": "leaky_relu",
    "Log": "log",
    "Max": "max",
    "Min": "min",
    "Mish": "mish",
    "Mul": "mul",
    "Neg": "neg",
    "PRelu": "prelu",
    "Pow": "pow",
    "QuickGelu": "swish",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Round": "round",
    "Selu": "selu",
    "Shrink": "shrink",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Sub": "sub",
    "Swish": "swish",
    "Tan": "tan",
    "Tanh": "tanh",
    "ThresholdedRelu": "thresholded_relu",
}
READ: dict[str, dict[str, frozenset[Any] | None]] = {
    "Celu": {"alpha": ANY},
    "Clip": {"min": ANY, "max": ANY},
    "Elu": {"alpha": ANY},
    "Gelu": {"approximate": only(b"none", b"tanh")},
    "HardSigmoid": {"alpha": ANY, "beta": ANY},
    "LeakyRelu": {"alpha": ANY},
    "QuickGelu": {"alpha": ANY},
    "Selu": {"alpha": ANY, "gamma": ANY},
    "Shrink": {"lambd": ANY, "bias": ANY},
    "Swish": {"alpha": ANY},
    "ThresholdedRelu": {"alpha": ANY},
}
DEFAULTS = {  # ONNX type to defaults of the attributes that become words p0 and p1, in this order
    "Celu": {"alpha": 1.0},
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    "QuickGelu": {"alpha": 1.702},
    "Selu": {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    "Shrink": {"lambd": 0.5, "bias": 0.0},
    "Swish": {"alpha": 1.0},
    "ThresholdedRelu": {"alpha": 1.0},
}
ONNX_TYPES = {kind: READ.get(kind, {}) for kind in NAMES}
INTEGERS_TOO = dict.fromkeys(elementwise_integer.OF_FLOATS_TOO, elementwise_integer.INTEGERS)


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError for another type than float32 or a parameter that is not
    constant."""
    if elementwise_integer.serves(stream, node):
        elementwise_integer.lower_float(stream, node)
        return
    tanh = node.op_type == "Gelu" and attributes(node).get("approximate") == b"tanh"
    function = FUNCTIONS["gelu_tanh" if tanh else NAMES[node.op_type]]
    p, q = _parameters(stream, node)
    if node.op_type == "PRelu" and len(stream.view.shape(node.input[1])) > len(stream.view.shape(node.input[0])):
        raise UnsupportedError(f"{node.name} (PRelu): its slope has more dims than its input; export with as many")
    if node.op_type in ("Max", "Min") and len(node.input) != 2:
        variadic_float.lower_float(stream, node)
        return
    inputs: list[str | None] = [stream.source(n) for n in node.input[: function.operands]]
    stream.check_float32(node)
    words = [function.number, float_word(p), float_word(q)]
    stream.builder.node("elementwise_float", inputs, stream.declare(node), words, (), False)


def _parameters(stream: FloatStream, node: Any) -> tuple[float, float]:
    """Returns the function's parameters p0 and p1."""
    kind, attrs = node.op_type, attributes(node)
    if kind == "Pow":
        return stream.scalar(node, 1, "exponent"), 0.0
    if kind == "Clip":
        low = stream.scalar(node, 1, "minimum") if len(node.input) > 1 and node.input[1] else attrs.get("min", -np.inf)
        high = stream.scalar(node, 2, "maximum") if len(node.input) > 2 and node.input[2] else attrs.get("max", np.inf)
        return min(low, high), high  # if the limits cross, Clip returns the maximum
    values = [float(attrs.get(name, usual)) for name, usual in DEFAULTS.get(kind, {}).items()]
    return (*values, 0.0, 0.0)[0], (*values, 0.0, 0.0)[1]
