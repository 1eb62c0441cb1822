"""Exact values and error bounds of rows rounded to int8 in blocks, and of their products with weights in blocks
(NUMERICS.md section 4)."""

from __future__ import annotations

import numpy as np

from qverify.compare.error_bounds.bounded_values import (
    BoundedValue,
    NoBound,
    Real,
    Reals,
    Whole,
    exact,
    require_certain,
    require_real,
    round_interval,
)
from qverify.compare.error_bounds.float_sums import FloatSums
from qverify.model_bin.graph import Graph, Node

STEPS = 127


def quantize_blocks(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    from qverify.arithmetic.integer_blocks import LIMIT, SMALLEST, scaled_blocks

    x, shape = require_real(inputs[0]), graph.spec(node.outputs[0]).shape
    if not x.error.any():  # every side computes the same float32 steps
        blocks, largest, steps = scaled_blocks(x.value.astype(np.float32), shape)
        rounded = np.nan_to_num(np.rint(blocks * steps), nan=0.0, posinf=0.0, neginf=0.0).astype(np.int64)
        return [Whole(rounded, rounded), exact((largest / LIMIT).astype(np.float64))]
    blocks = _in_blocks(x.value, shape)
    error = _in_blocks(x.error, shape)
    size = np.abs(blocks)
    largest, spread = size.max(-1, keepdims=True), error.max(-1, keepdims=True)
    scale = Real(largest / STEPS, spread / STEPS).rounded()
    divisor = np.maximum(largest, float(SMALLEST))
    stepped = Real(blocks * (STEPS / divisor), STEPS * _change_of_quotient(size, error, divisor, spread)).rounded(2)
    return [round_interval(stepped.value, stepped.error, 0, (-STEPS, STEPS)), scale]


def matmul_blocks(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    from qverify.arithmetic.integer_blocks import block_products

    s, sw = require_real(inputs[1]), require_real(inputs[3])
    if s.error.any() or sw.error.any():
        raise NoBound("matmul_blocks with scales that depend on floats")
    whole = [require_certain(inputs[at]) for at in (0, 2, 4)]
    operands = [whole[0], s.value, whole[1], sw.value, whole[2]]
    value = sum(scale * acc for acc, scale in block_products(operands))
    size = sum(np.abs(scale) * acc for acc, scale in block_products(operands, magnitudes=True))
    y = FloatSums(np.asarray(value), np.asarray(size), whole[1].shape[1] * whole[1].shape[2])
    if inputs[5] is not None:
        y = y.plus(require_real(inputs[5]))
    return [y.bounded(graph.spec(node.outputs[0]).shape)]


def _in_blocks(values: Reals, shape: tuple[int, ...]) -> Reals:
    """Returns rows in blocks, the last of a row filled with 0. shape: (..., blocks, elements of a block)."""
    filled = np.zeros((*shape[:-2], shape[-2] * shape[-1]))
    filled[..., : values.shape[-1]] = values
    return filled.reshape(shape)


def _change_of_quotient(size: Reals, error: Reals, divisor: Reals, spread: Reals) -> Reals:
    """Returns how far |x| / largest changes if both change by their errors."""
    from qverify.arithmetic.integer_blocks import SMALLEST

    least = np.maximum(divisor - spread, float(SMALLEST))
    return (error + size / divisor * spread) / least
