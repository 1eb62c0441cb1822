"""Converts functions of one or two 8-bit tensors: each becomes a table of every stored value, as LiteRT computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qverify.arithmetic import functions64
from qverify.arithmetic import litert_functions as functions
from qverify.arithmetic.function_in_segments import of_every_code
from qverify.arithmetic.litert_functions import Codes
from qverify.arithmetic.rounding_rules import Array
from qverify.errors import UnsupportedError
from qverify.tflite_model import float_functions
from qverify.tflite_model.activation_types import check_types
from qverify.tflite_model.checks import ends_of, require
from qverify.tflite_model.read_tflite import TfliteOperator, TfliteTensor
from qverify.tflite_model.writer import EIGHT_BITS, Writer

Unary = Callable[[Codes, Codes, Any], Array]  # arguments: the codes of input and output, the operator's options
INT8_ONLY = ("ABS", "NEG", "EXP", "LOG", "RSQRT", "SQRT", "SQUARED_DIFFERENCE")  # of LiteRT's kernels
LIMITS = {"RELU": (0.0, np.inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}
COMPARISONS = {
    "EQUAL": np.equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "NOT_EQUAL": np.not_equal,
}


def _of_reals(function: Callable[[Array], Array]) -> Unary:
    return lambda x, y, _: functions.from_reals(x, y, function)


def _limits(kind: str) -> Unary:
    return lambda x, y, _: functions.limited(x, y, *LIMITS[kind])


UNARY: dict[str, Unary] = {
    "ABS": lambda x, y, _: functions.absolute(x, y),
    "ELU": _of_reals(functions.elu),
    "EXP": _of_reals(functions64.exp),
    "GELU": lambda x, y, o: functions.from_reals(x, y, functions.gelu_of_tanh if o["Approximate"] else functions.gelu),
    "HARD_SWISH": lambda x, y, _: functions.hard_swish(x, y),
    "LEAKY_RELU": lambda x, y, o: functions.leaky_relu(x, y, float(o["Alpha"])),
    "NEG": lambda x, y, _: functions.negated(x),
    "LOG": _of_reals(functions64.log),
    "RSQRT": lambda x, y, _: functions.reciprocal_root(x, y),
    "SQRT": lambda x, y, _: functions.root(x, y),
    "TANH": _of_reals(functions.tanh),
    **{kind: _limits(kind) for kind in LIMITS},
}
BINARY: dict[str, Callable[[Codes, Codes, Codes], Array]] = {
    "DIV": functions.divide,
    "PRELU": functions.prelu,
    "SQUARED_DIFFERENCE": functions.squared_difference,
}


def codes_of(tensor: TfliteTensor) -> Codes:
    """Returns the stored values of a tensor. Raises UnsupportedError if it is not of 8 bits with one scale."""
    if tensor.dtype not in EIGHT_BITS or tensor.scale.size != 1:
        raise UnsupportedError(
            f"a tensor of {tensor.dtype} with {tensor.scale.size} scales; wanted 8 bits and one scale"
        )
    return Codes(float(tensor.scale[0]), int(tensor.zero[0]), tensor.dtype)


def unary(writer: Writer, operator: TfliteOperator) -> None:
    x, y = ends_of(writer, operator, 1)
    if x.dtype == "float32":
        float_functions.of_one(writer, operator, x, y)
        return
    if x.dtype == "int16":
        _of_int16(writer, operator, x, y)
        return
    if operator.kind not in UNARY:
        raise UnsupportedError(f"a tensor of {x.dtype}")
    _check_types(operator, x, y)
    table = UNARY[operator.kind](codes_of(x), codes_of(y), operator.options)
    writer.table(y.index, writer.place(x.index), table)


def _of_int16(writer: Writer, operator: TfliteOperator, x: TfliteTensor, y: TfliteTensor) -> None:
    """Writes a function of int16."""
    check_types(writer, operator)
    if operator.kind in ("EXP", "GELU"):
        approximate = operator.kind == "GELU" and operator.options["Approximate"]
        function = (
            functions64.exp if operator.kind == "EXP" else functions.gelu_of_tanh if approximate else functions.gelu
        )
        table = of_every_code(function, float(x.scale[0]), float(y.scale[0]))
        writer.table(y.index, writer.place(x.index), table)
        return
    if operator.kind == "TANH":
        writer.node("Tanh", [writer.real(x.index)], writer.unquantized(y.index))
        writer.finish(operator)
        return
    before, after = (Codes(float(t.scale[0]), 0, t.dtype) for t in (x, y))
    table = functions.leaky_relu(before, after, float(operator.options["Alpha"]))
    writer.table(y.index, writer.place(x.index), table)


def _check_types(operator: TfliteOperator, *tensors: TfliteTensor) -> None:
    wanted = ("int8",) if operator.kind in INT8_ONLY else EIGHT_BITS
    for tensor in tensors:
        require(tensor.dtype in wanted, f"a tensor of {tensor.dtype}; wanted {' or '.join(wanted)}")
        require(tensor.dtype == tensors[0].dtype, f"tensors of {tensors[0].dtype} and {tensor.dtype}")


def binary(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a function of two tensors, which are broadcast."""
    a, y = ends_of(writer, operator, 2)
    b = writer.tensor(operator.inputs[1])
    if a.dtype == "float32":
        float_functions.of_two(writer, operator, y)
        return
    _check_types(operator, a, b, y)
    require(not operator.options.get("FusedActivationFunction"), "a fused activation")
    if operator.kind == "DIV" and b.data is not None:
        require(bool((b.data != b.zero[0]).all()), "a divisor of 0")
    _pairs(writer, a, b, y, BINARY[operator.kind](codes_of(a), codes_of(b), codes_of(y)))


def comparison(writer: Writer, operator: TfliteOperator) -> None:
    a, y = ends_of(writer, operator, 2)
    b = writer.tensor(operator.inputs[1])
    if a.dtype == "float32":
        float_functions.of_two(writer, operator, y)
        return
    _check_types(operator, a, b)
    require(y.dtype == "bool", f"an output of {y.dtype}")
    require(max(a.scale[0], b.scale[0]) < 1, "a scale of 1 or more, which LiteRT refuses")
    _pairs(writer, a, b, y, functions.compare(codes_of(a), codes_of(b), COMPARISONS[operator.kind]))


def _pairs(writer: Writer, a: TfliteTensor, b: TfliteTensor, y: TfliteTensor, table: Array) -> None:
    """Writes y by a table of every pair of stored values. A constant operand of one element leaves a table of 256."""
    rank = len(y.shape)
    for k, (constant, other) in enumerate(((a, b), (b, a))):
        if constant.data is not None and constant.data.size == 1 and other.shape == y.shape:
            at = int(constant.data.reshape(-1)[0]) - int(np.iinfo(constant.dtype).min)
            writer.table(y.index, writer.place(other.index, rank), table[at] if k == 0 else table[:, at])
            return
    first, second = writer.place(a.index, rank), writer.place(b.index, rank)
    name = writer.name(y.index)
    many = writer.constant("@256", np.array(256, np.int32))
    product = writer.node("Mul", [first, many], f"{name}@high")
    total = writer.node("Add", [product, second], f"{name}@place")
    writer.table(y.index, total, table)


TABLES: dict[str, Callable[[Writer, TfliteOperator], None]] = {
    **dict.fromkeys((*UNARY, "COS", "SIN", "SQUARE"), unary),
    **dict.fromkeys(BINARY, binary),
    **dict.fromkeys(COMPARISONS, comparison),
}
