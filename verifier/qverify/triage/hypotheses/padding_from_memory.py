"""The padding of a window is not filled: it contains the neighbouring plane or row in memory, or the edge repeated,
reflected or wrapped around, on one side or on all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify import ops
from qverify.triage.altered_kernels.summands import reads_padding
from qverify.triage.altered_kernels.variant_checks import check_where_it_differs
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.pad_value import PADS

NAME = "padding-from-memory"
OPS = ("conv", "max_pool", "average_pool")
SIDES = {
    "all sides": PADS,
    "the top": PADS[:1],
    "the left": PADS[1:2],
    "the bottom": PADS[2:3],
    "the right": PADS[3:],
    "the top and bottom": PADS[::2],
    "the left and right": PADS[1::2],
}
BESIDE = {
    "the top": "holds the last rows of the plane before it (zero only before the first plane)",
    "the left": "holds the last elements of the row before it",
    "the bottom": "holds the first rows of the plane after it",
    "the right": "holds the first elements of the row after it",
}
WAYS = {
    "memory": "holds the rows and columns that lie beside the plane in memory: those of the plane or row before or after it",
    "edge": "repeats the edge of the plane",
    "reflect": "is reflected",
    "wrap": "wraps around to the other side of the plane",
}


def variants(case: Case) -> Iterator[FaultVariant]:
    words, source = ops.words(case.last), case.last.inputs[0] or ""
    if case.last.op not in OPS or source not in case.inputs or case.inputs[source].ndim != 4:
        return
    elsewhere = case.last.op != "max_pool" and not reads_padding(case)[case.differing].all()
    for side, pads in SIDES.items():
        if not any(words[p] for p in pads):
            continue
        for way, phrase in (WAYS | {"memory": BESIDE.get(side, WAYS["memory"])}).items():
            text = f"{case.last.op}: the padding at {side} {phrase}, instead of counting as zero"
            if elsewhere:  # an element that differs reads no padding
                case.count_tried(1, (text,))
                continue
            yield from check_where_it_differs(case, text, partial(_compute_output, pads=pads, way=way), 2.0)


def _compute_output(case: Case, pads: tuple[str, ...], way: str) -> Array:
    words, name = ops.words(case.last), case.last.inputs[0] or ""
    x, spec = case.inputs[name], case.graph.spec(name)
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    fill = lowest if case.last.op == "max_pool" else spec.zero_point[0] if spec.quantized else 0
    top, left, bottom, right = (words[p] for p in PADS)
    height, width = x.shape[2:]
    row, column = np.arange(-top, height + bottom), np.arange(-left, width + right)
    wrong = [np.isin(p, pads) for p in PADS]
    beside_row = (row < 0) & wrong[0] | (row >= height) & wrong[2]
    beside_column = (column < 0) & wrong[1] | (column >= width) & wrong[3]
    inside = ((row >= 0) & (row < height) | beside_row)[:, None] & ((column >= 0) & (column < width) | beside_column)
    plane = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], 1, 1) * height * width
    if way == "memory":
        where = plane + row[:, None] * width + column
    else:
        r, c = (_within(p, n, way) for p, n in ((row, height), (column, width)))
        where = plane + r[:, None] * width + c
    good = inside & (where >= 0) & (where < x.size)
    padded = np.where(good, x.reshape(-1)[np.clip(where, 0, x.size - 1)], x.dtype.type(fill))
    change = case.change_words(**dict.fromkeys(PADS, 0))
    return case.recompute(replace(change, inputs={name: np.ascontiguousarray(padded)}))


def _within(places: Array, size: int, way: str) -> Array:
    if way == "wrap":
        return places % size
    mirrored = np.where(places < 0, -places, np.where(places >= size, 2 * size - 2 - places, places))
    return np.clip(mirrored if way == "reflect" else places, 0, size - 1)
