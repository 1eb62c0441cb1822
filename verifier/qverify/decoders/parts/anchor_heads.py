"""Heads with anchors: yolov3, yolov5, yolov7. Each row holds a box, its objectness and the scores of the classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.decoders.parts.functions import sigmoid
from qverify.decoders.parts.levels import (
    ALL,
    Level,
    find_rows,
    find_size,
    join_levels,
    make_centres,
    make_levels,
    refuse,
    squeeze_batch,
)
from qverify.decoders.parts.selection import BoxParts, Candidates, from_centres
from qverify.decoders.parts.settings import Settings

Array = npt.NDArray[Any]
BOX = 5  # numbers of a row before the class scores: x, y, w, h, objectness
Shape = Callable[[Array, bool], tuple[Array, Array]]


@dataclass(frozen=True, slots=True)
class AnchorRows:
    """Rows of all levels: first those of the first level, of each level those of its first anchor. values: (N, 5 + C).
    cells: x, y of the cell's corner in cells. strides: (N,). anchors: (N, 2), in input pixels."""

    values: Array
    cells: Array
    strides: Array
    anchors: Array


def read_candidates(outputs: Mapping[str, Array], settings: Settings, shape: Shape, offset: float) -> Candidates:
    """Returns the candidates of raw heads (1, anchors * (5 + C), h, w), (1, anchors, h, w, 5 + C) or their NHWC forms, or
    of boxes that the network decoded itself (1, N, 5 + C): centre, width and height in input pixels, probabilities.

    shape: returns the centre's place in its cell and the size relative to its anchor, of (K, 4) values and whether they
    still need their activation. offset: added to the centre's place, unless the settings state a grid_offset."""
    plain = squeeze_batch(outputs)
    each = len(settings.anchors[0]) // 2
    size = find_size(_flatten_anchors(plain, each), settings, each)
    levels = make_levels(size, settings.strides)
    decoded = _find_decoded(plain, levels, each)
    if decoded is not None:
        _check_channels(decoded, outputs, settings)
        values = decoded
        return Candidates(
            values[:, BOX:], lambda index: from_centres(*_halves(values[index])), size, values[:, 4], activation="none"
        )
    rows = _read_heads(plain, levels, settings, outputs)
    moved = offset if math.isnan(settings.grid_offset) else settings.grid_offset
    raw = (settings.box_activation or settings.activation) != "none"

    def boxes(index: Array) -> Array:
        place, scale = shape(np.asarray(rows.values[index, :4], np.float64), raw)
        centre = (place + moved + rows.cells[index]) * rows.strides[index, None]
        return from_centres(centre, scale * rows.anchors[index])

    def parts(index: Array) -> BoxParts:
        stride = np.repeat(rows.strides[index, None], 2, axis=1)
        numbers = np.asarray(rows.values[index, :4], np.float64)
        return BoxParts(numbers, rows.cells[index] * stride, stride, rows.anchors[index], not raw)

    return Candidates(rows.values[:, BOX:], boxes, size, rows.values[:, 4], activation="sigmoid", parts=parts)


def _halves(values: Array) -> tuple[Array, Array]:
    real = np.asarray(values[:, :4], np.float64)
    return real[:, :2], real[:, 2:4]


def _flatten_anchors(outputs: Mapping[str, Array], each: int) -> dict[str, Array]:
    """Returns heads (anchors, h, w, channels) as (anchors * channels, h, w), other outputs as they are."""
    return {
        name: np.moveaxis(v, 3, 1).reshape(-1, *v.shape[1:3]) if v.ndim == 4 and v.shape[0] == each else v
        for name, v in outputs.items()
    }


def _find_decoded(outputs: Mapping[str, Array], levels: tuple[Level, ...], each: int) -> Array | None:
    """Returns the rows (N, 5 + C) of an only output of all levels, else None."""
    total = sum(level.cells for level in levels) * each
    if len(outputs) != 1:
        return None
    (value,) = outputs.values()
    if value.ndim != 2 or total not in value.shape:
        return None
    return value if value.shape[0] == total else value.T


def _check_channels(rows: Array, outputs: Mapping[str, Array], settings: Settings) -> None:
    channels = rows.shape[1]
    if channels <= BOX or (settings.classes and channels != BOX + settings.classes):
        raise refuse(outputs, f"rows of 5 numbers and {settings.classes or 'the'} class scores")


def _read_heads(
    plain: Mapping[str, Array], levels: tuple[Level, ...], settings: Settings, outputs: Mapping[str, Array]
) -> AnchorRows:
    each = len(settings.anchors[0]) // 2
    found = find_rows(_flatten_anchors(plain, each), levels, settings)
    if any(rows.channels % each or rows.level == ALL for rows in found):
        raise refuse(outputs, f"an output for each of {len(levels)} levels, its channels a multiple of {each} anchors")
    join_levels(found, levels, "heads")
    parts, cells, strides, anchors = [], [], [], []
    for rows in sorted(found, key=lambda r: r.level):
        level = levels[rows.level]
        values = rows.values.reshape(level.cells, each, -1).transpose(1, 0, 2).reshape(each * level.cells, -1)
        _check_channels(values, outputs, settings)
        corner, stride = make_centres((level,), 0.0)
        parts.append(values)
        cells.append(np.tile(corner, (each, 1)))
        strides.append(np.tile(stride, each))
        anchors.append(
            np.repeat(np.array(settings.anchors[rows.level], np.float64).reshape(each, 2), level.cells, axis=0)
        )
    if len({part.shape[1] for part in parts}) != 1:
        raise refuse(outputs, "as many channels in each head")
    return AnchorRows(*(np.concatenate(part) for part in (parts, cells, strides, anchors)))


def by_squares(values: Array, raw: bool) -> tuple[Array, Array]:
    """Returns place and scale as yolov5 and yolov7 define them: 2 s(xy), (2 s(wh))^2; s is the sigmoid of raw values."""
    part = sigmoid(values) if raw else values
    return part[:, :2] * 2.0, (part[:, 2:] * 2.0) * (part[:, 2:] * 2.0)


def by_powers(values: Array, raw: bool) -> tuple[Array, Array]:
    """Returns place and scale as yolov3 defines them: s(xy), exp(wh)."""
    part = sigmoid(values[:, :2]) if raw else values[:, :2]
    with np.errstate(over="ignore"):
        return part, functions64.exp(values[:, 2:])
