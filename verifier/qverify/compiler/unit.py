"""Matched units, each as integer ONNX nodes and as a function that writes model.bin nodes, and helpers to build
them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from qverify.arithmetic import float32
from qverify.compiler.builder import Builder
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Activation:
    """A Relu or Clip between an operator and its QuantizeLinear.

    low, high: its limits in units of the quantized output. covers: names of its ONNX nodes. tensor: the operator's own
    float output."""

    low: int
    high: int
    covers: tuple[str, ...] = ()
    tensor: str = ""

    def clamps(self, dtype: str) -> bool:
        """Returns whether the limits are narrower than the dtype's."""
        limits = np.iinfo(dtype)
        return self.low > limits.min or self.high < limits.max


@dataclass(slots=True)
class LoweredUnit:
    """One matched unit.

    Attributes:
        output: name of its output tensor.
        lower: writes its model.bin nodes.
        onnx: integer ONNX nodes that replace the covered ones; empty if the float nodes stay (no integer kernel).
        constants: new initializers of the integer ONNX nodes.
        covers: names of the ONNX nodes that the unit stands for.
    """

    output: str
    lower: Callable[[Builder], None]
    onnx: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    covers: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether the integer ONNX computes the unit with integer kernels."""
        return bool(self.onnx)


def whole_range(dtype: str) -> Activation:
    """Returns the Activation that stands for none: its limits are those of the type."""
    limits = np.iinfo(dtype)
    return Activation(int(limits.min), int(limits.max))


def quantized_limits(y: QuantizedTensor, low: float, high: float) -> tuple[int, int]:
    """Returns real limits in units of the quantized output y. Q is monotone, so Q(clamp(v)) = clamp(Q(v))."""
    zero = y.zero_point.astype(np.int64)
    edges = float32.quantize(np.array([low, high], np.float32), y.scale, zero, y.dtype)
    return int(edges[0]), int(edges[1])


def microsoft(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    """Returns a node of the com.microsoft domain."""
    return helper.make_node(kind, inputs, outputs, name=f"{outputs[0]}/{kind}", domain="com.microsoft", **attributes)


def standard(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    """Returns a node of the standard ONNX domain."""
    return helper.make_node(kind, inputs, outputs, name=f"{outputs[0]}/{kind}", **attributes)


def missing_domain(view: GraphView) -> list[Any]:
    """Returns a list with the com.microsoft opset, or an empty list if the model imports it already."""
    return (
        []
        if any(o.domain == "com.microsoft" for o in view.model.opset_import)
        else [helper.make_opsetid("com.microsoft", 1)]
    )


def with_activation(unit: LoweredUnit, y: QuantizedTensor, act: Activation) -> None:
    """Appends an integer Clip to the unit's ONNX form if the activation clamps to less than the type's range."""
    if not unit.onnx or not act.clamps(y.dtype):
        return
    before, low, high = f"{y.name}/preactivation", f"{y.name}/clip_min", f"{y.name}/clip_max"
    last = unit.onnx[-1]
    last.output[0] = before
    unit.constants |= {low: np.array(act.low, y.dtype), high: np.array(act.high, y.dtype)}
    unit.onnx.append(standard("Clip", [before, low, high], [y.name]))


def qlinear_operands(q: QuantizedTensor) -> list[str]:
    """Returns the names of the integer tensor, its scale and its zero point, in the order that QLinear operators
    expect."""
    return [q.name, q.scale_name, q.zero_name]


def per_tensor_operands(
    view: GraphView, node: Any, y: QuantizedTensor
) -> tuple[QuantizedTensor, QuantizedTensor] | None:
    """Returns both operands of an elementwise operator, or None unless both are quantized, and they and y have one
    scale each."""
    a, b = view.dequantized(node.input[0]), view.dequantized(node.input[1])
    if a is None or b is None or max(len(a.scale), len(b.scale), len(y.scale)) > 1:
        return None
    return a, b


def with_binary_kernel(
    unit: LoweredUnit, kernel: str, a: QuantizedTensor, b: QuantizedTensor, y: QuantizedTensor, act: Activation
) -> LoweredUnit:
    """Sets the unit's ONNX form to a com.microsoft kernel with two operands, and returns the unit."""
    inputs = [*qlinear_operands(a), *qlinear_operands(b), y.scale_name, y.zero_name]
    unit.onnx = [microsoft(kernel, inputs, [y.name])]
    with_activation(unit, y, act)
    return unit


def operand(builder: Builder, q: QuantizedTensor, shape: tuple[int, ...]) -> str:
    """Declares an operand, which may be a constant, and returns its name."""
    if q.value is not None:
        return builder.constant(q.name, q.value, q.spec(q.name, tuple(q.value.shape)))
    return builder.tensor(q.spec(q.name, shape))
