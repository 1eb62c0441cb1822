"""Refuses a file that is damaged, not a valid ONNX, or contains unknown operators, before anything is computed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import onnx

from qverify.errors import BadFileError, BlockedError, UnsupportedError
from qverify.onnx_model.held_data import has_held, value_of
from qverify.onnx_model.light_model import FLOATS, INTEGERS, light_copy
from qverify.printable import describe_error

SIZES = {"strides", "dilations", "kernel_shape", "blocksize", "group", "num_outputs", "num_groups", "size"}
MAX_SIZE = 2**30
ONLY_ONNXRUNTIME = ("SimplifiedLayerNormalization",)  # onnxruntime's own operators that it puts into ONNX's domain
CHECKED_BY_RUNNING = ("com.microsoft", "No Op registered")  # errors of the checker about operators unknown to it


def check_names(model: onnx.ModelProto, name: str) -> None:
    """Raises BadFileError for a name that is not UTF-8, and for a node without outputs."""
    graph = model.graph
    for node in graph.node:
        if not any(node.output):
            raise BadFileError(f"{name}: a node {node.op_type!r} has no output; remove it")
    try:
        # protobuf may return bytes if it cannot decode a name
        readable = all(isinstance(text, str) for text in _names(graph))
    except UnicodeDecodeError:
        readable = False
    if not readable:
        raise BadFileError(f"{name}: not a valid ONNX model: a name is not UTF-8")


def _names(graph: onnx.GraphProto) -> Iterator[object]:
    """Yields every name in the graph."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output, *(a.name for a in node.attribute))
    for part in (graph.input, graph.output, graph.value_info, graph.initializer):
        yield from (value.name for value in part)
    for value in graph.input:
        yield from (d.dim_param for d in value.type.tensor_type.shape.dim)


def check_operators(model: onnx.ModelProto, name: str) -> None:
    """Raises UnsupportedError that names every operator that is neither in ONNX nor in com.microsoft, and every node
    that would make onnxruntime end this process."""
    nodes_by_reason: dict[str, list[str]] = {}
    for node in model.graph.node:
        if reason := _reason_to_refuse(node):
            nodes_by_reason.setdefault(reason, []).append(node.name or next(filter(None, node.output)))
    lines = [
        f"node {nodes[0]!r} {reason}" + (f" ({len(nodes)} such nodes in all)" if len(nodes) > 1 else "")
        for reason, nodes in sorted(nodes_by_reason.items(), key=lambda item: -len(item[1]))
    ]
    if len(lines) == 1:
        raise UnsupportedError(f"{name}: {lines[0]}")
    if lines:
        raise BlockedError(
            f"{name}: {len(lines)} operators keep it from being read; others may, once these are known", lines
        )


def _reason_to_refuse(node: onnx.NodeProto) -> str:
    """Returns why the node cannot be run, as the end of a sentence, or "" if it can."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    is_known = domain == "com.microsoft" or onnx.defs.has(node.op_type, domain)
    if domain == "com.microsoft.nchwc":
        return (
            f"({node.op_type}) is of onnxruntime's layout for the processor that saved the file; give the file from before it was optimized,"
            " or save it with ORT_ENABLE_EXTENDED instead of ORT_ENABLE_ALL"
        )
    if not is_known and (domain or node.op_type not in ONLY_ONNXRUNTIME):
        kind = f"{domain}::{node.op_type}" if domain else node.op_type
        return f"is of the unknown operator {kind}; replace it with ONNX operators, cut the model before it, or name what runs it (--reference-engine)"
    if node.op_type in ("QLinearSigmoid", "QLinearLeakyRelu") and len(node.input) < 5:
        return (
            f"({node.op_type}) has no Y_zero_point, which ends onnxruntime with its process; give it a zero point of 0"
        )
    return ""


def check_sizes(model: onnx.ModelProto, name: str) -> None:
    """Raises BadFileError for a stride, window, block or group that is not a valid size; onnxruntime would divide by
    zero and end this process."""
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name in SIZES and any(not 1 <= i <= MAX_SIZE for i in (attribute.ints or [attribute.i])):
                raise BadFileError(
                    f"{name}: node {node.name or node.output[0]!r} ({node.op_type}): {attribute.name} has a value below 1 or above {MAX_SIZE}"
                )


def check_valid(model: onnx.ModelProto, name: str) -> None:
    """Raises BadFileError if ONNX's checker refuses the model. Removes the shapes of inner tensors and outputs, which
    are determined later, in place."""
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.type.tensor_type.shape.SetInParent()  # the checker requires a shape, even an empty one
    try:
        if not _is_valid_without_data(model):
            onnx.checker.check_model(_with_one_element(model) if has_held(model) else model)
    except (onnx.checker.ValidationError, ValueError) as error:
        if not _is_checked_by_running(error):
            why = _describe_attribute(error, model) or describe_error(error)
            raise BadFileError(f"{name}: not a valid ONNX model: {why}") from error


def _describe_attribute(error: Exception, model: onnx.ModelProto) -> str:
    """Returns which attribute is newer than the model's operator set, and the next step. Returns "" for other errors.
    (onnxruntime's quantizer writes `axis` into models whose operator set is below 13.)"""
    unknown = re.search(r"Unrecognized attribute: (\w+) for operator (\w+)", str(error))
    versions = [opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
    if unknown is None or not versions:
        return ""
    newer = range(versions[0] + 1, onnx.defs.onnx_opset_version() + 1)
    needed = next((v for v in newer if _has_attribute(unknown[1], unknown[2], v)), None)
    if needed is None:
        return ""
    return (
        f"{unknown[2]} of operator set {versions[0]} has no {unknown[1]}; onnxruntime does not load it either. Convert "
        f"the float model to operator set {needed} with onnx.version_converter.convert_version, and quantize it again"
    )


def _has_attribute(attribute: str, operator: str, version: int) -> bool:
    try:
        return attribute in onnx.defs.get_schema(operator, version).attributes
    except onnx.defs.SchemaError:
        return False


def _is_checked_by_running(error: Exception) -> bool:
    """Returns whether the checker refuses an operator it does not know, which onnxruntime then checks."""
    return any(word in str(error) for word in CHECKED_BY_RUNNING)


def _is_valid_without_data(model: onnx.ModelProto) -> bool:
    """Returns whether the checker accepts the model with each large constant replaced by a single element. All it would
    check of large constants is that their data have the size that type and dims require, which check_constants does."""
    try:
        onnx.checker.check_model(_with_one_element(model))
    except (onnx.checker.ValidationError, ValueError) as error:
        return _is_checked_by_running(error)
    return True


def _with_one_element(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model with each large constant replaced by a single element."""
    item_bytes = {**INTEGERS, **FLOATS}
    light, large = light_copy(model, item_bytes)
    for tensor in light.graph.initializer:
        if tensor.name in large and not tensor.HasField("raw_data"):
            tensor.dims[:], tensor.raw_data = [1], bytes(item_bytes[tensor.data_type])
    return light


def check_constants(model: onnx.ModelProto, name: str) -> None:
    """Raises BadFileError for an initializer or a Constant node whose data do not fit its type and dims or contain NaN.
    Infinities are allowed here (limits of Clip, masks); biases are checked for them elsewhere."""
    for description, tensor in _constants(model.graph):
        try:
            values = value_of(tensor)
        except Exception as error:
            raise BadFileError(f"{name}: {description} is damaged: {describe_error(error)}") from error
        if tensor.data_type in FLOATS and values.size and np.isnan(values).any():
            raise BadFileError(f"{name}: {description} contains NaN")


def _constants(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Yields every constant with a description for messages."""
    yield from ((f"initializer {t.name!r}", t) for t in graph.initializer)
    for node in (n for n in graph.node if n.op_type == "Constant"):
        yield from ((f"constant {node.output[0]!r}", a.t) for a in node.attribute if a.HasField("t"))
