"""YOLOv8, YOLO11 and others without anchors: boxes of the network (4 + classes rows), or raw heads with DFL."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.functions import sigmoid, softmax
from qverify.decoders.parts.levels import (
    Level,
    Rows,
    find_rows,
    find_size,
    group_by_channels,
    join_levels,
    make_centres,
    make_levels,
    refuse,
    squeeze_batch,
)
from qverify.decoders.parts.results import Boxes
from qverify.decoders.parts.selection import Candidates, from_centres, grid_parts, select
from qverify.decoders.parts.settings import Settings

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
NAME = "yolov8"
ALSO = ("yolo11", "yolov9")
RESULT = "boxes"
DEFAULTS = Settings()


def candidates(outputs: Outputs, settings: Settings) -> Candidates:
    """Returns the candidates. Decoded: centre, width and height in input pixels, then probabilities. Raw: 4 * reg_max bins
    (left, top, right, bottom) and class logits, in one output per level, in two, or in one or two for all levels."""
    plain = squeeze_batch(outputs)
    size = find_size(plain, settings)
    levels = make_levels(size, settings.strides)
    rows = find_rows(plain, levels, settings)
    regression, scores, decoded = _split(rows, levels, settings, outputs)
    before = regression if _are_joined(rows) else None
    if decoded:
        unit = np.tile(np.array(size, np.float64), 2) if settings.shares else 1.0
        return Candidates(scores, lambda i: from_centres(*_halves(regression[i])) * unit, size, before=before)
    centres, strides = make_centres(levels, 0.5 if math.isnan(settings.grid_offset) else settings.grid_offset)

    def boxes(index: Array) -> Array:
        away = _expect(regression[index], settings.reg_max, settings.dfl)
        both = np.concatenate([centres[index] - away[:, :2], centres[index] + away[:, 2:]], axis=1)
        return both * strides[index, None]

    parts = grid_parts(regression, levels)
    return Candidates(scores, boxes, size, activation="sigmoid", parts=parts, before=before)


def decode(outputs: Outputs, settings: Settings) -> Boxes:
    """Returns the detections."""
    return select(candidates(outputs, settings), settings)


def _halves(values: Array) -> tuple[Array, Array]:
    real = np.asarray(values, np.float64)
    return real[:, :2], real[:, 2:4]


def _expect(values: Array, bins: int, how: str) -> Array:
    """Returns the distance (K, 4), in cells, that the distributions of the four sides give."""
    if bins == 1:
        return np.asarray(values, np.float64)
    apart = np.asarray(values, np.float64).reshape(len(values), 4, bins)
    if how == "argmax":
        return apart.argmax(axis=2).astype(np.float64)
    if how == "sigmoid":
        apart, how = sigmoid(apart), "none"
    for _ in range({"softmax": 1, "softmax-twice": 2, "none": 0}[how]):
        apart = softmax(apart)
    return apart @ np.arange(bins, dtype=np.float64)


def _are_joined(rows: list[Rows]) -> bool:
    """Returns whether each output holds a box and its class scores: of each level there is one only."""
    return len({row.level for row in rows}) == len(rows)


def _split(
    rows: list[Rows], levels: tuple[Level, ...], settings: Settings, outputs: Outputs
) -> tuple[Array, Array, bool]:
    """Returns the rows of boxes, those of class scores, and whether the boxes are decoded."""
    by_channels = group_by_channels(rows)
    bins, per_level = 4 * settings.reg_max, len(rows) >= len(levels)
    wide = settings.classes
    if len(by_channels) == 1:
        (channels,) = by_channels
        joined = by_channels[channels]
        if channels in (4, bins) and len(joined) in (2, 2 * len(levels)):  # as many classes as numbers of a box
            boxes, scores = _part(joined)
            return join_levels(boxes, levels, "boxes"), join_levels(scores, levels, "class scores"), channels == 4
        values = join_levels(joined, levels, "heads")
        apart = len(joined) > 1 or joined[0].is_map  # the network's own boxes are in one output without a grid
        raw = channels > bins and (channels == bins + wide if wide else apart)
        edge = bins if raw else 4
        if channels <= edge or (wide and channels != edge + wide):
            raise refuse(outputs, f"{bins} or 4 numbers of the box and {wide or 'the'} class scores")
        return values[:, :edge], values[:, edge:], not raw
    edge = bins if bins in by_channels and (per_level or 4 not in by_channels) else 4
    boxes_of = by_channels.pop(edge, [])
    if len(by_channels) > 1:  # some exports add the sum of the scores
        by_channels.pop(1, None)
    if not boxes_of or len(by_channels) != 1 or (wide and wide not in by_channels):
        raise refuse(outputs, f"outputs of {bins} or 4 channels for boxes and of {wide or 'the'} classes")
    (scored,) = by_channels.values()
    return join_levels(boxes_of, levels, "boxes"), join_levels(scored, levels, "class scores"), edge == 4


def _part(rows: list[Rows]) -> tuple[list[Rows], list[Rows]]:
    """Returns boxes and class scores of outputs with as many channels: by their names, else the first of each level are
    boxes."""
    named = [r for r in rows if any(word in r.name.lower() for word in ("cls", "class", "score", "conf"))]
    if len(named) * 2 == len(rows):
        return [r for r in rows if all(r is not n for n in named)], named
    first: dict[int, Rows] = {}
    for row in rows:
        first.setdefault(row.level, row)
    return list(first.values()), [r for r in rows if r is not first[r.level]]
