"""Matches the axes of a vendor's tensor with those of the other side. A match that is not unique is rejected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

Shape = tuple[int, ...]
ORDERS: dict[int, dict[str, Shape]] = {
    4: {"NHWC to NCHW": (0, 3, 1, 2), "NCHW to NHWC": (0, 2, 3, 1)},
    3: {"NWC to NCW": (0, 2, 1)},
}
BLOCKED = "NC1HWC2"  # N, blocks of channels, H, W, channels of a block
BLOCK_ORDERS: dict[str, Shape] = {"NCHW": (0, 1, 4, 2, 3), "NHWC": (0, 2, 3, 1, 4)}
BLOCK_SIZES = (4, 8, 16, 32, 64)
INNER_ALIGNMENTS = (4, 8, 16, 32, 64)  # known alignments of the innermost dim, in elements


class Unsettled(Exception):
    """Raised if a tensor can be read in more than one way, or in none. It is then missing, and never guessed."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The way to read a stored tensor. cut: the valid shape within the stored one. order: permutation of its axes.
    shape: shape of the result. note: note for the report, or "" if nothing was moved. merged: shape after blocks of
    channels were merged, with the padding of the last block; () without blocks."""

    cut: Shape
    order: Shape
    shape: Shape
    note: str = ""
    merged: Shape = ()

    def apply(self, stored: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Returns the valid elements in the other side's axes. stored: the stored elements, with padding."""
        value = stored[tuple(slice(0, n) for n in self.cut)].transpose(self.order)
        if self.merged:
            value = value.reshape(self.merged)[tuple(slice(0, n) for n in self.shape)]
        return np.ascontiguousarray(value).reshape(self.shape)

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
    if layout == BLOCKED and have != want:
        return _merge_blocks(have, want, wanted_layout)
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
        hint = (
            f"; it may be {BLOCKED}: declare layout = {BLOCKED!r} (profile generic)" if fits_blocks(have, want) else ""
        )
        raise Unsettled(f"shape {list(have)} here, {list(want)} on the other side, and no order of its axes fits{hint}")
    if len(fitting) > 1:
        raise Unsettled(
            f"shape {list(have)} fits as it is and transposed; give -m quant.onnx, which states the order of its axes"
        )
    return fitting[0]


def fits_blocks(have: Shape, want: Shape) -> list[str]:
    """Returns the layouts of `want`, NCHW or NHWC, of which `have` may be the shape in blocks of channels."""
    if len(have) != 5 or len(want) != 4:
        return []
    outer, block = have[1], have[4]
    shapes = {"NCHW": (want[0], want[1], *want[2:]), "NHWC": (want[0], want[3], *want[1:3])}
    return [
        name
        for name, (items, channels, height, width) in shapes.items()
        if (items, height, width) == (have[0], *have[2:4]) and (outer - 1) * block < channels <= outer * block
    ]


def describe_blocks(elements: int, want: Shape) -> str:
    """Returns a hint for raw elements that would fit `want` in blocks of channels, with padding, or ""."""
    if len(want) != 4:
        return ""
    shapes = [(want[0], -(-want[1] // b), *want[2:], b) for b in BLOCK_SIZES]
    shape = next((s for s in shapes if prod(s) == elements != prod(want)), None)
    if shape is None:
        return ""
    return f"; {BLOCKED} of shape {list(shape)} has this size: declare it in a dump.toml (profile generic)"


def _merge_blocks(have: Shape, want: Shape, wanted_layout: str) -> Arrangement:
    """Returns the arrangement of a tensor in blocks of channels. Raises Unsettled if none or several fit."""
    fitting = fits_blocks(have, want)
    if len(fitting) > 1 and wanted_layout in fitting:
        fitting = [wanted_layout]
    if not fitting:
        raise Unsettled(f"{BLOCKED} {list(have)} here, {list(want)} on the other side, which does not fit")
    if len(fitting) > 1:
        raise Unsettled(f"{BLOCKED} {list(have)} fits as NCHW and as NHWC; give -m quant.onnx, which states it")
    whole = have[1] * have[4]
    merged = (want[0], whole, *want[2:]) if fitting[0] == "NCHW" else (*want[:3], whole)
    cut = f", {whole} channels cut to {want[1] if fitting[0] == 'NCHW' else want[3]}" if merged != want else ""
    return Arrangement(have, BLOCK_ORDERS[fitting[0]], want, f"{BLOCKED} to {fitting[0]}{cut}", merged)


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
