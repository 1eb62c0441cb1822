"""The axes of a vendor's tensor against those of the other side: which order fits, and whether only one does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

Shape = tuple[int, ...]
ORDERS: dict[int, dict[str, Shape]] = {
    4: {"NHWC to NCHW": (0, 3, 1, 2), "NCHW to NHWC": (0, 2, 3, 1)},
    3: {"NWC to NCW": (0, 2, 1)},
}
INNER = (4, 8, 16, 32, 64)  # elements the innermost dim is known to be aligned to


class Unsettled(Exception):
    """Why a tensor cannot be read for sure; it is missing then, never guessed."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """cut: valid shape inside the stored one; order: of its axes; shape: what it becomes. said: for the report, "" where
    nothing was moved."""

    cut: Shape
    order: Shape
    shape: Shape
    said: str = ""

    def axis(self, before: int) -> int:
        """Where an axis ends up. Unsettled where a reshape leaves no single place for it."""
        place, size = self.order.index(before), self.cut[before]
        rank = sum(self.cut[i] != 1 for i in self.order[:place])
        kept = [i for i, d in enumerate(self.shape) if d != 1]
        if size == 1 or rank >= len(kept):
            raise Unsettled("scales per channel, and the axis of the channels cannot be followed")
        return kept[rank]


def arrange_axes(have: Shape, want: Shape, layout: str, wanted_layout: str, loose_inner: bool = False) -> Arrangement:
    """The one arrangement of have that gives want. layout: of have, "" when the dump does not say; it is the same as the
    other side's then, if the shapes are. Unsettled where none or several do."""
    found = _fitting(have, want, layout)
    if not found and loose_inner and have:
        shorter = [(*have[:-1], d) for d in sorted(set(want)) if d < have[-1] and _rounds(d, have[-1])]
        found = [a for cut in shorter for a in _fitting(cut, want, layout)]
        found = [
            Arrangement(a.cut, a.order, a.shape, f"innermost dim {have[-1]} cut to {a.cut[-1]}, {a.said}".rstrip(", "))
            for a in found
        ]
    if len(found) > 1:
        found = _by_layout(found, layout, wanted_layout)
    if not found:
        raise Unsettled(f"shape {list(have)} here, {list(want)} on the other side, and no order of its axes fits")
    if len(found) > 1:
        raise Unsettled(f"shape {list(have)} fits as it is and transposed; -m quant.onnx tells the order of its axes")
    return found[0]


def padded_axes(size_bytes: int, item: int, want: Shape, inner: Callable[[int], int]) -> tuple[Shape, Shape]:
    """Valid and stored shape of raw aligned bytes: the one order of want's axes in which a padded innermost dim gives
    size_bytes. Unsettled where none or several do."""
    found: dict[tuple[Shape, Shape], str] = {}
    orders: dict[str, Shape] = {"": tuple(range(len(want))), **ORDERS.get(len(want), {})}
    for name, order in orders.items():
        shape = tuple(want[i] for i in order)
        stored = (*shape[:-1], inner(shape[-1] * item) // item) if shape else shape
        if prod(stored) * item == size_bytes:
            found.setdefault((shape, stored), name)
    if len(found) != 1:
        many = "in more than one order of the axes" if found else "in no known alignment"
        raise Unsettled(f"{size_bytes} bytes hold {list(want)} {many}; give -m, or the tensor without padding")
    return next(iter(found))


def _fitting(have: Shape, want: Shape, layout: str) -> list[Arrangement]:
    """Those that differ in what they do to the values: axes of one element make no difference."""
    moves = {n: o for n, o in ORDERS.get(len(have), {}).items() if n.startswith(layout)}
    orders: dict[str, Shape] = {"": tuple(range(len(have))), **moves}
    found: dict[Shape, Arrangement] = {}
    for name, order in orders.items():
        moved = tuple(have[i] for i in order)
        if _long(moved) == _long(want):
            said = name or ("" if have == want else f"{list(have)} taken as {list(want)}")
            key = tuple(i for i in order if have[i] != 1)
            found.setdefault(key, Arrangement(have, order, want, said))
    return list(found.values())


def _by_layout(found: list[Arrangement], layout: str, wanted: str) -> list[Arrangement]:
    if not layout or layout == wanted:
        as_it_is = [a for a in found if a.order == tuple(sorted(a.order))]
        return as_it_is or found
    return [a for a in found if a.said == f"{layout} to {wanted}"] or found


def _long(shape: Shape) -> Shape:
    return tuple(d for d in shape if d != 1)


def _rounds(valid: int, stored: int) -> bool:
    return any(-(-valid // step) * step == stored for step in INNER)
