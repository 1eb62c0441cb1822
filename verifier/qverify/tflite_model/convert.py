"""Converts a quantized .tflite into a QDQ ONNX, and maps the ONNX's tensors to those of the file.

Tensors of four axes are NHWC in the file and NCHW in the ONNX. Weights, biases, scales and zero points are taken from
the file unchanged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from qverify.errors import BlockedError, UnsupportedError
from qverify.plural import count
from qverify.tflite_model.activation_types import check_types
from qverify.tflite_model.elementwise import ELEMENTWISE
from qverify.tflite_model.float_constants import with_float_constants
from qverify.tflite_model.fold import fold
from qverify.tflite_model.movements import MOVEMENTS
from qverify.tflite_model.operators_with_weights import batch_matmul, convolution, fully_connected, transpose_conv
from qverify.tflite_model.operators_without_weights import WITHOUT_WEIGHTS
from qverify.tflite_model.read_tflite import DAMAGE_ERRORS, NPU_OPERATORS, TfliteModel, TfliteOperator
from qverify.tflite_model.reductions import REDUCTIONS
from qverify.tflite_model.tables import TABLES
from qverify.tflite_model.writer import Writer

CONVERTERS = {
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": convolution,
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": batch_matmul,
    "TRANSPOSE_CONV": transpose_conv,
    **ELEMENTWISE,
    **MOVEMENTS,
    **REDUCTIONS,
    **TABLES,
    **WITHOUT_WEIGHTS,
}
WITH_OPTIONAL_INPUTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
CHECK_THEMSELVES = {  # operators that may read or write tensors that are not quantized
    *("QUANTIZE", "DEQUANTIZE", "BATCH_MATMUL", "TRANSPOSE_CONV", "ARG_MAX", "ARG_MIN", "REDUCE_MAX", "REDUCE_MIN"),
    *ELEMENTWISE,
    *MOVEMENTS,
    *TABLES,
}


@dataclass(frozen=True, slots=True)
class ConvertedModel:
    """A converted .tflite.

    Attributes:
        model: the contents of the file; what operators compute from constants and shapes alone are constants.
        onnx: the serialized QDQ ONNX.
        tensors: name of an ONNX tensor to the tensor of the file (see Writer.tensors).
    """

    model: TfliteModel
    onnx: bytes
    tensors: dict[str, dict[str, Any]]


def convert(model: TfliteModel) -> ConvertedModel:
    """Returns the converted model. Raises BlockedError, an UnsupportedError, that names every operator that cannot be
    converted."""
    check_runnable(model)
    model = fold(model)
    folded = with_float_constants(model)
    writer, refused = Writer(folded), Counter[str]()
    if free := [i for i in model.outputs if i not in model.made_by]:
        raise UnsupportedError(f"{model.file}: no operator makes its output {free[0]} (an input or a constant)")
    for i in (*folded.inputs, *folded.made_by):  # reserve the names of computed tensors before those of constants
        writer.name(i)
    for operator in folded.operators:
        try:
            if operator.kind not in CONVERTERS:
                raise UnsupportedError("no converter for it")
            _check_dense(writer, operator)
            if operator.kind not in CHECK_THEMSELVES:
                check_types(writer, operator)
            if operator.kind not in WITH_OPTIONAL_INPUTS and -1 in operator.inputs:
                raise UnsupportedError("an input that is left out")
            CONVERTERS[operator.kind](writer, operator)
        except UnsupportedError as error:
            refused[f"{operator.kind}: {error}"] += 1
        except (*DAMAGE_ERRORS, ZeroDivisionError):
            refused[f"{operator.kind}: its inputs, shapes and options contradict each other"] += 1
    if refused:
        lines = [f"{line} ({count(n, 'operator')})" for line, n in refused.most_common()]
        raise BlockedError(f"{model.file}: {count(len(lines), 'kind')} of operators cannot be converted", lines)
    data = writer.file()
    return ConvertedModel(model, data, writer.tensors)


def check_runnable(model: TfliteModel) -> None:
    """Raises UnsupportedError for a file that was compiled for an NPU."""
    if operator := next((o for o in model.operators if o.runs_on_npu), None):
        raise UnsupportedError(
            f"{model.file}: {NPU_OPERATORS[operator.kind]}: {operator} is a program of the NPU, which no kernel of LiteRT "
            f"runs. Next: give -m the .tflite from which it was made"
        )


def _check_dense(writer: Writer, operator: TfliteOperator) -> None:
    """Raises UnsupportedError if the operator reads a variable or a sparse constant, or a tensor of it has no elements."""
    for tensor in (writer.tensor(i) for i in (*operator.inputs, *operator.outputs) if i >= 0):
        if 0 in tensor.shape:
            raise UnsupportedError(f"tensor {tensor.index} has the dims {list(tensor.shape)}")
        if tensor.variable or tensor.sparse:
            raise UnsupportedError(f"tensor {tensor.index} is {'a variable' if tensor.variable else 'sparse'}")
