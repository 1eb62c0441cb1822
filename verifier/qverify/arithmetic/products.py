"""Matrix products of centred operands, requantized block by block while the sums are in a cache."""

from __future__ import annotations

from functools import partial

import numpy as np

from qverify.arithmetic.linear import Array, Requantization
from qverify.arithmetic.workers import core_count, run_blocks, runs

LARGEST = 1 << 20  # sums of a block
WORTH = 1 << 22  # multiplications that are worth a block
FEW_ROWS, IN_CACHE = 16, 1 << 17  # of the left matrix; elements of the right one that stay in a second-level cache


def requantized_product(
    a: Array, b: Array, output: Requantization, shape: tuple[int, ...], bias: Array | None = None
) -> Array:
    """Returns output of a @ b + bias, in this shape. a, b: centred, with numpy's broadcasting of matrices; a: of the type
    that holds every sum; b: of that or, if it is one matrix, of any integer type; bias: [N]; the channels of output are the
    columns."""
    a, b = np.atleast_2d(a), b[:, None] if b.ndim == 1 else b
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    y = np.empty((*lead, a.shape[-2], b.shape[-1]), output.dtype)
    if y.size:
        of = _columns if b.ndim == 2 else _matrices
        of(a, b, output, y, bias)
    return y.reshape(shape)


def _columns(a: Array, b: Array, output: Requantization, y: Array, bias: Array | None) -> None:
    """Computes y of one matrix b, several columns in each block: b is the large one, and each block reads its part of
    it alone."""
    target = y.reshape(-1, y.shape[-1])
    rows = a.reshape(len(target), -1)

    def block(columns: slice) -> None:
        acc = rows @ b[:, columns].astype(rows.dtype, copy=False)
        if bias is not None:
            acc += bias[columns]
        output.part(columns, -1).into(acc, target[:, columns])

    parts = _parts(b.shape[1], len(rows), len(b))
    if b.dtype != rows.dtype and len(rows) < FEW_ROWS:  # then most of the time is spent on b
        parts = runs(b.shape[1], IN_CACHE // max(1, len(b)))
    run_blocks([partial(block, part) for part in parts])


def _matrices(a: Array, b: Array, output: Requantization, y: Array, bias: Array | None) -> None:
    """Computes y of many matrices, several in each block."""
    lead, target = y.shape[:-2], y.reshape(-1, *y.shape[-2:])
    left, right = (np.broadcast_to(x, (*lead, *x.shape[-2:])).reshape(len(target), *x.shape[-2:]) for x in (a, b))

    def block(some: slice) -> None:
        acc = left[some] @ right[some]
        if bias is not None:
            acc += bias
        output.into(acc, target[some])

    run_blocks([partial(block, part) for part in _parts(len(target), y.shape[-2] * y.shape[-1], a.shape[-1])])


def _parts(count: int, sums: int, terms: int) -> list[slice]:
    """Returns range(count) cut for the cores, where every one of it is this many sums of this many terms: few and large,
    since every block makes its product's operands ready anew."""
    worth = max(1, WORTH // max(1, sums * terms))
    return runs(count, min(max(worth, -(-count // core_count())), LARGEST // max(1, sums)))
