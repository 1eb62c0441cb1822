"""A transpose moves its dims in another order: the inverse one, two dims exchanged, or none moved."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import permutations

import numpy as np

from qverify.triage.altered_kernels.separable_copies import (
    SeparableCopy,
    copy_variant,
    dense_strides,
    mover,
    needed_copy,
)
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant

NAME = "transpose-order"
OPS = ("transpose",)


def variants(case: Case) -> Iterator[FaultVariant]:
    of = mover(case, "transpose")
    if of is None:
        return
    copy = needed_copy(case)
    own = of.last.words
    rank = len(own)
    inverse = tuple(int(i) for i in np.argsort(own))
    shape = of.graph.spec(copy.source).shape
    named = {
        inverse: "the permutation is inverted",
        tuple(range(rank)): "no dimension is moved: the bytes are copied as they are",
        tuple(range(rank))[::-1]: "the dimensions are taken in reverse order",
    }
    orders = permutations(range(rank)) if rank <= 5 else iter(named)
    for order in sorted(orders, key=lambda o: o not in named):
        if order == own:
            continue
        moved = [k for k in range(rank) if order[k] != own[k]]
        text = f"transpose: {named.get(order, f'the dimensions are taken in the order {order} instead of {own}')}"
        if len(moved) == 2 and order not in named:
            text = f"transpose: dimensions {own[moved[0]]} and {own[moved[1]]} of the input are exchanged (order {order} instead of {own})"
        dense = dense_strides(shape)
        yield from copy_variant(case, text, partial(_strides, strides=[dense[k] for k in order]), 3.0)
        reshaped = [shape[k] for k in order]
        if reshaped != list(of.spec.shape):
            packed = f"{text}, and the result is taken as if it had the output's shape"
            yield from copy_variant(case, packed, partial(_packed, order=order), 4.0)
    for k in range(rank):
        wrong = dense_strides(of.spec.shape)
        yield from copy_variant(
            case,
            f"transpose: the strides are computed from the output's shape{f', from dimension {k} on' if k else ''}",
            partial(_strides, strides=[copy.strides[j] if j < k else wrong[own[j]] for j in range(rank)]),
            2.0 + k,
        )


def _strides(copy: SeparableCopy, case: Case, strides: list[int]) -> SeparableCopy:
    return copy.with_strides(dict(enumerate(strides)))


def _packed(copy: SeparableCopy, case: Case, order: tuple[int, ...]) -> SeparableCopy:
    """Returns the copy of one axis whose places are those of the input transposed in this order, flat."""
    shape = case.graph.spec(copy.source).shape
    places = np.arange(case.recorded.size).reshape(shape).transpose(order).reshape(-1)
    return SeparableCopy(("element",), (case.recorded.size,), (case.recorded.size,), (1,), (places,), copy.source)
