"""depth_to_space reads its channels in another order: DCR instead of CRD, block rows instead of block columns, or
backward."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import permutations

import numpy as np

from qverify.triage.altered_kernels.separable_copies import SeparableCopy, copy_variant, mover, needed_copy
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant

NAME = "depth-to-space-order"
OPS = ("depth_to_space",)
PARTS = {1: "the output channel", 3: "the row in the block", 5: "the column in the block"}
BATCH, CHANNEL, BLOCK_ROW, BLOCK_COLUMN = 0, 1, 3, 5


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = mover(case, "depth_to_space")
    if inner is None:
        return
    copy = needed_copy(case)
    mode = ("DCR", "CRD")[inner.last.words[1]]
    named: dict[tuple[int, ...], str] = {
        (BLOCK_ROW, BLOCK_COLUMN, CHANNEL): "the channels are in DCR order (channel = position in the block * C + c)",
        (CHANNEL, BLOCK_ROW, BLOCK_COLUMN): "the channels are in CRD order (channel = c * block^2 + position)",
    }
    for order in permutations((BLOCK_ROW, BLOCK_COLUMN, CHANNEL)):
        parts = ", then ".join(PARTS[k] for k in order)
        text = named.get(order, f"the input's channels count {parts} (the last fastest)")
        yield from copy_variant(case, f"depth_to_space: {text} instead of {mode}", partial(_order, order=order), 1.0)
        for axes in ((BLOCK_ROW,), (BLOCK_COLUMN,), (BLOCK_ROW, BLOCK_COLUMN), (CHANNEL,)):
            backward = f"{text}, {' and '.join(PARTS[k] for k in axes)} backward"
            change = partial(_order, order=order, backward=axes)
            yield from copy_variant(case, f"depth_to_space: {backward}", change, 3.0)
    shape = inner.graph.spec(copy.source).shape
    _, c, h, w = shape
    block = copy.shape[BLOCK_ROW]
    planar = {
        "the pixels of a block lie side by side in the input's rows (space is not rearranged)": {4: block, 5: 1},
        "columns and blocks are exchanged: the positions of the block are outermost": {2: w, 4: 1},
        "the batch stride is that of the output's channels": {BATCH: c // block**2 * h * w},
        "every batch item reads the first one": {BATCH: 0},
    }
    for text, strides in planar.items():
        yield from copy_variant(case, f"depth_to_space: {text}", partial(_strides, strides=strides), 3.0)
    yield from copy_variant(case, "depth_to_space: the bytes are copied as they are", _unmoved, 2.0)


def _order(copy: SeparableCopy, case: Case, order: tuple[int, ...], backward: tuple[int, ...] = ()) -> SeparableCopy:
    """Returns the copy in which the input channel counts along these axes, the last one fastest."""
    step = case.graph.spec(copy.source).shape[2] * case.graph.spec(copy.source).shape[3]
    strides = {}
    for axis in reversed(order):
        strides[axis] = step
        step *= copy.shape[axis]
    return copy.with_strides(strides).with_places({k: copy.places[k][::-1] for k in backward})


def _strides(copy: SeparableCopy, case: Case, strides: dict[int, int]) -> SeparableCopy:
    return copy.with_strides(strides)


def _unmoved(copy: SeparableCopy, case: Case) -> SeparableCopy:
    count = case.recorded.size
    return SeparableCopy(("element",), (count,), (count,), (1,), (np.arange(count),), copy.source)
