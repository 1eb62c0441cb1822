"""Finds out which output is what by its shape: the rows of anchors, their level, and the channels of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.settings import Settings
from qverify.errors import UsageError

Array = npt.NDArray[Any]
MAX_ELEMENTS = 1 << 28
ALL = -1  # in place of a level: the rows of all levels, one after another


@dataclass(frozen=True, slots=True)
class Level:
    """A level of the grid: its stride in input pixels, and its width and height in cells."""

    stride: int
    width: int
    height: int

    @property
    def cells(self) -> int:
        return self.width * self.height


@dataclass(frozen=True, slots=True)
class Rows:
    """An output as rows. name: of the output. level: index of its level, ALL for all levels. values: (rows, channels);
    the row of a cell is that of its place, row by row. is_map: whether it has an axis each of rows and columns."""

    name: str
    level: int
    values: Array
    is_map: bool = False

    @property
    def channels(self) -> int:
        return int(self.values.shape[1])


def make_levels(size: tuple[int, int], strides: tuple[int, ...]) -> tuple[Level, ...]:
    """Returns the levels of an input of this width and height."""
    return tuple(Level(s, -(-size[0] // s), -(-size[1] // s)) for s in strides)


def find_size(outputs: Mapping[str, Array], settings: Settings, anchors: int = 1) -> tuple[int, int]:
    """Returns width and height of the network's input: as stated, or else of maps that follow each other by strides, or
    of a square input with the number of rows that an output has. anchors: per cell. Raises UsageError if neither
    tells."""
    if settings.size != (0, 0):
        return settings.size
    shapes = [_without_batch(value).shape for value in outputs.values()]
    low = min(settings.strides)
    for shape in shapes:
        for high, wide in (shape[-2:], shape[-3:-1]) if len(shape) >= 3 else ():
            grids = make_levels((wide * low, high * low), settings.strides)
            sizes = {(g.height, g.width) for g in grids}
            if sizes <= {s[-2:] for s in shapes} | {s[-3:-1] for s in shapes}:
                return wide * low, high * low
    sides = {side for shape in shapes for side in shape}
    for rows in sorted(sides, reverse=True):
        square = find_square(rows, settings.strides, anchors)
        finest = isqrt(rows // anchors) * low
        counts = {level.cells * anchors for level in make_levels((finest, finest), settings.strides)}
        if square or (rows in counts and counts <= sides):
            return (square, square) if square else (finest, finest)
    raise UsageError(
        f"decoder: the input's size does not follow from the outputs ({_say_shapes(outputs)}); give size=WIDTHxHEIGHT"
    )


def find_square(rows: int, strides: tuple[int, ...], anchors: int = 1) -> int:
    """Returns the side of the square input with this number of rows in all, 0 if there is none."""
    step = max(strides)
    per_step = sum((step // s) * (step // s) for s in strides) * anchors
    side = isqrt(rows // per_step) * step
    return side if side and sum(level.cells for level in make_levels((side, side), strides)) * anchors == rows else 0


def find_rows(
    outputs: Mapping[str, Array], levels: tuple[Level, ...], settings: Settings, per_cell: int = 1
) -> list[Rows]:
    """Returns the outputs as rows of anchors. per_cell: anchors of each cell in outputs that have an axis of rows. Raises
    UsageError for an output that fits no level."""
    return [_make_rows(name, _without_batch(value), levels, settings, per_cell) for name, value in outputs.items()]


def _make_rows(name: str, value: Array, levels: tuple[Level, ...], settings: Settings, per_cell: int) -> Rows:
    found = list(_list_readings(value, levels, per_cell))
    if not found:
        grids = ", ".join(f"{g.width}x{g.height}" for g in levels)
        total = sum(g.cells for g in levels) * per_cell
        raise UsageError(
            f"decoder: output {name} {_say_shape(value)} has neither a map ({grids}) nor rows ({total}) of the levels; "
            "give size=WIDTHxHEIGHT and strides, or another decoder"
        )
    layout = min(
        found, key=lambda f: (f[1] != ALL, f[0] != settings.layout)
    )  # as many channels as anchors: no head has
    return Rows(name, layout[1], layout[2], value.ndim == 3)


def _list_readings(value: Array, levels: tuple[Level, ...], per_cell: int) -> Iterator[tuple[str, int, Array]]:
    """Yields layout, level and rows of each way to read an output."""
    shape = value.shape
    if len(shape) == 1:
        value = value[:, None]
    if len(shape) == 3:
        for at, grid in enumerate(levels):
            if shape[1:] == (grid.height, grid.width):
                yield "NCHW", at, value.reshape(shape[0], -1).T
            if shape[:2] == (grid.height, grid.width):
                yield "NHWC", at, value.reshape(-1, shape[2])
    elif len(shape) in (1, 2):
        counts = {grid.cells * per_cell: at for at, grid in reversed([*enumerate(levels)])}
        if len(levels) > 1:
            counts[sum(grid.cells for grid in levels) * per_cell] = ALL
        if value.shape[0] in counts:
            yield "NHWC", counts[value.shape[0]], value
        if value.shape[1] in counts:
            yield "NCHW", counts[value.shape[1]], value.T


def _without_batch(value: Array) -> Array:
    """Returns the array without a leading axis of 1, as real values. Raises UsageError for a larger batch, or an array
    that is no array of numbers."""
    if value.dtype.kind not in "fiu" or value.size > MAX_ELEMENTS:
        raise UsageError(f"decoder: an output of {value.dtype} {_say_shape(value)}: wanted real numbers")
    return value[0] if value.ndim > 1 and value.shape[0] == 1 else value


def squeeze_batch(outputs: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the outputs without their leading axis of 1. Raises UsageError for an output without numbers."""
    return {name: _without_batch(np.asarray(value)) for name, value in outputs.items()}


def join_levels(parts: list[Rows], levels: tuple[Level, ...], what: str) -> Array:
    """Returns the rows of all levels, one after another, of outputs that are one each or one for all. what: what they
    are, for the error. Raises UsageError if a level is missing or there twice."""
    if [p.level for p in parts] == [ALL] or len(levels) == len(parts) == 1:
        return parts[0].values
    by_level = {p.level: p.values for p in parts}
    if sorted(by_level) != list(range(len(levels))) or len(parts) != len(levels):
        names = ", ".join(p.name for p in parts) or "none"
        raise UsageError(
            f"decoder: {what}: wanted one output for each of {len(levels)} levels, or one for all; got {names}"
        )
    return np.concatenate([by_level[at] for at in range(len(levels))])


def group_by_channels(rows: list[Rows]) -> dict[int, list[Rows]]:
    """Returns the outputs by their number of channels, each in the order in which they are given."""
    ordered = sorted(rows, key=lambda r: r.channels)
    return {channels: list(group) for channels, group in groupby(ordered, lambda r: r.channels)}


@lru_cache(maxsize=64)
def make_centres(levels: tuple[Level, ...], offset: float) -> tuple[Array, Array]:
    """Returns x, y of every cell in cells (float64 (rows, 2)), offset from the cell's corner, and its stride (rows,)."""
    centres, strides = [], []
    for grid in levels:
        y, x = np.mgrid[0 : grid.height, 0 : grid.width]
        centres.append(np.stack([x.reshape(-1), y.reshape(-1)], axis=1) + offset)
        strides.append(np.full(grid.cells, grid.stride, np.float64))
    both = np.concatenate(centres).astype(np.float64), np.concatenate(strides)
    for array in both:
        array.setflags(write=False)  # the same arrays are returned again
    return both


def _say_shape(value: Array) -> str:
    return "x".join(map(str, value.shape)) or "scalar"


def _say_shapes(outputs: Mapping[str, Array]) -> str:
    return ", ".join(f"{name} {_say_shape(value)}" for name, value in list(outputs.items())[:8])


def refuse(outputs: Mapping[str, Array], wanted: str) -> UsageError:
    """Returns the error for outputs whose shapes do not fit a decoder. wanted: what fits."""
    return UsageError(f"decoder: the outputs are {_say_shapes(outputs) or 'none'}; wanted {wanted}")


def find_channels(value: Array, settings: Settings) -> int:
    """Returns the axis of the channels, 0 or 2: that with the stated number of classes, else the shorter one; if both fit,
    the layout decides."""
    first, last = (
        (value.shape[0] == settings.classes, value.shape[2] == settings.classes)
        if settings.classes
        else (value.shape[0] < value.shape[2], value.shape[2] < value.shape[0])
    )
    if first != last:
        return 0 if first else 2
    return 0 if settings.layout == "NCHW" else 2


def split_scores(rows: list[Rows]) -> tuple[list[Rows], list[Rows]]:
    """Returns objectness and class scores of outputs with one channel: by their names, else the first of each level is the
    class score."""
    named = [r for r in rows if "obj" in r.name.lower()]
    if len(named) * 2 == len(rows):
        return named, [r for r in rows if "obj" not in r.name.lower()]
    first: dict[int, Rows] = {}
    for row in rows:
        first.setdefault(row.level, row)
    return [r for r in rows if r is not first[r.level]], list(first.values())
