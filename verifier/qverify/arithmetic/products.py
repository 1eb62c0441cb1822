"""Computes matrix products of centred operands. They are requantized block by block, while the sums are in the
cache."""

from __future__ import annotations

from functools import partial

import numpy as np

from qverify.arithmetic.byte_products import ByteProduct
from qverify.arithmetic.linear import Array, Requantization
from qverify.arithmetic.workers import core_count, run_blocks, split_range

MAX_SUMS = 1 << 20  # of a block
MIN_MULTIPLICATIONS = 1 << 22  # of a block
CONVERTED = 384  # columns that are converted at once (measured)
FEW_ROWS, IN_CACHE = 16, 1 << 17  # rows of the left matrix; elements of the right one that fit a second-level cache


def requantized_product(
    a: Array,
    b: Array,
    requantization: Requantization,
    shape: tuple[int, ...],
    bias: Array | None = None,
    of_bytes: ByteProduct | None = None,
) -> Array:
    """Returns a @ b + bias, requantized, in this shape. The channels of the requantization are the columns.

    Args:
        a: centred operand, in a type in which every sum is exact.
        b: centred operand, in the same type or, if it is a single matrix, in any integer type. a and b broadcast like
            numpy's matrices.
        requantization: the requantization.
        shape: shape of the result.
        bias: [N] in the type of the sums, or None.
        of_bytes: the product that multiplies a and b, which are then stored bytes; None to multiply centred operands.
    """
    a, b = np.atleast_2d(a), b[:, None] if b.ndim == 1 else b
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    y = np.empty((*lead, a.shape[-2], b.shape[-1]), requantization.dtype)
    if y.size:
        multiply = _multiply_columns if b.ndim == 2 else _multiply_matrices
        multiply(a, b, requantization, y, bias, of_bytes)
    return y.reshape(shape)


def _multiply_columns(
    a: Array, b: Array, requantization: Requantization, y: Array, bias: Array | None, of_bytes: ByteProduct | None
) -> None:
    """Computes y for a single matrix b, several columns in each block. Usually b is the larger matrix, of which each
    block reads only its part."""
    target = y.reshape(-1, y.shape[-1])
    rows = a.reshape(len(target), -1)
    multiply = of_bytes.multiply if of_bytes else _multiply_centred

    def block(columns: slice) -> None:
        acc = multiply(rows, b[:, columns])
        if bias is not None:
            acc += bias[columns]
        requantization.select(columns, -1).apply_into(acc, target[:, columns])

    parts = _cut_blocks(b.shape[1], len(rows), len(b))
    if b.dtype != rows.dtype:
        few = len(rows) < FEW_ROWS  # then most of the time is spent on reading b
        parts = split_range(b.shape[1], IN_CACHE // max(1, len(b)) if few else min(CONVERTED, parts[0].stop))
    run_blocks([partial(block, part) for part in parts])


def _multiply_matrices(
    a: Array, b: Array, requantization: Requantization, y: Array, bias: Array | None, of_bytes: ByteProduct | None
) -> None:
    """Computes y for many matrices, several in each block."""
    lead, target = y.shape[:-2], y.reshape(-1, *y.shape[-2:])
    left, right = (np.broadcast_to(x, (*lead, *x.shape[-2:])).reshape(len(target), *x.shape[-2:]) for x in (a, b))
    multiply = of_bytes.multiply if of_bytes else _multiply_centred

    def block(some: slice) -> None:
        acc = multiply(left[some], right[some])
        if bias is not None:
            acc += bias
        requantization.apply_into(acc, target[some])

    run_blocks([partial(block, part) for part in _cut_blocks(len(target), y.shape[-2] * y.shape[-1], a.shape[-1])])


def _multiply_centred(a: Array, b: Array) -> Array:
    return a @ b.astype(a.dtype, copy=False)


def _cut_blocks(count: int, sums: int, terms: int) -> list[slice]:
    """Returns range(count) cut into blocks for the cores. Each of the `count` items has `sums` sums of `terms` terms.
    Blocks are few and large, because each block prepares its operands again."""
    smallest = max(1, MIN_MULTIPLICATIONS // max(1, sums * terms))
    return split_range(count, min(max(smallest, -(-count // core_count())), MAX_SUMS // max(1, sums)))
