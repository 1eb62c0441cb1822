"""A convolution or matrix product of floats keeps its running sum, its partial sums or its products in fewer bits, and
adds in the order of a kernel, instead of rounding the exact sum once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from qverify.triage.altered_kernels import narrow_floats
from qverify.triage.altered_kernels.narrow_floats import Narrow
from qverify.triage.altered_kernels.product_layouts import FLOATS, SUMS, layout
from qverify.triage.altered_kernels.product_terms import Array, ProductTerms, fault_variant, product_case, terms_at
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant

NAME = "float-product-sums"
OPS = (*FLOATS, *SUMS)
F = np.float32
SMALL = 2.0**-3  # largest relative change of a sum by less precision
LANES = (2, 4, 8, 16, 32)
COMBINE = {
    "neighbours": "pairwise, neighbours first",
    "halves": "by halves, the upper half to the lower one",
    "in turn": "one after the other",
}
BLOCKS = (192, 128, 64, 256, 32, 16, 8)


@dataclass(frozen=True, slots=True)
class SumWay:
    """The way in which a sum is computed.

    Attributes:
        narrow: rounds the sum after every addition.
        products: rounds a product, or None if it is added exactly.
        lanes: number of partial sums; term k is added to partial sum k % lanes.
        block: number of terms after which the lanes are combined, or 0 if they are combined at the end.
        apart: whether each block starts from 0 and is then added to the sum.
        order: order of the terms.
        tail: whether the terms beyond whole groups of lanes are added one by one to the combined sum.
        c: where the addend is added.
    """

    narrow: Narrow
    products: Narrow | None
    lanes: int = 1
    combine: str = "in turn"
    block: int = 0
    apart: bool = False
    order: str = ""
    tail: bool = False
    c: str = "last"


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = product_case(case, OPS)
    if inner is None or not _small(case, inner):
        return
    matrices = case.compute_once("product layout", lambda: layout(inner))
    depth = matrices.left.shape[-1]
    for phrase, way in _ways(depth, 1 < matrices.shape[0] < depth):
        yield from fault_variant(case, phrase, partial(_sum, way=way))
    for phrase, size in _blocks(case, depth):
        for text, narrow in _formats()[:3]:
            if size > 1:
                yield from fault_variant(
                    case,
                    f"the sum of every {phrase} is rounded to {text} and these are added in {text}, one after the other",
                    partial(_by_blocks, size=size, narrow=narrow),
                )


def _small(case: Case, inner: Case) -> bool:
    """Returns whether the output differs by little, as far as a few elements show."""
    if case is not inner:
        return True
    at = case.differing[:64]
    terms = terms_at(inner, case.compute_once("product layout", lambda: layout(inner)), at)
    size = np.abs(terms.products).sum(1) * abs(terms.alpha) + (0 if terms.c is None else np.abs(terms.c))
    if terms.finish is not None:
        return True
    far = np.abs(case.recorded.reshape(-1)[at].astype(np.float64) - case.healthy.reshape(-1)[at])
    return bool((far <= SMALL * size).mean() > 0.5)


def _formats() -> list[tuple[str, Narrow]]:
    named: list[tuple[str, Narrow]] = [
        ("float32", narrow_floats.float32),
        ("float16", narrow_floats.float16),
        ("bfloat16", narrow_floats.bfloat16),
        ("bfloat16 by truncation (upper 16 bits)", narrow_floats.bfloat16_cut),
    ]
    counted: list[tuple[str, Narrow]] = [
        (f"{n} significant bits", partial(narrow_floats.significant, bits=n))
        for n in (11, 10, 8, 12, 16, 14, 20, 18, 9, 13, 7)
    ]
    cut: list[tuple[str, Narrow]] = [
        (f"{n} significant bits, the others cut off", partial(narrow_floats.significant, bits=n, rounded=np.trunc))
        for n in (24, 11, 16, 12, 8, 20, 10, 14)
    ]
    return named + counted + cut


ENDS = {  # texts that are the same without an addend, where it is one kernel
    "a bias is added last": "last",
    "a bias is added last, and where the sum with it is at a tie of float32 the exact sum counts": "exact",
    "a bias is what the sum starts from": "first",
}


def _ways(depth: int, kernel: bool) -> Iterator[tuple[str, SumWay]]:
    orders = {"": "", ", from the last term to the first": "reverse"}
    if kernel:
        orders |= {", channels innermost": "channels"}
    for text, narrow in _formats():
        for rounds, products in (
            ("every product and every sum", narrow),
            ("every sum, its product exact (fused)", None),
        ):
            for where, order in orders.items():
                for end, place in ENDS.items():
                    phrase = f"the terms are added one after the other in {text}, rounding {rounds}{where}; {end}"
                    yield phrase, SumWay(narrow, products, order=order, c=place)
    for way in _lane_ways(depth, kernel):
        for end, place in ENDS.items():
            yield (
                f"{_describe(way)}; {end}",
                SumWay(
                    way.narrow, way.products, way.lanes, way.combine, way.block, way.apart, way.order, way.tail, place
                ),
            )


def _lane_ways(depth: int, kernel: bool) -> Iterator[SumWay]:
    for narrow in (narrow_floats.float32, narrow_floats.float16, narrow_floats.bfloat16):
        for lanes in [n for n in (LANES if narrow is narrow_floats.float32 else LANES[:3]) if n < 2 * depth]:
            for order in ("", "channels") if kernel else ("",):
                for products in (narrow, None):
                    for combine in COMBINE if lanes > 2 else ("in turn",):
                        for tail in (False, True) if depth % lanes and depth > lanes else (False,):
                            yield SumWay(narrow, products, lanes, combine, 0, False, order, tail)
                            if narrow is narrow_floats.float32 and not order:
                                for block in BLOCKS:
                                    if lanes < block < depth:
                                        yield SumWay(narrow, products, lanes, combine, block, False, order, tail)
    for block in BLOCKS:
        if block < depth:
            for products in (narrow_floats.float32, None):
                yield SumWay(narrow_floats.float32, products, 1, "in turn", block, True)


def _describe(way: SumWay) -> str:
    names: dict[Narrow, str] = {narrow_floats.float16: "float16", narrow_floats.bfloat16: "bfloat16"}
    name = names.get(way.narrow, "float32")
    rounds = "" if way.products else ", each product exact (fused)"
    order = ", channels innermost" if way.order else ""
    if way.apart:
        return f"the sum of every block of {way.block} terms is made in {name}, one after the other{rounds}, and added to the total"
    at = f" at the end of every block of {way.block} terms" if way.block else " at the end"
    tail = ", the terms beyond whole groups to the total, one after the other" if way.tail else ""
    return (
        f"the terms are added in {way.lanes} partial sums of {name} (term k in partial sum k modulo {way.lanes}){rounds}{order}, which are"
        f" added {COMBINE[way.combine]}{at}{tail}"
    )


def _sum(terms: ProductTerms, way: SumWay) -> Array:
    products = _ordered(terms, way.order)
    if way.products is not None:
        products = way.products(products)
    start = np.zeros(len(products))
    if way.c == "first" and terms.c is not None and terms.alpha == 1.0:
        start = way.narrow(terms.c)
    size = way.block or max(1, products.shape[1])
    total = start
    for at in range(0, products.shape[1], size):
        block = products[:, at : at + size]
        start = np.zeros(len(total)) if way.apart else total
        total_of_block = _lanes(start, block, way)
        total = way.narrow(total + total_of_block) if way.apart else total_of_block
    return _ended(terms, total, way)


def _ordered(terms: ProductTerms, order: str) -> Array:
    products = terms.products
    if order == "reverse":
        return products[:, ::-1]
    if order == "channels":
        return products.reshape(len(products), terms.shape[0], -1).swapaxes(1, 2).reshape(products.shape)
    return products


def _lanes(start: Array, products: Array, way: SumWay) -> Array:
    depth = products.shape[1]
    whole = depth // way.lanes * way.lanes if way.tail else depth
    parts = np.zeros((len(products), way.lanes))
    parts[:, 0] = start
    if way.narrow is narrow_floats.float32 and way.products is not None:
        return _float32_lanes(parts, products, way, whole)
    for at in range(0, whole, way.lanes):
        group = products[:, at : min(at + way.lanes, whole)]
        parts[:, : group.shape[1]] = way.narrow(parts[:, : group.shape[1]] + group)
    total = _combined(parts, way)
    for k in range(whole, depth):
        total = way.narrow(total + products[:, k])
    return total


def _float32_lanes(parts: Array, products: Array, way: SumWay, whole: int) -> Array:
    """Returns the same as _lanes in float32, where numpy adds the terms one after the other."""
    lanes = []
    for lane in range(way.lanes):
        lane_values = np.column_stack([parts[:, lane], products[:, lane : whole : way.lanes]]).astype(F)
        lanes.append(np.add.accumulate(lane_values, 1, dtype=F)[:, -1])
    total = _combined(np.column_stack(lanes).astype(np.float64), way)
    tail = np.column_stack([total, products[:, whole:]]).astype(F)
    return np.add.accumulate(tail, 1, dtype=F)[:, -1].astype(np.float64)


def _combined(parts: Array, way: SumWay) -> Array:
    if way.combine == "in turn":
        total = parts[:, 0]
        for lane in range(1, way.lanes):
            total = way.narrow(total + parts[:, lane])
        return total
    while parts.shape[1] > 1:
        half = parts.shape[1] // 2
        if way.combine == "halves":
            parts = way.narrow(parts[:, :half] + parts[:, half:])
        else:
            parts = way.narrow(parts[:, ::2] + parts[:, 1::2])
    return parts[:, 0]


def _ended(terms: ProductTerms, total: Array, way: SumWay) -> Array:
    c = terms.c
    if terms.finish is not None:
        return way.narrow(terms.finish(total.astype(np.float64))).astype(F)
    if terms.alpha != 1.0:
        total = total.astype(F).astype(np.float64) * terms.alpha
        return (total if c is None else total + c).astype(F) + F(0)
    if way.c == "first" or (c is None and way.c != "exact"):
        return total.astype(F) + F(0)
    c = np.zeros(len(total)) if c is None else c
    output = (total + c).astype(F) + F(0)
    if way.c == "exact":
        size = np.sqrt((terms.a**2).sum(1) * (terms.b**2).sum(1)) + np.abs(c)
        share = (terms.a.shape[1] + 9) * 2.0**-53 * 1.001 * size
        tied = np.flatnonzero((total + c - share).astype(F) != (total + c + share).astype(F))
        if len(tied):
            output[tied] = terms.rounded(terms.products)[tied]
    return output


def _blocks(case: Case, depth: int) -> list[tuple[str, int]]:
    inner = product_case(case, OPS)
    assert inner is not None
    shape = case.compute_once("product layout", lambda: layout(inner)).shape
    blocks = [(f"block of {n} terms", n) for n in (*BLOCKS, 4, 2) if n < depth]
    if len(shape) == 3:
        blocks = [("channel's kernel", shape[1] * shape[2]), ("kernel row", shape[2]), *blocks]
    return [(text, n) for text, n in blocks if n < depth] + [("product", 1)]


def _by_blocks(terms: ProductTerms, size: int, narrow: Narrow) -> Array:
    products, total = terms.products, np.zeros(len(terms.a))
    for at in range(0, products.shape[1], size):
        total = narrow(total + narrow(products[:, at : at + size].sum(1)))
    return _ended(terms, total, SumWay(narrow, None))
