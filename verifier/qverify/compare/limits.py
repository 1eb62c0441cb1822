"""Limits on how far the output of a forced unit may differ: 0 LSB, 1 LSB, a derived bound for 16-bit tensors, or 2^-18
of max|reference|."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qverify.arithmetic.multipliers import add_parameters
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit
from qverify.tensors.spec import TensorSpec

FLOAT_SHARE = 2.0**-18
# By rounding mode: LSB by which a multiplier of few bits may change a value of 2^16 LSB
_OFF_BY_MULTIPLIER = dict.fromkeys(("tflite-single", "gemmlowp", "cmsis", "mul15", "mul16", "mul24", "mul31"), 1.0)
_OFF_BY_MULTIPLIER["mul8"] = 128.0  # 2^(16-8-1) LSB; of 15 bits or more: 1, rounded up
_MAX_ADD_RATIO = 127.75  # of the scales of an add: twice that rounds to 256, which 8-bit multipliers cannot represent
_OUTPUT_AXIS = {"conv": 0, "fully_connected": 0, "conv_transpose": 1, "matmul": -1}  # axis of the weights, by op


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest difference that passes.

    Attributes:
        lsb: for integer tensors, in LSB.
        share: for float tensors, as a share of max|reference|.
        text: the limit in words, for the report.
    """

    lsb: int
    share: float
    text: str


BITS = Limit(0, 0.0, "bit equality")
FLOAT_SUMS = ("softmax",)  # integer operators that onnxruntime's kernel sums in float32, in an order of its own


def float_inside(unit: Unit) -> bool:
    """Returns whether onnxruntime computes the unit, or a part of it, in float, so that two correct sides may round a
    value to neighbouring steps."""
    return not unit.integer_reference or any(node.op in FLOAT_SUMS for node in unit.nodes)


def limit_for(unit: Unit, output: str, graph: Graph) -> Limit:
    """Returns the limit for the reference against any side that runs this graph."""
    spec = graph.spec(output)
    if spec.numpy_dtype.kind == "f":
        return Limit(0, FLOAT_SHARE, "2^-18 of max|reference|")
    if not spec.quantized:
        return Limit(0, 0.0, "0 (not quantized)")
    if graph.rounding == "ref-exact" and unit.integer_reference:
        return Limit(0, 0.0, "0 LSB")
    if spec.numpy_dtype.itemsize == 1:
        bound = eight_bit_bound(unit, graph)
        return Limit(bound, 0.0, "1 LSB" if bound == 1 else f"{bound} LSB (multipliers of few bits, derived)")
    bound = sixteen_bit_bound(unit, graph)
    return Limit(bound, 0.0, f"{bound} LSB (16 bit, derived)")


def eight_bit_bound(unit: Unit, graph: Graph) -> int:
    """Returns the largest difference in LSB between two correct sides.

    If two values differ by e, their roundings differ by at most floor(e) + 1. For an add in an integer mode, e = 255 *
    2^-shift: the operands have up to 255 LSB, and each of the two multipliers is off by up to 2^-(shift+1). For all
    other units e < 1. The shift is the one that the scales require, whatever model.bin contains."""
    return 1 if graph.rounding == "ref-exact" else max([1, *_bound_adds(unit, graph, graph.rounding)])


def _bound_adds(unit: Unit, graph: Graph, rounding: str) -> list[int]:
    """Returns, for each add of the unit, by how many LSB a result in this mode and one with exact scales may differ."""
    ratios = [_scale_ratios(n, graph) for n in unit.nodes if n.op == "add"]
    return [_bound_add(add_parameters(rounding, *r)[2]) for r in ratios if r is not None]


def _bound_add(shift: int) -> int:
    """Returns by how many LSB an add with multipliers of this shift and one with exact scales may differ."""
    return 1 + math.floor(255 * 2.0 ** -int(shift))


def choose_foreign_limit(limit: Limit, spec: TensorSpec) -> Limit:
    """Returns the limit for a runtime other than qvrt, before its differences are evaluated: at least 1 LSB for a
    quantized tensor."""
    return Limit(1, 0.0, "1 LSB") if spec.quantized and limit.lsb < 1 else limit


def _scale_ratios(node: Node, graph: Graph) -> tuple[float, float] | None:
    """Returns the scales of both operands, in LSB of the output, or None if one is not quantized or larger than the
    modes can represent."""
    if len(node.inputs) < 2:
        return None
    a, b, y = (graph.spec(n or "").scale for n in (*node.inputs[:2], node.outputs[0]))
    if not (a and b and y):
        return None
    ratios = float(a[0] / y[0]), float(b[0] / y[0])
    return ratios if max(ratios) < _MAX_ADD_RATIO else None


def sixteen_bit_bound(unit: Unit, graph: Graph) -> int:
    """Returns the largest difference in LSB between two correct sides: 1 for the rounding itself, plus the multiplier's
    relative error times 2^16 LSB, plus the worst float32 error of a sum of K products whose magnitudes add up to A (LSB
    of the output): A * (K + 4) * 2^-24."""
    if graph.rounding.startswith("pow2"):
        multiplier = 2.0**16 * (math.sqrt(2) - 1)  # the scale itself becomes a power of two
    else:
        multiplier = _OFF_BY_MULTIPLIER.get(graph.rounding, 0.0)
    return 1 + math.ceil(multiplier) + math.ceil(max(_bound_float32_error(node, graph) for node in unit.nodes))


def _bound_float32_error(node: Node, graph: Graph) -> float:
    """Returns the worst float32 error of the node's sum, in LSB of its output."""
    weights = graph.constants.get(node.inputs[1] or "") if len(node.inputs) > 1 else None
    axis = _OUTPUT_AXIS.get(node.op)
    if weights is None or axis is None:
        return 1.0  # 12 roundoffs of at most 2^17 LSB are 0.094 LSB, and limits are whole numbers
    x, w, y = (graph.spec(n) for n in (node.inputs[0] or "", node.inputs[1] or "", node.outputs[0]))
    real = np.moveaxis(np.abs(w.dequantized(weights)), axis, 0)
    largest = float(real.sum(axis=tuple(range(1, real.ndim))).max(initial=0.0))
    input_lsb = 2.0 ** (8 * x.numpy_dtype.itemsize)
    scale_x, scale_y = (float(s.scale[0]) if s.scale else 1.0 for s in (x, y))
    return float(largest * input_lsb * scale_x / scale_y * (math.prod(real.shape[1:]) + 4) * 2.0**-24)
