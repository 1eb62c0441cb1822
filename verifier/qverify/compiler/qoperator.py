"""Operands of QLinear operators in QOperator models, as Quantized tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.errors import UnsupportedError
from qverify.onnx_model.view import Quantized, View


def _parameters(view: View, node: Any, tensor: str, scale_at: int) -> tuple[Any, Any, str]:
    """Returns scale and zero point of a tensor, and the name of the zero point; one that the node leaves out is 0."""
    name = node.input[scale_at + 1] if len(node.input) > scale_at + 1 else ""
    scale = view.constants.get(node.input[scale_at]) if len(node.input) > scale_at else None
    zero = view.constants.get(name) if name else np.zeros((), view.dtype(tensor))
    if scale is None or zero is None:
        raise UnsupportedError(f"{node.name} ({node.op_type}): scale or zero point is not a constant")
    if not scale.size or zero.size not in (1, scale.size):
        raise UnsupportedError(f"{node.name} ({node.op_type}): {scale.size} scales and {zero.size} zero points")
    return scale.reshape(-1), zero.reshape(-1), name or view.zero_of(tensor, zero)


def quantized_input(view: View, node: Any, at: int, axis: int = 0) -> Quantized:
    """Returns the operand (tensor, scale, zero point) whose tensor is input `at`."""
    name = node.input[at]
    scale, zero, zero_name = _parameters(view, node, name, at + 1)
    if len(zero) == 1 < len(scale):
        zero = np.repeat(zero, len(scale))
    return Quantized(
        name,
        scale,
        zero,
        str(zero.dtype),
        axis if len(scale) > 1 else -1,
        node.input[at + 1],
        zero_name,
        view.constants.get(name),
    )


def quantized_output(view: View, node: Any, output: int, scale_at: int) -> Quantized:
    """Returns output number `output` with the scale at input `scale_at` and the zero point after it."""
    name = node.output[output]
    scale, zero, zero_name = _parameters(view, node, name, scale_at)
    return Quantized(name, scale, zero, str(zero.dtype), -1, node.input[scale_at], zero_name)


def constant_operand(view: View, node: Any, at: int, what: str) -> Any:
    """Returns the value of an optional constant input, or None. Raises UnsupportedError where it is not constant."""
    name = node.input[at] if len(node.input) > at else ""
    if name and name not in view.constants:
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): its {what} {name!r} is computed at run time; only constants can be compiled"
        )
    return view.constants[name] if name else None
