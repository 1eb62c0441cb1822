"""Converts a quantized .tflite into a QDQ ONNX, and maps the ONNX's tensors to those of the file.

Tensors of four axes are NHWC in the file and NCHW in the ONNX. Weights, biases, scales and zero points are taken from
the file unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qverify.errors import BlockedError, NotOnHostError, UnsupportedError
from qverify.plural import count
from qverify.tflite_model.activation_types import check_types
from qverify.tflite_model.conv3d import conv_3d
from qverify.tflite_model.elementwise import ELEMENTWISE
from qverify.tflite_model.float_constants import with_float_constants
from qverify.tflite_model.fold import fold
from qverify.tflite_model.movements import MOVEMENTS
from qverify.tflite_model.operators_with_weights import batch_matmul, convolution, fully_connected, transpose_conv
from qverify.tflite_model.operators_without_weights import WITHOUT_WEIGHTS
from qverify.tflite_model.read_tflite import DAMAGE_ERRORS, NPU_OPERATORS, TfliteModel, TfliteOperator
from qverify.tflite_model.recurrent import RECURRENT
from qverify.tflite_model.reductions import REDUCTIONS
from qverify.tflite_model.state import STATE_KINDS
from qverify.tflite_model.tables import TABLES
from qverify.tflite_model.writer import Writer

CONVERTERS = {
    "CONV_2D": convolution,
    "CONV_3D": conv_3d,
    "DEPTHWISE_CONV_2D": convolution,
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": batch_matmul,
    "TRANSPOSE_CONV": transpose_conv,
    **ELEMENTWISE,
    **MOVEMENTS,
    **RECURRENT,
    **REDUCTIONS,
    **TABLES,
    **WITHOUT_WEIGHTS,
}
DESCRIBED = (
    "float32",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "int32",
    "int64",
    "bool",
)  # types of the ONNX's inputs and outputs
OF_STATE = {
    "READ_VARIABLE": "it gives the state with which every run begins",
    **dict.fromkeys(STATE_KINDS, "it keeps the state of the file"),
}
WITH_OPTIONAL_INPUTS = ("CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV", *RECURRENT)
CHECK_THEMSELVES = {  # operators that may read or write tensors that are not quantized
    *(
        "QUANTIZE",
        "DEQUANTIZE",
        "CONV_3D",
        "BATCH_MATMUL",
        "TRANSPOSE_CONV",
        "ARG_MAX",
        "ARG_MIN",
        "REDUCE_MAX",
        "REDUCE_MIN",
    ),
    *ELEMENTWISE,
    *MOVEMENTS,
    *RECURRENT,
    *TABLES,
}


@dataclass(frozen=True, slots=True)
class ConvertedModel:
    """A converted .tflite.

    Attributes:
        model: the contents of the file; what operators compute from constants and shapes alone are constants.
        onnx: the serialized QDQ ONNX, of the operators that are not left to the host.
        tensors: name of an ONNX tensor to the tensor of the file (see Writer.tensors), also of those that only operators of the
            host read.
        operators: the file's operators without those whose results are constants, in running order.
        host: why an operator is left to the host, by its position.
        made_from: name of a node of the ONNX to the position of its operator.
        names: name of each tensor that is an input or is computed, by index.
    """

    model: TfliteModel
    onnx: bytes
    tensors: dict[str, dict[str, Any]]
    operators: tuple[TfliteOperator, ...] = ()
    host: Mapping[int, str] = field(default_factory=dict)
    made_from: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)


def convert(model: TfliteModel, kernels: str = "reference") -> ConvertedModel:
    """Returns the converted model. kernels: as of Writer. Raises BlockedError, an UnsupportedError, that names every operator that cannot be
    converted."""
    folded, operators = _prepare(model)
    writer, refused, made_from = _write(operators, {}, kernels)
    if refused:
        lines = Counter(f"{o.kind}: {refused[o.position]}" for o in operators.operators if o.position in refused)
        shown = [f"{line} ({count(n, 'operator')})" for line, n in lines.most_common()]
        header = f"{model.file}: {count(len(shown), 'kind')} of operators cannot be converted"
        raise BlockedError(header, shown)
    return _converted(folded, operators, writer, {}, made_from)


def convert_in_parts(
    model: TfliteModel, host: Mapping[int, str], undescribed: Mapping[int, str], kernels: str = "reference"
) -> ConvertedModel:
    """Returns the converted model, with the operators that cannot be converted left to the host. host: why operators are left to it
    in any case, by position. undescribed: tensors that the ONNX cannot state, by index, with the reason. kernels: as of Writer. Raises UnsupportedError
    for a file that cannot be cut so."""
    folded, operators = _prepare(model)
    host = {**{o.position: OF_STATE[o.kind] for o in operators.operators if o.kind in OF_STATE}, **host}
    while True:
        host |= _readers_of_undescribed(operators, host, undescribed)
        writer, refused, made_from = _write(operators, host, kernels)
        if not refused:
            return _converted(folded, operators, writer, host, made_from)
        for error in refused.values():
            if isinstance(error, NotOnHostError):
                raise NotOnHostError(f"{model.file}: {error}")
        host |= {position: str(error) for position, error in refused.items()}


def _prepare(model: TfliteModel) -> tuple[TfliteModel, TfliteModel]:
    """Returns the model with constants computed, and the same without the operators that make floats of constants. Raises
    UnsupportedError for a file whose output nothing makes."""
    check_runnable(model)
    model = fold(model)
    if free := [i for i in model.outputs if i not in model.made_by]:
        raise UnsupportedError(f"{model.file}: no operator makes its output {free[0]} (an input or a constant)")
    return model, with_float_constants(model)


def _write(
    model: TfliteModel, host: Mapping[int, str], kernels: str
) -> tuple[Writer, dict[int, UnsupportedError], dict[str, int]]:
    """Returns a writer with the nodes of all operators that are not the host's, why those that cannot be converted cannot,
    and the operator of each node, by position."""
    writer, refused, made_from = Writer(model, kernels), dict[int, UnsupportedError](), dict[str, int]()
    for i in (*model.inputs, *model.made_by):  # reserve the names of computed tensors before those of constants
        writer.name(i)
    for operator in model.operators:
        if operator.position in host:
            continue
        first = len(writer.nodes)
        if (why := _write_operator(writer, operator)) is not None:
            refused[operator.position] = why
        made_from |= {node.name: operator.position for node in writer.nodes[first:]}
    return writer, refused, made_from


def _write_operator(writer: Writer, operator: TfliteOperator) -> UnsupportedError | None:
    """Writes an operator. Returns why it cannot be converted, None if it can."""
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
        return error
    except (*DAMAGE_ERRORS, ZeroDivisionError):
        return UnsupportedError("its inputs, shapes and options contradict each other")
    return None


def _readers_of_undescribed(
    model: TfliteModel, host: Mapping[int, str], undescribed: Mapping[int, str]
) -> dict[int, str]:
    """Returns why operators are the host's because a tensor that they make, or read from the host, cannot be stated in the
    ONNX, by position."""
    found = dict[int, str]()
    for operator in model.operators:
        if operator.position in host:
            continue
        for i in (i for i in (*operator.inputs, *operator.outputs) if i in model.made_by):
            maker, tensor = model.made_by[i], model.tensors[i]
            why = undescribed.get(i, "" if tensor.dtype in DESCRIBED else f"tensor {i} is {tensor.dtype}")
            if why and maker is operator:
                found[operator.position] = why
            elif why and (maker.position in host or maker.position in found):
                found[operator.position] = f"reads a result of the host: {why}"
    return found


def _converted(
    model: TfliteModel, operators: TfliteModel, writer: Writer, host: Mapping[int, str], made_from: Mapping[str, int]
) -> ConvertedModel:
    """Returns the ONNX of the operators that are not the host's. What they read of the host's are further inputs, and what the
    host reads of theirs further outputs. model: the file. operators: with the operators that were converted."""
    ours = {i for i, o in operators.made_by.items() if o.position not in host}
    read = [
        dict.fromkeys(i for o in operators.operators if (o.position in host) == by_host for i in o.inputs if i >= 0)
        for by_host in (False, True)
    ]
    fed = [i for i in read[0] if i in operators.made_by and i not in ours]
    outputs = [i for i in (*operators.outputs, *read[1]) if i in ours]
    if not outputs:
        raise UnsupportedError(f"{model.file}: all its operators are left to the host, nothing would be verified")
    data = writer.file([*model.inputs, *fed], [*dict.fromkeys(outputs)])
    names = {i: writer.name(i) for i in (*operators.inputs, *operators.made_by)}
    for i in (i for i in names if names[i] not in writer.tensors):  # between operators of the host
        writer.entry(names[i], i, range(len(model.tensors[i].shape)), model.tensors[i].shape)
        writer.tensors[names[i]]["dynamic"] = True
    return ConvertedModel(model, data, writer.tensors, operators.operators, host, made_from, names)


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
        if (tensor.variable and operator.kind not in RECURRENT) or tensor.sparse:
            raise UnsupportedError(f"tensor {tensor.index} is {'a variable' if tensor.variable else 'sparse'}")
