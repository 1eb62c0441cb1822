"""Converts operators that compute each element from those of one or several tensors at the same place, by broadcasting,
and are no tables: sums and products, extrema, choices, casts."""

from __future__ import annotations

from collections.abc import Callable
from math import frexp

from qverify.errors import UnsupportedError
from qverify.tflite_model.activation_types import check_activation, check_types, is_quantized
from qverify.tflite_model.checks import activation_of, ends_of, require, same_quantization
from qverify.tflite_model.read_tflite import TfliteOperator
from qverify.tflite_model.writer import EIGHT_BITS, Writer, type_number

SUMS = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul"}
EXTREMA = {"MAXIMUM": "Max", "MINIMUM": "Min"}
CAST_FROM = {  # types to those that a CAST may make of them: every value has one there
    "bool": ("int8", "uint8", "int32", "int64", "float32"),
    "int8": ("int32", "int64", "float32"),
    "uint8": ("int32", "int64", "float32"),
    "int32": ("int64", "float32"),
    "int64": ("float32",),
}


def sum_or_product(writer: Writer, operator: TfliteOperator) -> None:
    """Writes an ADD, SUB or MUL."""
    _, y = ends_of(writer, operator, 2)
    check_types(writer, operator)
    operands = []
    for index in operator.inputs:
        tensor = writer.tensor(index) if index >= 0 else None
        if tensor is None:
            raise UnsupportedError("an operand is missing")
        check_activation(writer, operator, index)
        operands.append(writer.real_operand(index, len(y.shape)))
    require(not _adds_by_shifts(writer, operator), "scales that are powers of two, which LiteRT adds by shifts")
    if len(y.shape) <= 4 or all(len(writer.tensor(i).shape) != 4 for i in operator.inputs):
        writer.node(SUMS[operator.kind], operands, writer.unquantized(y.index))
        writer.finish(operator, activation_of(operator))
        return
    raise UnsupportedError(f"an operand of four axes for {len(y.shape)}")


def _adds_by_shifts(writer: Writer, operator: TfliteOperator) -> bool:
    """Returns whether LiteRT's kernel of an ADD or SUB of int16 only shifts the operands."""
    tensors = [writer.tensor(i) for i in (*operator.inputs, *operator.outputs)]
    if tensors[0].dtype != "int16":
        return False
    powers = all(frexp(float(t.scale[0]))[0] == 0.5 for t in tensors)
    return powers and bool(operator.options.get("PotScaleInt16"))


def extremum(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a MAXIMUM or MINIMUM, of stored numbers as they are."""
    _, y = ends_of(writer, operator, 2)
    tensors = [writer.tensor(i) for i in operator.inputs]
    require(all(same_quantization(t, y) for t in tensors), "operands and output of several quantizations")
    require(y.dtype in (*EIGHT_BITS, "int16", "int32", "int64", "float32"), f"a tensor of {y.dtype}")
    if y.dtype == "int16":  # ONNX's operator has no kernel of it
        reals = [writer.real_operand(i, len(y.shape)) for i in operator.inputs]
        writer.node(EXTREMA[operator.kind], reals, writer.unquantized(y.index))
        writer.finish(operator)
        return
    operands = [writer.operand(i, len(y.shape)) for i in operator.inputs]
    writer.node(EXTREMA[operator.kind], operands, writer.mapped(y.index))


def select(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a SELECT, whose condition may be one for each first index, or a SELECT_V2, which broadcasts."""
    condition, y = ends_of(writer, operator, 3)
    a, b = (writer.tensor(i) for i in operator.inputs[1:])
    require(condition.dtype == "bool", f"a condition of {condition.dtype}")
    require(same_quantization(a, y) and same_quantization(b, y), "operands and output of several quantizations")
    require(y.dtype == "float32" or is_quantized(y), f"a tensor of {y.dtype}")
    rank = len(y.shape)
    if operator.kind == "SELECT" and len(condition.shape) == 1 < rank:
        name = writer.reshaped(condition.index, (*condition.shape, *(1,) * (rank - 1)))
    else:
        name = writer.operand(condition.index, rank)
    inputs = [name, *(writer.real_operand(t.index, rank) for t in (a, b))]
    writer.node("Where", inputs, writer.unquantized(y.index))
    writer.finish(operator)


def cast(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a CAST, of stored numbers as they are."""
    x, y = ends_of(writer, operator, 1)
    require(y.dtype in CAST_FROM.get(x.dtype, ()), f"{x.dtype} as {y.dtype}")
    writer.node("Cast", [writer.stored(x.index)], writer.mapped(y.index), to=type_number(y.dtype))


def logic(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a LOGICAL_AND, LOGICAL_OR or LOGICAL_NOT."""
    y = writer.tensor(operator.outputs[0])
    require(all(writer.tensor(i).dtype == "bool" for i in operator.inputs), "an operand that is not bool")
    operands = [writer.operand(i, len(y.shape)) for i in operator.inputs]
    writer.node(LOGIC[operator.kind], operands, writer.mapped(y.index))


LOGIC = {"LOGICAL_AND": "And", "LOGICAL_NOT": "Not", "LOGICAL_OR": "Or"}
ELEMENTWISE: dict[str, Callable[[Writer, TfliteOperator], None]] = {
    **dict.fromkeys(SUMS, sum_or_product),
    **dict.fromkeys(EXTREMA, extremum),
    **dict.fromkeys(("SELECT", "SELECT_V2"), select),
    **dict.fromkeys(LOGIC, logic),
    "CAST": cast,
}
