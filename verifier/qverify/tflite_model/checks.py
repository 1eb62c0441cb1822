"""Checks of one operator, which raise UnsupportedError with the reason."""

from __future__ import annotations

from qverify.errors import UnsupportedError
from qverify.tflite_model.options import ACTIVATION
from qverify.tflite_model.read_tflite import TfliteOperator, TfliteTensor
from qverify.tflite_model.writer import CLAMPS, NCHW, Writer


def require(holds: bool, otherwise: str) -> None:
    """Raises UnsupportedError with the text `otherwise` if `holds` is False."""
    if not holds:
        raise UnsupportedError(otherwise)


def activation_of(operator: TfliteOperator) -> int:
    """Returns the code of the operator's fused activation, a key of CLAMPS."""
    code = int(operator.options[ACTIVATION])
    require(code in CLAMPS, f"fused activation {code}")
    return code


def same_quantization(a: TfliteTensor, b: TfliteTensor) -> bool:
    """Returns whether equal integers in both tensors represent equal real values."""
    return a.dtype == b.dtype and a.scale.tolist() == b.scale.tolist() and a.zero.tolist() == b.zero.tolist()


def integers(writer: Writer, index: int) -> list[int]:
    """Returns the values of a constant of int32 or int64, flattened. Raises UnsupportedError for other tensors."""
    tensor = writer.tensor(index) if index >= 0 else None
    if tensor is None or tensor.data is None or tensor.dtype not in ("int32", "int64") or tensor.data.size > 64:
        raise UnsupportedError("axes or dims that are no constant")
    return [int(v) for v in tensor.data.reshape(-1)]


def ends_of(writer: Writer, operator: TfliteOperator, inputs: int) -> tuple[TfliteTensor, TfliteTensor]:
    """Returns the first input and the output. Raises UnsupportedError unless the operator has this number of inputs."""
    require(len(operator.inputs) == inputs, f"{len(operator.inputs)} inputs")
    return writer.tensor(operator.inputs[0]), writer.tensor(operator.outputs[0])


def axis_in_onnx(axis: int, rank: int) -> int:
    """Returns the axis of the ONNX tensor that corresponds to this axis in the file."""
    require(-rank <= axis < rank, f"axis {axis} of {rank}")
    return NCHW.index(axis % rank) if rank == 4 else axis % rank
