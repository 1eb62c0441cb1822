"""Units of linear operators on quantized operands whose float32 result is not quantized at once: exact sum, one
scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.compiler.builder import Builder
from qverify.compiler.unit import Activation, LoweredUnit
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor
from qverify.tensors.spec import TensorSpec

UNLIMITED = Activation(0, 0)  # words of a float output, which has no activation limits (NUMERICS.md section 1)


@dataclass(frozen=True, slots=True)
class FloatOutput:
    """A float output, passed to lowerings in the place of a quantized one.

    scale: 1, so that input scale * weight scale / scale is S."""

    name: str
    scale: npt.NDArray[np.float32]
    sixteen_bit: bool = False

    def spec(self, name: str, shape: tuple[int, ...], **more: Any) -> TensorSpec:
        """Returns the spec of a float32 tensor. more: further fields of TensorSpec."""
        return TensorSpec(name, "float32", shape, **more)


def float_output(name: str) -> FloatOutput:
    """Returns the float output with this name."""
    return FloatOutput(name, np.ones(1, np.float32))


def float_unit(node: Any, lower: Callable[[Builder, FloatOutput], None]) -> LoweredUnit:
    """Returns the unit of a node with a float output; the integer ONNX contains the node unchanged."""
    y = float_output(node.output[0])
    return LoweredUnit(y.name, lambda builder: lower(builder, y), covers=(node.name,))


def quantized_operands(view: GraphView, node: Any) -> tuple[QuantizedTensor, QuantizedTensor] | None:
    """Returns both operands of a linear operator, or None unless both are dequantized 8-bit or 16-bit tensors."""
    a, b = view.dequantized(node.input[0]), view.dequantized(node.input[1])
    if a is None or b is None or not all(q.eight_bit or q.sixteen_bit for q in (a, b)):
        return None
    return a, b


def real_bias(view: GraphView, node: Any) -> tuple[bool, npt.NDArray[np.float32] | None]:
    """Returns whether the node's bias can be compiled (True if it has none), and the bias, or None if it has none or it
    is not a constant."""
    name = node.input[2] if len(node.input) > 2 else ""
    value = view.float_constant(name) if name else None
    if value is None:
        return not name, None
    return value.dtype == np.float32 and bool(np.isfinite(value).all()), value
