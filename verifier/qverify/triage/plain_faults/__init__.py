"""Plain faults whose amount is not known before, one family per file: a scale, a slope, an epsilon or a table's entry of
any other value. The amount is solved from the recorded elements, and no experiment confirms it. Further pages have faults of
single kernels that the hypotheses do not contain.

A page has NAME, a docstring that states the fault, OPS (None: any op) and variants(case), as the pages of hypotheses."""

from __future__ import annotations

from functools import cache
from typing import cast

from qverify.pages import load_pages
from qverify.triage.case import Case
from qverify.triage.hypotheses import HypothesisPage, ops_of, pages_of

# Families of plain mistakes, the plainest first. They are named before others that give the same bytes.
PLAIN = (
    "bias",
    "zero-point",
    "pad-value",
    "operand-order",
    "lost-weights",
    "negative-constant",
    "scale-factor",
    "raw-sums",
    "clamp",
    "kernel-order",
    "layout",
    "softmax-axis",
    "resize-mode",
    "table-entry",
    "epsilon",
    "norm-parameters",
    "scales",
    "add-terms",
    "lookup-index",
    "signedness",
    "window-words",
    "window",
    "window-dilation",
    "channel-order",
    "matrix-operands",
    "dropped-or-repeated",
    "stale-buffer",
    "parameter-index",
    "parameter-axis",
    "operand-rows",
    "other-function",
    "function-in-pieces",
    "batch-norm-parameters",
    "accumulator",
    "layer-norm-variance",
    "dropped-input",
    "product-parameters",
    "product-windows",
    "product-terms-left-out",
    "layer-norm-rows",
    "channel-affine",
    "broadcast-operand",
    "output-places",
    "copy-places",
    "transpose-order",
    "concat-parts",
    "split-order",
    "slice-steps",
    "gather-index",
    "pad-border",
    "input-planes",
    "narrow-operands",
)


@cache
def _pages() -> tuple[HypothesisPage, ...]:
    return tuple(cast(HypothesisPage, page) for page in load_pages(__name__, ("NAME", "__doc__", "variants")))


def plain_pages_of(case: Case) -> tuple[HypothesisPage, ...]:
    """Returns the pages of this folder that apply to the case's unit."""
    stems = {node.op for node in case.unit.nodes}
    return tuple(page for page in _pages() if (own := ops_of(page)) is None or stems.intersection(own))


def plain_first(case: Case) -> tuple[HypothesisPage, ...]:
    """Returns the pages of plain faults that apply to the case's unit, those of hypotheses included, the plainest first."""
    pages = (*plain_pages_of(case), *(page for page in pages_of(case) if page.NAME in PLAIN))
    return tuple(sorted(pages, key=lambda page: rank_plain(page.NAME)))


def rank_plain(family: str) -> int:
    """Returns the place of a family among the plain ones, or their number if it is none of them."""
    return PLAIN.index(family) if family in PLAIN else len(PLAIN)
