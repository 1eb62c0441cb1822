"""Functions of one or two float tensors -> elementwise_float, numbered in model_bin/float_functions.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.attributes import ANY, only
from qverify.compiler.builder import float_word
from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError
from qverify.model_bin.float_functions import FUNCTIONS
from qverify.onnx_model.view import attributes

NAMES = {
    "Abs": "abs",
    "Add": "add",
    "Clip": "clip",
    "Div": "div",
    "Elu": "elu",
    "Erf": "erf",
    "Exp": "exp",
    "Gelu": "gelu",
    "HardSigmoid": "hard_sigmoid",
    "HardSwish": "hard_swish",
    "LeakyRelu": "leaky_relu",
    "Log": "log",
    "Max": "max",
    "Min": "min",
    "Mul": "mul",
    "Neg": "neg",
    "Pow": "pow",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Sqrt": "sqrt",
    "Sub": "sub",
    "Tanh": "tanh",
}
READ: dict[str, dict[str, frozenset[Any] | None]] = {
    "Clip": {"min": ANY, "max": ANY},
    "Elu": {"alpha": ANY},
    "Gelu": {"approximate": only(b"none", b"tanh")},
    "HardSigmoid": {"alpha": ANY, "beta": ANY},
    "LeakyRelu": {"alpha": ANY},
}
ONNX_TYPES = {kind: READ.get(kind, {}) for kind in NAMES}


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError for a wrong number of inputs, another type than float32, or a parameter
    that is not constant."""
    function = FUNCTIONS[NAMES[node.op_type]]
    p, q = _parameters(stream, node)
    if function.operands == 2 and len(node.input) != 2:
        raise stream.no_kernel(node)
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
        return low, high
    if kind == "HardSigmoid":
        return attrs.get("alpha", 0.2), attrs.get("beta", 0.5)
    if kind == "Gelu" and attrs.get("approximate", b"none") != b"none":
        raise UnsupportedError(
            f"{node.name} (Gelu): approximate={attrs['approximate'].decode()} is not supported on a float stream"
        )
    return attrs.get("alpha", {"LeakyRelu": 0.01, "Elu": 1.0}.get(kind, 0.0)), 0.0
