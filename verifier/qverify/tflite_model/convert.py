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
from qverify.tflite_model.operators_with_weights import convolution, fully_connected
from qverify.tflite_model.operators_without_weights import WITHOUT_WEIGHTS
from qverify.tflite_model.read_tflite import TfliteModel
from qverify.tflite_model.writer import Writer

CONVERTERS = {
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": convolution,
    "FULLY_CONNECTED": fully_connected,
    **WITHOUT_WEIGHTS,
}


@dataclass(frozen=True, slots=True)
class ConvertedModel:
    """A converted .tflite.

    Attributes:
        model: the contents of the file.
        onnx: the serialized QDQ ONNX.
        tensors: name of an ONNX tensor to the tensor of the file (see Writer.tensors).
    """

    model: TfliteModel
    onnx: bytes
    tensors: dict[str, dict[str, Any]]


def convert(model: TfliteModel) -> ConvertedModel:
    """Returns the converted model. Raises BlockedError, an UnsupportedError, that names every operator that cannot be
    converted."""
    writer, refused = Writer(model), Counter[str]()
    for i in (*model.inputs, *model.made_by):  # reserve the names of computed tensors before those of constants
        writer.name(i)
    for operator in model.operators:
        try:
            if operator.kind not in CONVERTERS:
                raise UnsupportedError("no converter for it")
            check_types(writer, operator)
            CONVERTERS[operator.kind](writer, operator)
        except UnsupportedError as error:
            refused[f"{operator.kind}: {error}"] += 1
    if refused:
        lines = [f"{line} ({count(n, 'operator')})" for line, n in refused.most_common()]
        raise BlockedError(f"{model.file}: {count(len(lines), 'kind')} of operators cannot be converted", lines)
    data = writer.file()
    return ConvertedModel(model, data, writer.tensors)
