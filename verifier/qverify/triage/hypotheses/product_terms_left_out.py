"""A convolution or matrix product of floats or of stored integers leaves terms out of its sum, or adds some twice: the
first, the last, a tail beyond whole vectors, every n-th, a kernel row or column, or channels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.product_layouts import FLOATS, INTEGERS, QUANTIZED, SUMS, layout
from qverify.triage.altered_kernels.product_terms import Array, ProductTerms, fault_variant, product_case
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant

NAME = "product-terms-left-out"
OPS = (*FLOATS, *SUMS, *INTEGERS, *QUANTIZED)
VECTORS = (4, 8, 2, 16, 32, 64, 3, 6, 12, 128, 192, 256)
CHANGES = {"left out of the sum": 0, "counted twice": 2, "subtracted instead of added": -1}


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = product_case(case, OPS)
    if inner is None:
        return
    matrices = case.compute_once("product layout", lambda: layout(inner))
    for way, factor in CHANGES.items():
        for text, mask in masks(matrices.shape):
            if mask.any() and (factor or not mask.all()):
                yield from fault_variant(case, f"{text} {way}", partial(_weighted, chosen=text, factor=factor))


def masks(shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    """Yields pairs of a text and a flat mask of terms of a sum."""
    depth = int(np.prod(shape))
    at = np.arange(depth)
    yield "the last term of each sum is", at == depth - 1
    yield "the first term of each sum is", at == 0
    for n in VECTORS:
        if n < depth:
            yield f"the terms beyond whole groups of {n} are", at >= depth // n * n
            yield f"the last whole group of {n} terms and all after it are", at >= max(0, depth // n - 1) * n
            yield f"the first {n} terms are", at < n
            groups = -(-depth // n)
            odd = (at // n == groups - 1) & (groups % 2 > 0)
            yield f"where the groups of {n} terms, a partial one included, are odd in number, the last group is", odd
            yield f"the terms after the first {n} are", at >= n
            yield f"in every group of {n} terms the last is", at % n == n - 1
            yield f"in every group of {n} terms the first is", at % n == 0
            yield (
                f"where the groups of {n} terms are odd in number, the last whole group is",
                (at // n == depth // n - 1) & (depth // n % 2 > 0),
            )
    yield "the second half of the terms is", at >= (depth + 1) // 2
    yield "where the terms are odd in number, the last is", (at == depth - 1) & (depth % 2 > 0)
    if len(shape) == 3:
        yield from _kernel_masks(shape)


def _kernel_masks(shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    channel, row, column = (i.reshape(-1) for i in np.indices(shape))
    for name, place, size in (
        ("kernel row", row, shape[1]),
        ("kernel column", column, shape[2]),
        ("channel", channel, shape[0]),
    ):
        if size == 1:
            continue
        yield f"the last {name} is", place == size - 1
        yield f"the first {name} is", place == 0
        if size > 2:
            yield f"the middle {name} is", place == size // 2
        for n in VECTORS:
            if n < size:
                yield f"each {name} beyond whole groups of {n} is", place >= size // n * n
                yield f"each {name} after the first {n} is", place >= n
        yield f"each odd {name} is", place % 2 == 1
    yield "the tap at the corner of the last kernel row and column is", (row == shape[1] - 1) & (column == shape[2] - 1)
    yield "the tap at the corner of the first kernel row and column is", (row == 0) & (column == 0)
    yield "the centre tap is", (row == shape[1] // 2) & (column == shape[2] // 2)


def _weighted(terms: ProductTerms, chosen: str, factor: int) -> Array:
    mask = next((mask for text, mask in masks(terms.shape) if text == chosen), None)
    if mask is None:
        raise ValueError(chosen)
    return terms.rounded(terms.products * np.where(mask, factor, 1))
