"""Matches the axes of a vendor's tensor with those of the other side. A match that is not unique is rejected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

Shape = tuple[int, ...]
ORDERS: dict[int, dict[str, Shape]] = {
    4: {"NHWC to NCHW": (0, 3, 1, 2), "NCHW to NHWC": (0, 2, 3, 1)},
    3: {"NWC to NCW": (0, 2, 1)},
}
INNER_ALIGNMENTS = (4, 8, 16, 32, 64)  # known alignments of the innermost dim, in elements


class Unsettled(Exception):
    """Raised if a tensor can be read in more than one way, or in none. It is then missing, and never guessed."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The way to read a stored tensor. cut: the valid shape within the stored one. order: permutation of its axes.
    shape: shape of the result. note: note for the report, or "" if nothing was moved."""

    cut: Shape
    order: Shape
    shape: Shape
    note: str = ""

    def axis(self, before: int) -> int:
        """Returns the index of an axis after the reordering. Raises Unsettled if a reshape leaves no unique index for
        it."""
        place, size = self.order.index(before), self.cut[before]
        rank = sum(self.cut[i] != 1 for i in self.order[:place])
        kept = [i for i, d in enumerate(self.shape) if d != 1]
        if size == 1 or rank >= len(kept):
            raise Unsettled("scales per channel, and the axis of the channels cannot be followed")
        return kept[rank]


def arrange_axes(have: Shape, want: Shape, layout: str, wanted_layout: str, loose_inner: bool = False) -> Arrangement:
    """Returns the only arrangement of shape `have` that gives shape `want`. layout: layout of `have`, or "" if the dump
    does not state it. wanted_layout: layout of the other side. loose_inner: True if the innermost dim may contain
    padding. Raises Unsettled if no arrangement or several fit."""
    fitting = _fitting(have, want, layout)
    if not fitting and loose_inner and have:
        shorter = [(*have[:-1], d) for d in sorted(set(want)) if d < have[-1] and _is_aligned_size(d, have[-1])]
        fitting = [a for cut in shorter for a in _fitting(cut, want, layout)]
        fitting = [
            Arrangement(a.cut, a.order, a.shape, f"innermost dim {have[-1]} cut to {a.cut[-1]}, {a.note}".rstrip(", "))
            for a in fitting
        ]
    if len(fitting) > 1:
        fitting = _prefer_layout(fitting, layout, wanted_layout)
    if not fitting:
        raise Unsettled(f"shape {list(have)} here, {list(want)} on the other side, and no order of its axes fits")
    if len(fitting) > 1:
        raise Unsettled(
            f"shape {list(have)} fits as it is and transposed; give -m quant.onnx, which states the order of its axes"
        )
    return fitting[0]


def padded_axes(size_bytes: int, item: int, want: Shape, inner: Callable[[int], int]) -> tuple[Shape, Shape]:
    """Returns valid and stored shape of raw aligned bytes, for the only order of the axes of `want` in which a padded
    innermost dim gives size_bytes. item: bytes of an element. inner: returns the aligned size of an innermost dim, in
    bytes. Raises Unsettled if no order or several fit."""
    shapes: dict[tuple[Shape, Shape], str] = {}
    orders: dict[str, Shape] = {"": tuple(range(len(want))), **ORDERS.get(len(want), {})}
    for name, order in orders.items():
        shape = tuple(want[i] for i in order)
        stored = (*shape[:-1], inner(shape[-1] * item) // item) if shape else shape
        if prod(stored) * item == size_bytes:
            shapes.setdefault((shape, stored), name)
    if len(shapes) != 1:
        many = "in more than one order of the axes" if shapes else "in no known alignment"
        raise Unsettled(f"{size_bytes} bytes fit {list(want)} {many}; give -m, or the tensor without padding")
    return next(iter(shapes))


def _fitting(have: Shape, want: Shape, layout: str) -> list[Arrangement]:
    """Returns the arrangements that fit. Axes of one element are ignored."""
    moves = {n: o for n, o in ORDERS.get(len(have), {}).items() if n.startswith(layout)}
    orders: dict[str, Shape] = {"": tuple(range(len(have))), **moves}
    arrangements: dict[Shape, Arrangement] = {}
    for name, order in orders.items():
        moved = tuple(have[i] for i in order)
        if _without_ones(moved) == _without_ones(want):
            note = name or ("" if have == want else f"{list(have)} taken as {list(want)}")
            key = tuple(i for i in order if have[i] != 1)
            arrangements.setdefault(key, Arrangement(have, order, want, note))
    return list(arrangements.values())


def _prefer_layout(arrangements: list[Arrangement], layout: str, wanted: str) -> list[Arrangement]:
    if not layout or layout == wanted:
        as_it_is = [a for a in arrangements if a.order == tuple(sorted(a.order))]
        return as_it_is or arrangements
    return [a for a in arrangements if a.note == f"{layout} to {wanted}"] or arrangements


def _without_ones(shape: Shape) -> Shape:
    return tuple(d for d in shape if d != 1)


def _is_aligned_size(valid: int, stored: int) -> bool:
    return any(-(-valid // step) * step == stored for step in INNER_ALIGNMENTS)
