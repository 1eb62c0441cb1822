"""Add -> QLinearAdd -> add; Sub is an add with the second scale negated. Sub and 16-bit tensors stay float in the
integer ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.arithmetic.float32 import fma32
from qverify.compiler.builder import Builder
from qverify.compiler.qoperator import quantized_input, quantized_output
from qverify.compiler.unit import (
    Activation,
    LoweredUnit,
    operand,
    per_tensor_operands,
    whole_range,
    with_binary_kernel,
)
from qverify.errors import NotOnHostError
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor

ONNX_TYPES: dict[str, Any] = {"Add": {}, "Sub": {}}
OPERATORS: dict[str, Any] = {"QLinearAdd": {}}
FLOAT32 = np.finfo(np.float32)


def match(view: GraphView, node: Any, y: QuantizedTensor, act: Activation) -> LoweredUnit | None:
    operands = per_tensor_operands(view, node, y)
    if operands is None:
        return None
    a, b = operands
    if not _has_ratios(a, b, y):
        return None  # left to the float Add
    kernel = node.op_type == "Add" and a.eight_bit and a.dtype == b.dtype == y.dtype
    unit = LoweredUnit(y.name, lambda builder: lower(builder, view, node.op_type, a, b, y, act, kernel))
    return with_binary_kernel(unit, "QLinearAdd", a, b, y, act) if kernel else unit


def from_operator(view: GraphView, node: Any) -> LoweredUnit:
    a, b, y = quantized_input(view, node, 0), quantized_input(view, node, 3), quantized_output(view, node, 0, 6)
    return LoweredUnit(y.name, lambda builder: lower(builder, view, "Add", a, b, y, whole_range(y.dtype), True), [node])


def _ratios(a: QuantizedTensor, b: QuantizedTensor, y: QuantizedTensor) -> tuple[float, float]:
    """Returns the scales of the operands divided by that of the sum."""
    return float(a.scale[0]) / float(y.scale[0]), float(b.scale[0]) / float(y.scale[0])


def _has_ratios(a: QuantizedTensor, b: QuantizedTensor, y: QuantizedTensor) -> bool:
    """Returns whether the ratios of the scales are positive float32 numbers, as an integer sum needs them. A sum with an
    attention mask of the lowest float32 has a scale so large that they may not be."""
    least, most = float(FLOAT32.smallest_subnormal), float(FLOAT32.max)
    return all(least <= ratio <= most for ratio in _ratios(a, b, y))


def broadcasts_as_scalar(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Returns whether onnxruntime's Broadcaster treats A as the inner scalar: from the innermost dim over min(rank)
    dims, positions where both are 1 are skipped, except the last of them; at the first one left, A is a scalar if its
    dim is at most 1."""
    shared = min(len(a), len(b))
    if shared == 0:
        return len(a) == 0
    for i in range(1, shared + 1):
        if a[-i] == 1 and b[-i] == 1 and i < shared:
            continue
        return a[-i] <= 1
    return False


def lower(
    builder: Builder,
    view: GraphView,
    kind: str,
    a: QuantizedTensor,
    b: QuantizedTensor,
    y: QuantizedTensor,
    act: Activation,
    kernel: bool,
) -> None:
    shape_a, shape_b = view.shape(a.name), view.shape(b.name)
    swap = int(kernel and broadcasts_as_scalar(shape_a, shape_b))
    ratio_a, ratio_b = _ratios(a, b, y)
    if not (_has_ratios(a, b, y) or (kernel and max(ratio_a, ratio_b) <= float(FLOAT32.max))):
        raise NotOnHostError(f"{y.name}: the ratio of its scales ({ratio_a:g}, {ratio_b:g}) is not a positive float32")
    if kind == "Sub":
        ratio_b = -ratio_b
    ratios = np.array([ratio_a, ratio_b])
    if builder.rounding != "ref-exact":
        rq, swap = builder.add_scales(y.name, ratio_a, ratio_b), 0
    elif not kernel:
        rq = builder.exact_rq(y.name, ratios, ratios)
    else:
        first, second = (b, a) if swap else (a, b)
        r1, r2 = (np.float32(q.scale[0]) / np.float32(y.scale[0]) for q in (first, second))
        r1, r2 = max(r1, FLOAT32.tiny), max(r2, FLOAT32.tiny)  # one that underflows to 0 adds nothing, either
        z1, z2, zero = (np.array([q.zero_point[0]], np.float32) for q in (first, second, y))
        offset = zero - fma32(np.array([r1], np.float32), z1, np.float32(r2) * z2)
        if not np.isfinite(offset[0]):
            raise NotOnHostError(f"{y.name}: its scales ({ratio_a:g}, {ratio_b:g} of the sum's) leave no finite offset")
        rq = builder.exact_rq(y.name, np.array([r1, r2, offset[0]], np.float32), ratios)
    builder.tensor(y.spec(y.name, view.shape(y.name)))
    builder.node(
        "add",
        [operand(builder, a, shape_a), operand(builder, b, shape_b), rq],
        [y.name],
        [swap, act.low, act.high],
        (),
        kernel,
    )
