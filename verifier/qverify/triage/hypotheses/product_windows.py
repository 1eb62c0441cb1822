"""A convolution of floats, a transposed one or one of stored integers has another value than 0 (or the zero point) in
its padding, on one side or all, or does not read the first or last row or column of its input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.arithmetic.windows import plane_shape
from qverify.triage.altered_kernels.product_layouts import INTEGERS, WINDOWED, Layout, layout, window_reads
from qverify.triage.altered_kernels.product_terms import (
    Array,
    fault_variant,
    healthy_elements,
    product_case,
)
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant

NAME = "product-windows"
OPS = (*WINDOWED, "conv", "conv_transpose")
Places = Callable[[Array, int], Array]
SIDES = {  # texts and the sides that they name
    "on all sides": ("above", "below", "left", "right"),
    "at the left": ("left",),
    "at the right": ("right",),
    "above": ("above",),
    "below": ("below",),
    "at the left and right": ("left", "right"),
    "above and below": ("above", "below"),
    "above and at the left": ("above", "left"),
    "below and at the right": ("below", "right"),
}
COPIES: dict[str, Places] = {
    "repeats the edge of the input (replicate) instead of being 0": lambda at, n: at.clip(0, n - 1),
    "reflects the input without its edge instead of being 0": lambda at, n: np.where(at < 0, -at, 2 * n - 2 - at),
    "mirrors the input with its edge (symmetric) instead of being 0": lambda at, n: np.where(
        at < 0, -1 - at, 2 * n - 1 - at
    ),
    "continues at the other end of the input (wraps) instead of being 0": lambda at, n: at % n,
}


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = product_case(case, OPS)
    if inner is None:
        return
    transposed = inner.last.op in ("conv_transpose_float", "conv_transpose")
    for sides, names in _padded(inner).items():
        if not transposed:
            for text, place in COPIES.items():
                yield from fault_variant(
                    case, f"the padding {sides} {text}", healthy_elements, partial(_copied, names=names, place=place)
                )
        if inner.last.op in (*INTEGERS, "conv"):
            for value in _fills(inner):
                for corners in (True, False):
                    where = "" if corners or len(names) == 4 else ", in rows and columns inside the picture only"
                    yield from fault_variant(
                        case,
                        f"the padding {sides} counts as the stored value {value} instead of as the zero point{where}",
                        healthy_elements,
                        partial(_filled, names=names, value=value, corners=corners),
                    )
    for text, way in _unread():
        yield from fault_variant(case, text, healthy_elements, partial(_reads, way=way))


def _padded(inner: Case) -> dict[str, tuple[str, ...]]:
    """Returns the sets of sides at which this node has padding, by text; each set once."""
    size, texts = plane_shape(inner.graph.spec(inner.last.inputs[0] or "").shape), dict[tuple[str, ...], str]()
    reads = window_reads(inner)
    some = {
        n
        for names in SIDES.values()
        for n in names
        if any(_side(at, size[i], i, (n,)).any() for i, at in enumerate(reads))
    }
    for text, names in SIDES.items():
        left = tuple(sorted(n for n in names if n in some))
        if left and (len(left) == len(names) or len(names) == 4):
            texts.setdefault(left, text)
    return {text: names for names, text in texts.items()}


def _fills(inner: Case) -> tuple[int, ...]:
    return (0, -128, 127, 1, -1) if inner.graph.spec(inner.last.inputs[0] or "").dtype == "int8" else (0, 128, 255, 1)


def _side(at: Array, size: int, axis: int, names: tuple[str, ...]) -> Array:
    before, after = (("above", "below"), ("left", "right"))[axis]
    side: Array = np.zeros(at.shape, bool)
    if before in names:
        side |= at < 0
    if after in names:
        side |= at >= size
    return side


def _copied(case: Case, names: tuple[str, ...], place: Places) -> Layout:
    size, reads = plane_shape(case.graph.spec(case.last.inputs[0] or "").shape), []
    for axis, at in enumerate(window_reads(case)):
        side = _side(at, size[axis], axis, names)
        reads.append(np.where(side, place(at, size[axis]).clip(0, size[axis] - 1), at))
    return layout(case, (reads[0], reads[1]))


def _filled(case: Case, names: tuple[str, ...], value: int, corners: bool) -> Layout:
    matrices, size = layout(case), plane_shape(case.graph.spec(case.last.inputs[0] or "").shape)
    rows, columns = window_reads(case)
    assert matrices.inside is not None
    sides = [_side(at, size[i], i, names) for i, at in enumerate((rows, columns))]
    inner = [(at >= 0) & (at < size[i]) for i, at in enumerate((rows, columns))]
    others = [np.ones_like(i) if corners else i for i in inner]
    mask = sides[0][:, None, :, None] & others[1][None, :, None] | others[0][:, None, :, None] & sides[1][None, :, None]
    flat = np.repeat(mask.reshape(len(matrices.inside), 1, -1), matrices.shape[0], 1).reshape(matrices.inside.shape)
    return replace(matrices, right=np.where(flat, value, matrices.right), inside=matrices.inside | flat)


Reads = Callable[[Array, Array, tuple[int, int]], tuple[Array, Array]]


def _unread() -> Iterator[tuple[str, Reads]]:
    for axis, name in ((1, "column"), (0, "row")):
        yield (
            f"the last {name} of the input is never read (counts as padding)",
            partial(_left_out, axis=axis, last=True),
        )
        yield (
            f"the first {name} of the input is never read (counts as padding)",
            partial(_left_out, axis=axis, last=False),
        )
        yield (
            f"the {name}s of the input are read one too far, except beyond the end",
            partial(_shifted, axis=axis, by=1),
        )
        yield (
            f"the {name}s of the input are read one too early, except before the start",
            partial(_shifted, axis=axis, by=-1),
        )
        yield f"the kernel is mirrored in its {name}s", partial(_mirrored, axes=(axis,))
        for n in (4, 8, 16, 32):
            yield (
                f"the {name}s of the input beyond whole groups of {n} count as padding",
                partial(_tail, axis=axis, group=n),
            )
    yield (
        "the kernel is turned by half a turn (correlation instead of convolution or the reverse)",
        partial(_mirrored, axes=(0, 1)),
    )


def _reads(case: Case, way: Reads) -> Layout:
    rows, columns = window_reads(case)
    return layout(case, way(rows, columns, plane_shape(case.graph.spec(case.last.inputs[0] or "").shape)))


def _changed(rows: Array, columns: Array, axis: int, to: Array) -> tuple[Array, Array]:
    return (to, columns) if axis == 0 else (rows, to)


def _left_out(rows: Array, columns: Array, size: tuple[int, int], axis: int, last: bool) -> tuple[Array, Array]:
    at = (rows, columns)[axis]
    return _changed(rows, columns, axis, np.where(at == (size[axis] - 1 if last else 0), -(1 << 30), at))


def _shifted(rows: Array, columns: Array, size: tuple[int, int], axis: int, by: int) -> tuple[Array, Array]:
    at = (rows, columns)[axis]
    inside = (at >= 0) & (at < size[axis])
    return _changed(rows, columns, axis, np.where(inside, (at + by).clip(0, size[axis] - 1), at))


def _mirrored(rows: Array, columns: Array, size: tuple[int, int], axes: tuple[int, ...]) -> tuple[Array, Array]:
    return rows[:, ::-1] if 0 in axes else rows, columns[:, ::-1] if 1 in axes else columns


def _tail(rows: Array, columns: Array, size: tuple[int, int], axis: int, group: int) -> tuple[Array, Array]:
    at = (rows, columns)[axis]
    return _changed(rows, columns, axis, np.where(at >= size[axis] // group * group, -(1 << 30), at))
