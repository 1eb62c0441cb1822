"""Gives a compiled .tflite the parameters of LiteRT's own integer arithmetic (NUMERICS.md section 1, LiteRT)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.forms import Form, make_addition_rq
from qverify.arithmetic.multipliers import parameters
from qverify.arithmetic.requantize import requantize, steps_of
from qverify.arithmetic.resize_places import fixed_point, in_float32
from qverify.errors import UnsupportedError
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec
from qverify.tflite_model.convert import ConvertedModel
from qverify.tflite_model.read_tflite import TfliteOperator

Ints = npt.NDArray[np.int32]
ROUNDING = "gemmlowp"  # rounding mode of LiteRT's convolutions
SUM = Form.parse("each operand scaled by itself, gemmlowp")
FIXED_POINT, HALF_UP = 2, 3  # values of resize_linear's word


@dataclass(slots=True)
class _Rewriting:
    """A graph whose nodes, tensors and constants are replaced one by one."""

    source: Graph
    converted: ConvertedModel
    nodes: dict[str, Node]
    tensors: dict[str, TensorSpec]
    constants: dict[str, npt.NDArray[np.generic]]

    def spec(self, name: str | None) -> TensorSpec:
        return self.source.spec(name or "")

    def set(self, name: str | None, value: Ints) -> None:
        """Replaces a constant; its dtype and shape are the new value's."""
        assert name
        self.constants[name] = value
        self.tensors[name] = replace(self.tensors[name], dtype=str(value.dtype), shape=value.shape, aligned_shape=())


def in_litert_arithmetic(graph: Graph, converted: ConvertedModel) -> Graph:
    """Returns the graph with LiteRT's own parameters: multipliers computed from a product in float32, sums whose
    operands are scaled one by one, quotients of pools, and the fixed-point weights of a resize. Raises UnsupportedError
    for a resize whose step LiteRT's kernel rounds so that it reads beyond its input."""
    r = _Rewriting(graph, converted, {n.name: n for n in graph.nodes}, dict(graph.tensors), dict(graph.constants))
    for node in graph.nodes:
        if (real := converted.multipliers.get(node.outputs[0])) is not None:
            r.set(node.inputs[-1], parameters(ROUNDING, real))
        operator = _find_operator(converted, node.outputs[0])
        change = CHANGES.get((operator.kind, node.op)) if operator is not None else None
        if change is not None and operator is not None:
            change(r, node, operator)
    nodes = [r.nodes[n.name] for n in graph.nodes]
    return replace(graph, nodes=nodes, constants=r.constants, tensors=r.tensors)


def _find_operator(converted: ConvertedModel, name: str) -> TfliteOperator | None:
    """Returns the operator of the .tflite that computes a tensor, or None if there is none."""
    entry = converted.tensors.get(name)
    return converted.model.made_by.get(entry["tfl"]) if entry is not None else None


def _set_single_rounding(r: _Rewriting, node: Node, operator: TfliteOperator) -> None:
    """Sets multipliers that are applied with the single rounding of tflite-single."""
    name = node.inputs[-1] or ""
    multiplier, exponent = np.asarray(r.constants[name], np.int64)
    r.set(name, steps_of(np.stack([multiplier, 31 - exponent]), "tflite-single", False).astype(np.int32))


def _set_requantize_table(r: _Rewriting, node: Node, operator: TfliteOperator) -> None:
    """Sets the table of a change of quantization: the result of LiteRT's arithmetic for each value, from the lowest."""
    x, y = r.spec(node.inputs[0]), r.spec(node.outputs[0])
    low, limits = int(np.iinfo(x.dtype).min), np.iinfo(y.dtype)
    acc = np.arange(low, low + 256, dtype=np.int64) - x.zero_point[0]
    rq = parameters(ROUNDING, float(x.scale[0]) / float(y.scale[0]))
    table = requantize(acc, rq, y.zero_point[0], int(limits.min), int(limits.max), y.dtype, ROUNDING, False, 0)
    r.constants[node.inputs[1] or ""] = table


def _set_sum_multipliers(r: _Rewriting, node: Node, operator: TfliteOperator) -> None:
    """Sets the multipliers of both operands of a sum, and of the sum itself."""
    a, b, y = (float(r.spec(n).scale[0]) for n in (node.inputs[0], node.inputs[1], node.outputs[0]))
    r.set(node.inputs[2], make_addition_rq(SUM, a / y, -b / y if operator.kind == "SUB" else b / y))


def _set_rounding_point(r: _Rewriting, node: Node, operator: TfliteOperator) -> None:
    """Sets the value (the zero point) away from which halves of a pool's quotient are rounded. A pool over the whole
    image becomes an average_pool, too."""
    x = r.spec(node.inputs[0])
    r.set(node.inputs[1], np.array([x.zero_point[0]], np.int32))
    if node.op == "global_average_pool":
        words = (*x.shape[2:], 1, 1, 0, 0, 0, 0, 0, *node.words)
        r.nodes[node.name] = replace(node, op="average_pool", words=words)


def _set_mean_multiplier(r: _Rewriting, node: Node, operator: TfliteOperator) -> None:
    """Sets the multiplier of a mean: the multiplier of the scales, shifted left and divided by the number of elements;
    the remainder is dropped."""
    x, y = r.spec(node.inputs[0]), r.spec(node.outputs[0])
    count = x.elements // y.elements
    multiplier, exponent = parameters(ROUNDING, float(x.scale[0]) / float(y.scale[0]))[:, 0].tolist()
    shift = min(count.bit_length() - 1, 32, 31 + exponent)
    r.set(node.inputs[-1], np.array([[(multiplier << shift) // count], [exponent - shift]], np.int32))


def _set_resize_weights(r: _Rewriting, node: Node, operator: TfliteOperator) -> None:
    """Sets rows, columns and weights of a resize: in fixed point for int8, in float32 for uint8."""
    x, y = r.spec(node.inputs[0]), r.spec(node.outputs[0])
    align, half = bool(operator.options["AlignCorners"]), bool(operator.options["HalfPixelCenters"])
    fixed = x.dtype == "int8"
    tables: Callable[..., tuple[Any, ...]] = fixed_point if fixed else in_float32
    rows, columns = (tables(x.shape[k], y.shape[k], align, half) for k in (-2, -1))
    for positions, size, to in ((rows, x.shape[-2], y.shape[-2]), (columns, x.shape[-1], y.shape[-1])):
        if int(positions[0].max()) >= size:
            raise UnsupportedError(
                f"{r.converted.model.file}: {node.outputs[0]} (RESIZE_BILINEAR): from {size} to {to} elements LiteRT's own kernel for int8 reads beyond "
                "its input (its step is rounded to 1/1024). Resize to another size, in two steps, or with align_corners"
            )
    r.set(node.inputs[1], np.concatenate([*rows[:2], *columns[:2]]).astype(np.int32))
    r.set(node.inputs[2], np.concatenate([*rows[2:], *columns[2:]]).astype(np.int32 if fixed else np.float32))
    r.nodes[node.name] = replace(node, words=(FIXED_POINT if fixed else HALF_UP,))


CHANGES: dict[
    tuple[str, str], Callable[[_Rewriting, Node, TfliteOperator], None]
] = {  # by (operator of the .tflite, our op)
    ("FULLY_CONNECTED", "fully_connected"): _set_single_rounding,
    ("QUANTIZE", "lookup"): _set_requantize_table,
    ("ADD", "add"): _set_sum_multipliers,
    ("SUB", "add"): _set_sum_multipliers,
    ("AVERAGE_POOL_2D", "average_pool"): _set_rounding_point,
    ("AVERAGE_POOL_2D", "global_average_pool"): _set_rounding_point,
    ("MEAN", "global_average_pool"): _set_mean_multiplier,
    ("MEAN", "reduce_mean"): _set_mean_multiplier,
    ("RESIZE_BILINEAR", "resize_linear"): _set_resize_weights,
}
