"""Reads the operands of QLinear operators in QOperator models as QuantizedTensor objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.errors import NotOnHostError, UnsupportedError
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor


def _parameters(view: GraphView, node: Any, tensor: str, scale_name: str, name: str) -> tuple[Any, Any, str]:
    """Returns scale and zero point of a tensor, and the name of the zero point. An omitted zero point is 0."""
    scale = view.constants.get(scale_name)
    zero = view.constants.get(name) if name else np.zeros((), view.dtype(tensor))
    if scale is None or zero is None:
        raise UnsupportedError(f"{node.name} ({node.op_type}): scale or zero point is not a constant")
    if not scale.size or zero.size not in (1, scale.size):
        raise NotOnHostError(f"{node.name} ({node.op_type}): {scale.size} scales and {zero.size} zero points")
    return scale.reshape(-1), zero.reshape(-1), name or view.zero_of(tensor, zero)


def _input(node: Any, at: int) -> str:
    return node.input[at] if len(node.input) > at else ""


def quantized_input(view: GraphView, node: Any, at: int, axis: int = 0) -> QuantizedTensor:
    """Returns the operand whose tensor, scale and zero point are input `at` and the two after it. axis: axis of the
    scales."""
    return with_parameters(view, node, at, _input(node, at + 1), _input(node, at + 2), axis)


def with_parameters(view: GraphView, node: Any, at: int, scale_name: str, zero: str, axis: int) -> QuantizedTensor:
    """Returns input `at` with the scale and zero point of these names.

    zero: name of the zero point, "" if it is omitted. axis: axis of the scales, if there are several."""
    name = node.input[at]
    scale, zeros, zero_name = _parameters(view, node, name, scale_name, zero)
    if len(zeros) == 1 < len(scale):
        zeros = np.repeat(zeros, len(scale))
    along = axis if len(scale) > 1 else -1
    return QuantizedTensor(name, scale, zeros, str(zeros.dtype), along, scale_name, zero_name, view.constants.get(name))


def quantized_output(view: GraphView, node: Any, output: int, scale_at: int) -> QuantizedTensor:
    """Returns output number `output`, whose scale is input `scale_at` and whose zero point is the input after it."""
    name = node.output[output]
    scale, zero, zero_name = _parameters(view, node, name, _input(node, scale_at), _input(node, scale_at + 1))
    return QuantizedTensor(name, scale, zero, str(zero.dtype), -1, node.input[scale_at], zero_name)


def constant_operand(view: GraphView, node: Any, at: int, description: str) -> Any:
    """Returns the value of an optional constant input, or None if it is omitted. Raises UnsupportedError, which
    contains the description, if it is not constant."""
    name = node.input[at] if len(node.input) > at else ""
    if name and name not in view.constants:
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): its {description} {name!r} is computed at run time; only constants can be compiled"
        )
    return view.constants[name] if name else None
