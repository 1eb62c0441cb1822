"""The ways in which a side may give a tensor's elements in another order: axes, blocks of channels, reversals, channels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations
from math import prod

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.functions64 import log2_of
from qverify.tensors.recording import Array

Shape = tuple[int, ...]
Real = npt.NDArray[np.float64]
BLOCKS = (4, 8, 16, 32, 64)  # channels in a block
MOST_AXES = 5  # that have more than one element
MOST_CHANNELS = 1024
SAMPLED = 64  # elements by which channels are matched
LAYOUTS = {(0, 2, 3, 1): ("NHWC", "NCHW"), (0, 3, 1, 2): ("NCHW", "NHWC"), (0, 2, 1): ("NWC", "NCW")}


@dataclass(frozen=True, slots=True)
class Order:
    """One way to read the values of side b, so that their order is that of side a.

    Attributes:
        words: the order in words.
        advice: the next step, or "".
        view: side b's values, with the axes of side a; the axis of the channels is two axes if `block` is set.
        axis, block: axis of the channels, and channels in a block, of which the last may have padding; 0 if there are
            no blocks.
        choice_bits: how many bits it takes to choose the order among those of its kind.
        values: number of different values in the parts that are in other places, if they are known apart.
    """

    words: str
    advice: str
    view: Array
    axis: int = 0
    block: int = 0
    choice_bits: float = 0.0
    values: int | None = None

    def take(self, places: tuple[Array, ...]) -> Array:
        """Returns the elements at the places (indices along each axis of side a)."""
        if not self.block:
            return self.view[places]
        channel = places[self.axis].astype(np.int64)
        split = (channel // self.block, channel % self.block)
        return self.view[(*places[: self.axis], *split, *places[self.axis + 1 :])]

    def whole(self, shape: Shape) -> Array:
        """Returns all elements, without padding, in the order of side a."""
        if not self.block:
            return self.view
        merged = self.view.reshape(*shape[: self.axis], -1, *shape[self.axis + 1 :])
        return merged[(slice(None),) * self.axis + (slice(shape[self.axis]),)]


def list_orders(values: Array, shape: Shape) -> Iterator[Order]:
    """Yields the orders in which side b may have stored a tensor of this shape, the simplest first, without the order
    in which it should be. values: side b's values, of any shape."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.size == prod(shape) and sum(d > 1 for d in shape) <= MOST_AXES:
        yield from _list_transposed(flat, shape)
    yield from _list_blocks(flat, shape)
    if flat.size == prod(shape):
        yield from _list_reversed(flat.reshape(shape))


def _list_transposed(flat: Array, shape: Shape) -> Iterator[Order]:
    plain = [i for i, d in enumerate(shape) if d > 1]
    seen, twice = {tuple(plain)}, list[Order]()
    known = [p for p in LAYOUTS if len(p) == len(shape)]
    for order in (*known, *permutations(range(len(shape)))):
        moved = tuple(i for i in order if shape[i] > 1)
        if moved in seen:
            continue
        seen.add(moved)
        back = tuple(int(i) for i in np.argsort(order))
        stored = tuple(shape[i] for i in order)
        name, own = LAYOUTS.get(order, ("", ""))
        words = f"its axes are {_spell(order)}" + (f" ({own} stored as {name})" if name else "")
        advice = f'write it as {own}, or declare shape = {list(stored)} and layout = "{name}" in a dump.toml'
        advice += f", or give --layout {name}" if len(stored) == 4 else ""
        yield Order(words, advice if name else "", flat.reshape(stored).transpose(back))
        if name:  # a reader moved the axes, although they were in order
            words = f"its memory was taken as {list(stored)} and moved by axes {_spell(back)}"
            twice.append(Order(words, "", flat.reshape(shape).transpose(order).reshape(shape)))
    yield from twice


def _spell(order: Shape) -> str:
    return " ".join(map(str, order))


def _list_blocks(flat: Array, shape: Shape) -> Iterator[Order]:
    """Yields the orders with the channels in blocks, the innermost in memory: N, C1, the other axes, C2."""
    places = {1: (0, *range(2, len(shape))), len(shape) - 1: tuple(range(len(shape) - 1))} if len(shape) > 2 else {}
    for axis, others in places.items():
        channels, rest = shape[axis], [shape[i] for i in others]
        for block in BLOCKS:
            outer = -(-channels // block)
            stored = (rest[0], outer, *rest[1:], block)
            if flat.size != prod(stored) or prod(stored) == 0:
                continue
            whole = flat.reshape(stored)
            view = np.moveaxis(np.moveaxis(whole, 1, axis), -1, axis + 1)
            padding = f", {channels} channels padded to {outer * block}" if outer * block > channels else ""
            words = f"its channels are in blocks of {block} (NC1HWC2{padding})"
            advice = f'declare shape = {list(stored)} and layout = "NC1HWC2" in a dump.toml' if len(shape) == 4 else ""
            yield Order(words, advice, view, axis, block)


def _list_reversed(value: Array) -> Iterator[Order]:
    axes = [i for i, d in enumerate(value.shape) if d > 1][:MOST_AXES]
    for size in range(1, len(axes) + 1):
        for some in combinations(axes, size):
            which = "axis" if size == 1 else "axes"
            words = "it is reversed" if len(axes) == 1 else f"it is reversed along {which} {_spell(some)}"
            yield Order(words, "", np.flip(value, some))


def match_channels(wanted: Real, value: Real, tolerance: float) -> Iterator[Order]:
    """Yields the orders in which the channels, or the positions along the last axis, are exchanged, found by comparing channels of both sides. wanted, value:
    values of sides a and b, of one shape, as float64. tolerance: as in order.find_order()."""
    for axis in dict.fromkeys((1, wanted.ndim - 1)) if wanted.ndim > 1 else ():
        channels = wanted.shape[axis]
        if not 2 <= channels <= MOST_CHANNELS or wanted.size == channels:
            continue  # with one element in each channel, any order of equal elements were one of channels
        rows, given = (np.moveaxis(v, axis, 0).reshape(channels, -1) for v in (wanted, value))
        places = np.unique(np.linspace(0, rows.shape[1] - 1, SAMPLED).astype(np.int64))
        chosen = _assign(rows[:, places], given[:, places], tolerance)
        if chosen is None or chosen == list(range(channels)):
            continue
        moved = [i for i, c in enumerate(chosen) if i != c]
        shown = ", ".join(f"{i} holds {chosen.index(i)}" for i in moved[:4])
        more = f" and {len(moved) - 4} more" if len(moved) > 4 else ""
        what = f"channels (axis {axis})" if axis == 1 or wanted.ndim < 4 else f"positions along axis {axis}"
        words = f"its {what} are in another order: {shown}{more}"
        values = sum(count_values(rows[i], tolerance) for i in moved)
        yield Order(words, "", np.take(value, chosen, axis), choice_bits=len(moved) * log2_of(channels), values=values)


def count_values(values: Real, tolerance: float) -> int:
    """Returns the number of values that differ by more than the tolerance. values: as float64."""
    return len(np.unique(np.floor(values / (2 * tolerance)) if tolerance else values))


def _assign(wanted: Real, given: Real, tolerance: float) -> list[int] | None:
    """Returns for each wanted row the given row that is like it, each used once, its own row if that is like it; None
    if a row has none."""
    channels = len(wanted)
    left = set(range(channels))
    chosen = [-1] * channels
    alike = [np.mean(np.abs(given - row) <= tolerance, axis=1) >= 0.9 for row in wanted]
    for i in (i for i in range(channels) if alike[i][i]):
        chosen[i] = i
        left.discard(i)
    for i in (i for i in range(channels) if chosen[i] < 0):
        free = [c for c in sorted(left) if alike[i][c]]
        if not free:
            return None
        chosen[i] = min(free, key=lambda c: float(np.abs(given[c] - wanted[i]).sum()))
        left.discard(chosen[i])
    return chosen
