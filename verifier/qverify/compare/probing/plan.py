"""The probes of each op: the first ones, and further ones that may tell forms apart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from qverify.compare.probing.draws import EDGES, GENERAL, TIES
from qverify.compare.probing.others import (
    draw_changes,
    draw_concats,
    draw_functions,
    draw_means,
    draw_pairs,
    draw_softmaxes,
)
from qverify.compare.probing.products import (
    SHAPES,
    draw_exact_ties,
    draw_matmuls,
    draw_near_ties,
    draw_product,
    draw_products,
)
from qverify.tensors.one_op import OneOp

DTYPES = ("uint8", "int8")
PROBED = (
    "conv",
    "conv_transpose",
    "fully_connected",
    "matmul",
    "add",
    "mul",
    "average_pool",
    "global_average_pool",
    "reduce_mean",
    "lookup",
    "concat",
    "softmax",
)


def first_probes(op: str, dtype: str) -> list[OneOp]:
    """Returns the probes with which an op begins."""
    return list(_draw(op, dtype, 0))


def further_probes(op: str, dtype: str, turn: int) -> Iterator[OneOp]:
    """Yields probes with other values and scales. turn: 1 or more; each gives others."""
    if op in SHAPES:
        for draw in range(3):
            yield draw_near_ties(op, dtype, 3 * turn + draw)
            yield draw_exact_ties(op, dtype, 3 * turn + draw)
        for shape in SHAPES[op][:2]:
            for kind in (EDGES, GENERAL, TIES):
                yield draw_product(shape, dtype, kind, True, turn)
    else:
        for draw in range(3):
            yield from _draw(op, dtype, 3 * turn + draw)


def _draw(op: str, dtype: str, turn: int) -> Iterator[OneOp]:
    if op in SHAPES:
        yield from draw_products(op, dtype)
    elif op == "matmul":
        yield from draw_matmuls(dtype, turn)
    elif op in ("add", "mul"):
        yield from draw_pairs(op, dtype, turn)
    elif op in ("average_pool", "global_average_pool", "reduce_mean"):
        yield from draw_means(op, dtype, turn)
    elif op == "lookup":
        yield from draw_changes(dtype, turn)
        yield from draw_functions(dtype, turn) if not turn else islice((), 0)
    elif op == "concat":
        yield from draw_concats(dtype, turn)
    else:
        yield from draw_softmaxes(dtype, turn)
