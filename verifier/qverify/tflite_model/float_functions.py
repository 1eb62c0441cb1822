"""Converts functions of one or two tensors of float32, which are operators of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.errors import UnsupportedError
from qverify.tflite_model.checks import activation_of, require
from qverify.tflite_model.options import ACTIVATION
from qverify.tflite_model.read_tflite import TfliteOperator, TfliteTensor
from qverify.tflite_model.writer import Writer

UNARY = {
    "ABS": "Abs", "COS": "Cos", "ELU": "Elu", "EXP": "Exp", "HARD_SWISH": "HardSwish", "LEAKY_RELU": "LeakyRelu", "LOG": "Log",
    "NEG": "Neg", "RELU": "Relu", "RELU6": "Clip", "RELU_0_TO_1": "Clip", "RELU_N1_TO_1": "Clip", "SIN": "Sin", "SQRT": "Sqrt",
    "TANH": "Tanh",
}  # fmt: skip
LIMITS = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}
BINARY = {
    "DIV": "Div", "PRELU": "PRelu", "EQUAL": "Equal", "GREATER": "Greater", "GREATER_EQUAL": "GreaterOrEqual", "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
}  # fmt: skip


def of_one(writer: Writer, operator: TfliteOperator, x: TfliteTensor, y: TfliteTensor) -> None:
    """Writes a function of one tensor."""
    require(y.dtype == "float32", f"float32 and {y.dtype} as input and output")
    kind, source, target = operator.kind, writer.real(x.index), writer.unquantized(y.index)
    how: dict[str, Any] = {"alpha": float(operator.options["Alpha"])} if kind == "LEAKY_RELU" else {}
    name = writer.name(y.index)
    if kind == "RSQRT":
        one = writer.constant("@1", np.array(1, np.float32))
        writer.node("Div", [one, writer.node("Sqrt", [source], f"{name}@root")], target)
    elif kind == "GELU" and not operator.options["Approximate"]:
        half, root = (writer.constant(f"@{v:.9g}", np.array(v, np.float32)) for v in (0.5, 0.5**0.5))
        error = writer.node("Erf", [writer.node("Mul", [source, root], f"{name}@scaled")], f"{name}@erf")
        one = writer.constant("@1", np.array(1, np.float32))
        share = writer.node("Mul", [writer.node("Add", [error, one], f"{name}@more"), half], f"{name}@share")
        writer.node("Mul", [source, share], target)
    elif kind == "SQUARE":
        writer.node("Mul", [source, source], target)
    elif kind in UNARY:
        limits = [writer.constant(f"@{v:g}", np.array(v, np.float32)) for v in LIMITS.get(kind, ())]
        writer.node(UNARY[kind], [source, *limits], target, **how)
    else:
        raise UnsupportedError("a tensor of float32")
    writer.finish(operator)


def of_two(writer: Writer, operator: TfliteOperator, y: TfliteTensor) -> None:
    """Writes a function of two tensors, which are broadcast; a comparison makes bools."""
    kind, operands = operator.kind, [writer.real_operand(i, len(y.shape)) for i in operator.inputs]
    require(all(writer.tensor(i).dtype == "float32" for i in operator.inputs), "operands of several types")
    if y.dtype == "bool":
        compared = {**BINARY, "NOT_EQUAL": ""}[kind]
        require(bool(compared), "a comparison of float32")
        writer.node(compared, operands, writer.mapped(y.index))
        return
    target = writer.unquantized(y.index)
    if kind == "SQUARED_DIFFERENCE":
        difference = writer.node("Sub", operands, f"{writer.name(y.index)}@difference")
        writer.node("Mul", [difference, difference], target)
    else:
        writer.node(BINARY[kind], operands, target)
    writer.finish(operator, activation_of(operator) if ACTIVATION in operator.options else 0)
