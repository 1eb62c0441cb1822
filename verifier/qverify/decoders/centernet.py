"""CenterNet: peaks of a heatmap per class, with maps of sizes and offsets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.levels import find_rows, group_by_channels, make_levels, refuse, squeeze_batch
from qverify.decoders.parts.results import Boxes
from qverify.decoders.parts.selection import Candidates, from_centres, grid_parts, select
from qverify.decoders.parts.settings import Settings

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
NAME = "centernet"
RESULT = "boxes"
DEFAULTS = Settings(strides=(4,), nms="none", top=100, multi_label=True, activation="none", clip=True)


def candidates(outputs: Outputs, settings: Settings) -> Candidates:
    """Returns the candidates of a heatmap (C channels), sizes and offsets (2 channels each, in cells, in this order or
    named). A value that is not the highest of its 3 x 3 neighbours counts as lowest. One box per cell and class."""
    plain = squeeze_batch(outputs)
    size = settings.size if settings.size != (0, 0) else _find_size(plain, settings)
    levels = make_levels(size, settings.strides)
    rows = find_rows(plain, levels, settings)
    two = group_by_channels(rows).get(2, [])
    if len(rows) == 3 and len(two) == 3:
        two = [r for r in rows if not any(word in r.name.lower() for word in ("hm", "heat", "cls"))][-2:]
    if len(rows) != 3 or len(two) != 2 or len(levels) != 1:
        raise refuse(outputs, "a heatmap of the classes, and two maps of 2 channels (size, offset) as large")
    heat = next(r for r in rows if all(r is not other for other in two))
    named = [r for r in two if any(word in r.name.lower() for word in ("reg", "off"))]
    offset = named[0] if len(named) == 1 else two[1]
    extent = next(r for r in two if r is not offset)
    high, wide = levels[0].height, levels[0].width
    values = np.asarray(heat.values, np.float64)
    if settings.peaks:
        values = keep_peaks(values.reshape(high, wide, -1)).reshape(high * wide, -1)
    moved = 0.0 if math.isnan(settings.grid_offset) else settings.grid_offset
    stride = settings.strides[0]

    def boxes(index: Array) -> Array:
        cell = np.stack([index % wide, index // wide], axis=1)
        centre = cell + np.asarray(offset.values[index], np.float64) + moved
        return from_centres(centre * stride, np.asarray(extent.values[index], np.float64) * stride)

    numbers = np.concatenate([offset.values, extent.values], axis=1)
    return Candidates(values, boxes, size, parts=grid_parts(numbers, levels))


def decode(outputs: Outputs, settings: Settings) -> Boxes:
    """Returns the detections."""
    return select(candidates(outputs, settings), settings)


def keep_peaks(heat: Array) -> Array:
    """Returns the heatmap (H, W, C) with -inf where a value of its 3 x 3 neighbours is higher."""
    best = heat
    for axis in (0, 1):
        wider = best.copy()
        one, rest = [slice(None)] * 3, [slice(None)] * 3
        one[axis], rest[axis] = slice(1, None), slice(None, -1)
        np.maximum(wider[tuple(one)], best[tuple(rest)], out=wider[tuple(one)])
        np.maximum(wider[tuple(rest)], best[tuple(one)], out=wider[tuple(rest)])
        best = wider
    return np.where(heat == best, heat, -np.inf)


def _find_size(plain: Mapping[str, Array], settings: Settings) -> tuple[int, int]:
    """Returns the input's size that the maps have in common, by the layout."""
    maps = {(v.shape[1:] if settings.layout == "NCHW" else v.shape[:2]) for v in plain.values() if v.ndim == 3}
    if len(maps) != 1 or len(settings.strides) != 1:
        raise refuse(plain, "maps of one size, and one stride; or give size=WIDTHxHEIGHT")
    ((high, wide),) = maps
    return wide * settings.strides[0], high * settings.strides[0]
