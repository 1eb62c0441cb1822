"""PP-OCR text detection (DB): regions of a probability map, as boxes that may be turned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.levels import refuse, squeeze_batch
from qverify.decoders.parts.regions import fit_rectangle, grow_rectangle, label_regions, mean_inside
from qverify.decoders.parts.results import Boxes, no_boxes
from qverify.decoders.parts.selection import to_picture
from qverify.decoders.parts.settings import Settings

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
NAME = "ppocr-det"
RESULT = "boxes"
DEFAULTS = Settings(score=0.6, fit="stretch", binary=0.3, unclip=1.5, top=1000, strides=(1,))
LEAST_SIDE = 3.0  # pixels of a region, and 2 more after it is grown


def decode(outputs: Outputs, settings: Settings) -> Boxes:
    """Returns the text boxes of one map (1, 1, H, W): connected regions (8 neighbours) above `binary`, each in the
    rectangle of least area around the centres of its pixels; left out if its mean probability is not above `score` or its
    shorter side is below 3; grown by area * unclip / perimeter on every side. In the order of their first pixel, row by
    row. The map may be smaller than the input by its stride."""
    plain = squeeze_batch(outputs)
    value = next(iter(plain.values())).squeeze() if len(plain) == 1 else np.zeros(0)
    if value.ndim != 2 or not value.size:
        raise refuse(outputs, "one map (1, 1, H, W)")
    heat = np.asarray(value, np.float64)
    quads, scores = [], []
    for pixels in label_regions(heat > settings.binary):
        corners = fit_rectangle(pixels[:, ::-1].astype(np.float64))
        if _shorter_side(corners) < LEAST_SIDE:
            continue
        score = mean_inside(heat, corners)
        grown = grow_rectangle(corners, settings.unclip)
        if score > settings.score and _shorter_side(grown) >= LEAST_SIDE + 2:
            quads.append(grown)
            scores.append(score)
    stride = settings.strides[0]
    size = settings.size if settings.size != (0, 0) else (heat.shape[1] * stride, heat.shape[0] * stride)
    if not quads:
        return no_boxes()
    corners = np.array(quads[: settings.top or None]) * stride
    upright = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    kept = np.array(scores[: settings.top or None])
    return to_picture(Boxes(upright, kept, np.zeros(len(kept), np.int64), None, corners), size, settings)


def _shorter_side(corners: Array) -> float:
    sides = np.diff(corners[:3], axis=0)
    return float(np.sqrt((sides * sides).sum(axis=1)).min())
