"""Converts a quantized .tflite into a QDQ ONNX whose tensors are mapped to the file's.

Tensors of four axes are NHWC in the file and NCHW in the ONNX. Weights, biases, scales and zero points are the file's own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BlockedError, UnsupportedError
from qverify.plural import count
from qverify.tflite_model.operators_with_weights import convolution, fully_connected
from qverify.tflite_model.operators_without_weights import WITHOUT_WEIGHTS
from qverify.tflite_model.read_tflite import TfliteModel
from qverify.tflite_model.writer import EIGHT_BITS, Writer

CONVERTERS = {
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": convolution,
    "FULLY_CONNECTED": fully_connected,
    **WITHOUT_WEIGHTS,
}
FREE = ("QUANTIZE", "DEQUANTIZE", "ARG_MAX")  # they join quantized tensors with others, and check them themselves


@dataclass(frozen=True, slots=True)
class ConvertedModel:
    """The result. onnx: the QDQ ONNX. tensors: its tensors' names to the file's tensors (Writer.tensors). multipliers:
    output tensor to the float64 scales of its sums, as LiteRT computes them, where they differ from input scale * weight
    scale / output scale in float64."""

    model: TfliteModel
    onnx: bytes
    tensors: dict[str, dict[str, Any]]
    multipliers: dict[str, npt.NDArray[np.float64]]


def convert(model: TfliteModel) -> ConvertedModel:
    """Returns the converted model. BlockedError (UnsupportedError) names every operator that cannot be converted."""
    writer, refused = Writer(model), Counter[str]()
    for i in (*model.inputs, *model.made_by):  # before constants of the same name
        writer.name(i)
    for operator in model.operators:
        try:
            if operator.kind not in CONVERTERS:
                raise UnsupportedError("no converter for it")
            if operator.kind not in FREE:
                _check_types(writer, operator)
            CONVERTERS[operator.kind](writer, operator)
        except UnsupportedError as error:
            refused[f"{operator.kind}: {error}"] += 1
    if refused:
        lines = [f"{line} ({count(n, 'operator')})" for line, n in refused.most_common()]
        raise BlockedError(f"{model.file}: {count(len(lines), 'kind')} of operators cannot be converted", lines)
    data = writer.file()
    return ConvertedModel(model, data, writer.tensors, writer.multipliers)


def _check_types(writer: Writer, operator: Any) -> None:
    """Raises UnsupportedError where the first input or the output is not of 8 bits with one scale."""
    if not operator.inputs or operator.inputs[0] < 0 or len(operator.outputs) != 1:
        raise UnsupportedError("it lacks an input, or has several outputs")
    for index in (operator.inputs[0], operator.outputs[0]):
        check_activation(writer, index)


def check_activation(writer: Writer, index: int) -> None:
    """Raises UnsupportedError where the tensor is not of 8 bits with one scale."""
    tensor = writer.tensor(index)
    if tensor.dtype not in EIGHT_BITS or tensor.scale.size != 1:
        scales = "" if tensor.scale.size == 1 else f" with {count(tensor.scale.size, 'scale')}"
        raise UnsupportedError(f"a tensor of {tensor.dtype}{scales}; wanted int8 or uint8 with one scale")
