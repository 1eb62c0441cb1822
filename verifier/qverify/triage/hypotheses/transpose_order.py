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
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "transpose-order"
OPS = ("transpose",)


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = mover(case, "transpose")
    if inner is None:
        return
    copy = needed_copy(case)
    yield from _partly(case, inner)
    own_order = inner.last.words
    rank = len(own_order)
    inverse = tuple(int(i) for i in np.argsort(own_order))
    shape = inner.graph.spec(copy.source).shape
    named = {
        inverse: "the permutation is inverted",
        tuple(range(rank)): "no dimension is moved: the bytes are copied as they are",
        tuple(range(rank))[::-1]: "the dimensions are taken in reverse order",
    }
    orders = permutations(range(rank)) if rank <= 5 else iter(named)
    for order in sorted(orders, key=lambda o: o not in named):
        if order == own_order:
            continue
        moved = [k for k in range(rank) if order[k] != own_order[k]]
        text = f"transpose: {named.get(order, f'the dimensions are taken in the order {order} instead of {own_order}')}"
        if len(moved) == 2 and order not in named:
            text = f"transpose: dimensions {own_order[moved[0]]} and {own_order[moved[1]]} of the input are exchanged (order {order} instead of {own_order})"
        dense = dense_strides(shape)
        yield from copy_variant(case, text, partial(_strides, strides=[dense[k] for k in order]), 3.0)
        reshaped = [shape[k] for k in order]
        if reshaped != list(inner.spec.shape):
            packed = f"{text}, and the result is taken as if it had the output's shape"
            yield from copy_variant(case, packed, partial(_packed, order=order), 4.0)
    for k in range(rank):
        wrong = dense_strides(inner.spec.shape)
        yield from copy_variant(
            case,
            f"transpose: the strides are computed from the output's shape{f', from dimension {k} on' if k else ''}",
            partial(_strides, strides=[copy.strides[j] if j < k else wrong[own_order[j]] for j in range(rank)]),
            2.0 + k,
        )


def _partly(case: Case, inner: Case) -> Iterator[FaultVariant]:
    """Yields transposes that move only some blocks of a leading dim and copy the others unchanged."""
    own, shape = inner.last.words, inner.spec.shape
    for k in range(len(own) - 1):
        if own[: k + 1] != tuple(range(k + 1)):
            return
        blocks = int(np.prod(shape[: k + 1]))
        name, names = (
            ("batch", "batches") if k == 0 else (f"block of dimensions 0 to {k}", f"blocks of dimensions 0 to {k}")
        )
        parts = {
            f"only the first {name} is permuted, the others are copied without permutation": np.arange(blocks) == 0,
            f"the first {name} is copied without permutation": np.arange(blocks) > 0,
            f"the last {name} is copied without permutation": np.arange(blocks) < blocks - 1,
            f"only the last {name} is permuted, the others are copied without permutation": np.arange(blocks)
            == blocks - 1,
            f"every second {name} is copied without permutation": np.arange(blocks) % 2 == 0,
            f"only the first half of the {names} is permuted": np.arange(blocks) < blocks // 2,
        }
        for text, moved in parts.items() if blocks > 1 else ():
            yield from copy_variant(
                case,
                f"transpose: {text}",
                partial(_in_blocks, moved=moved),
                1.0 + k + 0.5 * (not text.startswith(f"only the first {name}")),
            )


def _in_blocks(copy: SeparableCopy, case: Case, moved: Array) -> SeparableCopy:
    count = case.recorded.size
    places = np.where(np.repeat(moved, count // len(moved)), copy.addresses(), np.arange(count))
    return SeparableCopy(("element",), (count,), (count,), (1,), (places,), copy.source)


def _strides(copy: SeparableCopy, case: Case, strides: list[int]) -> SeparableCopy:
    return copy.with_strides(dict(enumerate(strides)))


def _packed(copy: SeparableCopy, case: Case, order: tuple[int, ...]) -> SeparableCopy:
    """Returns the copy with a single axis whose places are those of the input transposed in this order, flat."""
    shape = case.graph.spec(copy.source).shape
    places = np.arange(case.recorded.size).reshape(shape).transpose(order).reshape(-1)
    return SeparableCopy(("element",), (case.recorded.size,), (case.recorded.size,), (1,), (places,), copy.source)
