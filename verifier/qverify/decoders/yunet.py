"""YuNet, a face detector: class score, objectness, box and five keypoints per cell of three levels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.decoders.parts.levels import (
    find_rows,
    find_size,
    group_by_channels,
    join_levels,
    make_centres,
    make_levels,
    refuse,
    split_scores,
    squeeze_batch,
)
from qverify.decoders.parts.results import Boxes
from qverify.decoders.parts.selection import Candidates, from_centres, grid_parts, select
from qverify.decoders.parts.settings import Settings

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
NAME = "yunet"
RESULT = "boxes"
DEFAULTS = Settings(fit="stretch", score=0.6, score_equal=True, iou=0.3, clip=False)


def candidates(outputs: Outputs, settings: Settings) -> Candidates:
    """Returns the candidates: score sqrt(class * objectness) of values limited to 0..1, centre (cell + xy) * stride, size
    exp(wh) * stride, keypoints (cell + xy) * stride."""
    plain = squeeze_batch(outputs)
    size = find_size(plain, settings)
    levels = make_levels(size, settings.strides)
    by_channels = group_by_channels(find_rows(plain, levels, settings))
    if sorted(by_channels) != [1, 4, 10] or len(by_channels[1]) != 2 * len(levels):
        raise refuse(outputs, "for each level a class score, an objectness, 4 numbers of the box, 10 of the keypoints")
    obj, cls = split_scores(by_channels[1])
    score, objectness = join_levels(cls, levels, "class scores"), join_levels(obj, levels, "objectness")
    box, points = join_levels(by_channels[4], levels, "boxes"), join_levels(by_channels[10], levels, "keypoints")
    centres, strides = make_centres(levels, 0.0 if math.isnan(settings.grid_offset) else settings.grid_offset)

    def boxes(index: Array) -> Array:
        part, stride = np.asarray(box[index], np.float64), strides[index, None]
        with np.errstate(over="ignore"):
            extent = functions64.exp(part[:, 2:]) * stride
        return from_centres((part[:, :2] + centres[index]) * stride, extent)

    def keypoints(index: Array) -> Array:
        part = np.asarray(points[index], np.float64).reshape(len(index), 5, 2)
        return (part + centres[index][:, None]) * strides[index][:, None, None]

    limited = (
        np.clip(np.asarray(score, np.float64), 0.0, 1.0),
        np.clip(np.asarray(objectness[:, 0], np.float64), 0.0, 1.0),
    )
    return Candidates(limited[0], boxes, size, limited[1], keypoints, combine="root", parts=grid_parts(box, levels))


def decode(outputs: Outputs, settings: Settings) -> Boxes:
    """Returns the detections with their keypoints: eyes, nose, corners of the mouth."""
    return select(candidates(outputs, settings), settings)
