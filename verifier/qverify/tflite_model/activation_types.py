"""Which types of activations an operator of a .tflite may have to be converted."""

from __future__ import annotations

from qverify.errors import UnsupportedError
from qverify.plural import count
from qverify.tflite_model.read_tflite import TfliteOperator, TfliteTensor
from qverify.tflite_model.writer import EIGHT_BITS, Writer

ALSO_16_BITS = {  # operators whose activations may be int16 with one scale and the zero point 0
    *("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV", "BATCH_MATMUL"),
    *("ADD", "SUB", "MUL", "AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN"),
    *("SOFTMAX", "LOGISTIC", "TANH", "LEAKY_RELU", "CONCATENATION", "RESIZE_BILINEAR", "EXP", "GELU"),
}
ALSO_FLOATS = {  # operators that are computed in float32 if their input and output are
    *("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "SUB", "MUL", "AVERAGE_POOL_2D", "MAX_POOL_2D"),
    *("MEAN", "SOFTMAX", "LOGISTIC", "TANH", "CONCATENATION", "RESIZE_BILINEAR", "SUM", "BATCH_MATMUL"),
}


def check_types(writer: Writer, operator: TfliteOperator) -> None:
    """Raises UnsupportedError if the first input or the output has a type that the operator's converter does not take."""
    if not operator.inputs or operator.inputs[0] < 0 or len(operator.outputs) != 1:
        raise UnsupportedError("it lacks an input, or has several outputs")
    for index in (operator.inputs[0], operator.outputs[0]):
        check_activation(writer, operator, index)
    types = {writer.tensor(i).dtype for i in (operator.inputs[0], operator.outputs[0])}
    if "float32" in types and len(types) > 1:
        raise UnsupportedError(f"{' and '.join(sorted(types))} as input and output")


def check_activation(writer: Writer, operator: TfliteOperator, index: int) -> None:
    """Raises UnsupportedError if a tensor is not of a type that the operator's activations may have, with one scale."""
    tensor = writer.tensor(index)
    if not is_activation(tensor, operator.kind):
        scales = "" if tensor.scale.size == 1 else f" with {count(tensor.scale.size, 'scale')}"
        raise UnsupportedError(
            f"a tensor of {tensor.dtype}{scales}; wanted {_wanted(operator.kind)}, with one scale if quantized"
        )


def is_activation(tensor: TfliteTensor, kind: str) -> bool:
    """Returns whether the activations of operators of this kind may have the tensor's type and quantization."""
    if tensor.dtype == "float32":
        return kind in ALSO_FLOATS and not tensor.scale.size
    if tensor.dtype == "int16" and (kind not in ALSO_16_BITS or tensor.zero.any()):
        return False
    return tensor.dtype in (*EIGHT_BITS, "int16") and tensor.scale.size == 1


def is_quantized(tensor: TfliteTensor) -> bool:
    """Returns whether a tensor is quantized to 8 or 16 bits with one scale, as QUANTIZE and DEQUANTIZE take it."""
    return tensor.dtype in (*EIGHT_BITS, "int16") and tensor.scale.size == 1


def _wanted(kind: str) -> str:
    floats = ", or float32" if kind in ALSO_FLOATS else ""
    return ("int8, uint8 or int16 (of zero point 0)" if kind in ALSO_16_BITS else "int8 or uint8") + floats
