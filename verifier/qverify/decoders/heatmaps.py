"""Keypoints from heatmaps: the place of the highest value of each map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.levels import find_channels, refuse, squeeze_batch
from qverify.decoders.parts.results import Boxes, Keypoints
from qverify.decoders.parts.selection import to_picture
from qverify.decoders.parts.settings import Settings

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
NAME = "heatmaps"
RESULT = "keypoints"
DEFAULTS = Settings(strides=(4,))


def decode(outputs: Outputs, settings: Settings) -> Keypoints:
    """Returns one point per map of (1, P, H, W) or (1, H, W, P): the first place of the highest value, moved a quarter of
    a cell towards the higher neighbour in x and y (`refine`; not on the border of the map), times the stride. `classes` states P."""
    plain = squeeze_batch(outputs)
    values = next(iter(plain.values())) if len(plain) == 1 else np.zeros(0)
    if values.ndim != 3 or not values.size or len(settings.strides) != 1:
        raise refuse(outputs, "one output (1, P, H, W) or (1, H, W, P), and one stride")
    maps = np.asarray(values if find_channels(values, settings) == 0 else np.moveaxis(values, 2, 0), np.float64)
    count, high, wide = maps.shape
    place = maps.reshape(count, -1).argmax(axis=1)
    y, x = np.divmod(place, wide)
    moved = np.stack([_lean(maps, y, x, 0, 1), _lean(maps, y, x, 1, 0)], axis=1) * settings.refine
    offset = 0.0 if np.isnan(settings.grid_offset) else settings.grid_offset
    stride = settings.strides[0]
    points = (np.stack([x, y], axis=1) + moved + offset) * stride
    size = settings.size if settings.size != (0, 0) else (wide * stride, high * stride)
    found = Boxes(np.zeros((1, 4)), np.zeros(1), np.zeros(1, np.int64), points[None])
    in_picture = to_picture(found, size, settings).keypoints
    assert in_picture is not None
    return Keypoints(in_picture[0], maps[np.arange(count), y, x])


def _lean(maps: Array, y: Array, x: Array, down: int, right: int) -> Array:
    """Returns the sign of the difference of the two neighbours of each place, 0 at the border of the map."""
    count, high, wide = maps.shape
    if high < 3 or wide < 3:
        return np.zeros(count)
    inside = (y > 0) & (y < high - 1) & (x > 0) & (x < wide - 1)
    at, y, x = np.arange(count), np.where(inside, y, 1), np.where(inside, x, 1)
    return np.where(inside, np.sign(maps[at, y + down, x + right] - maps[at, y - down, x - right]), 0.0)
