"""Arithmetic of integers, comparisons and logic -> elementwise_integer, numbered in model_bin/integer_functions.py.

Types that are defined for floats as well (Add, Clip ...) are passed on to this page by elementwise_float."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.attributes import only
from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError
from qverify.model_bin.integer_functions import CLASSES, COMPARISONS, FUNCTIONS, LOGIC
from qverify.onnx_model.graph_view import attributes

NAMES = {
    "And": "and",
    "BitwiseAnd": "bitwise_and",
    "BitwiseNot": "bitwise_not",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_or_equal",
    "IsInf": "is_inf",
    "IsNaN": "is_nan",
    "Less": "less",
    "LessOrEqual": "less_or_equal",
    "Not": "not",
    "Or": "or",
    "Xor": "xor",
}
OF_FLOATS_TOO = {
    "Abs": "abs",
    "Add": "add",
    "Clip": "clip",
    "Div": "div",
    "Max": "max",
    "Min": "min",
    "Mul": "mul",
    "Neg": "neg",
    "Sign": "sign",
    "Sub": "sub",
}
READ: dict[str, dict[str, frozenset[Any] | None]] = {"IsInf": {"detect_negative": only(1), "detect_positive": only(1)}}
ONNX_TYPES = {kind: READ.get(kind, {}) for kind in NAMES}
INTEGERS = ("int32", "int64", "uint8", "int8")


def serves(stream: FloatStream, node: Any) -> bool:
    """Returns whether a node of a type that is defined for floats as well works on integers that this op supports."""
    return node.op_type in OF_FLOATS_TOO and stream.view.dtype(node.output[0]) in INTEGERS


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError for types that the function does not have, and for a constant divisor
    of 0."""
    name = NAMES.get(node.op_type) or OF_FLOATS_TOO[node.op_type]
    _check(stream, node, name)
    function = FUNCTIONS[name]
    inputs = [stream.source(n) if n else None for n in node.input]
    inputs += [None] * (function.operands - len(inputs))
    outputs = stream.declare(node, like=inputs[0] or "" if name == "clip" else "")
    stream.builder.node("elementwise_integer", inputs, outputs, [function.number])


def _check(stream: FloatStream, node: Any, name: str) -> None:
    dtypes = [stream.view.dtype(n) for n in node.input if n]
    supported: tuple[str, ...] = INTEGERS
    if name in (*LOGIC, *CLASSES):
        supported = ("bool",) if name in LOGIC else ("float32",)
    elif name in COMPARISONS:
        supported = ("float32", *INTEGERS, *(("bool",) if name == "equal" else ()))
    where = f"{node.name} ({node.op_type})"
    if any(dtype not in supported for dtype in dtypes):
        raise UnsupportedError(f"{where}: on {', '.join(dtypes)}; wanted {' or '.join(supported)}")
    if name == "clip" and {"min", "max"} & attributes(node).keys():
        raise UnsupportedError(f"{where}: limits of integers as attributes; wanted inputs, as from opset 12 on")
    if len(node.input) > FUNCTIONS[name].operands or (name != "clip" and len(node.input) < FUNCTIONS[name].operands):
        raise UnsupportedError(f"{where}: {len(node.input)} inputs of integers; wanted {FUNCTIONS[name].operands}")
    if name == "div":
        check_divisors(stream, node)


def check_divisors(stream: FloatStream, node: Any) -> None:
    """Raises UnsupportedError for a constant divisor that contains 0, with which every run would fail."""
    if (stream.view.constants.get(node.input[1], np.ones(1)) == 0).any():
        raise UnsupportedError(f"{node.name} ({node.op_type}): a divisor is 0; replace it by another number")
