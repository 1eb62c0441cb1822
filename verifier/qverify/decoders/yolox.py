"""YOLOX: one box per cell with an objectness; the centre and the logarithm of the size in strides."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
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
    split_scores,
    squeeze_batch,
)
from qverify.decoders.parts.results import Boxes
from qverify.decoders.parts.selection import Candidates, from_centres, grid_parts, select
from qverify.decoders.parts.settings import Settings

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
NAME = "yolox"
RESULT = "boxes"
DEFAULTS = Settings(fit="letterbox-top-left")


def candidates(outputs: Outputs, settings: Settings) -> Candidates:
    """Returns the candidates of (1, N, 5 + C) for all levels, or of one output (5 + C channels) per level: x, y, log w,
    log h, objectness, class scores. The network applies the sigmoid itself, unless activation=sigmoid."""
    plain = squeeze_batch(outputs)
    size = find_size(plain, settings)
    levels = make_levels(size, settings.strides)
    by_channels = group_by_channels(find_rows(plain, levels, settings))
    values = _join(by_channels, levels, settings)
    if values is None:
        raise refuse(outputs, f"5 numbers and {settings.classes or 'the'} class scores, together or as three outputs")
    centres, strides = make_centres(levels, 0.0 if math.isnan(settings.grid_offset) else settings.grid_offset)

    def boxes(index: Array) -> Array:
        part, stride = np.asarray(values[index, :4], np.float64), strides[index, None]
        with np.errstate(over="ignore"):
            extent = functions64.exp(part[:, 2:]) * stride
        return from_centres((part[:, :2] + centres[index]) * stride, extent)

    return Candidates(values[:, 5:], boxes, size, values[:, 4], parts=grid_parts(values[:, :4], levels))


def _join(by_channels: dict[int, list[Rows]], levels: tuple[Level, ...], settings: Settings) -> Array | None:
    """Returns the rows (N, 5 + C) of outputs that hold them together, or box, objectness and classes apart; None for
    others."""
    wide = settings.classes
    if len(by_channels) == 1:
        ((channels, rows),) = by_channels.items()
        return join_levels(rows, levels, "heads") if channels > 5 and wide in (0, channels - 5) else None
    if len(by_channels) == 2 and 1 in by_channels and 4 in by_channels and wide in (0, 1):  # one class, or 4
        objectness, scores = split_scores(by_channels[1])
        parts = [by_channels[4], objectness, scores]
    elif len(by_channels) == 2 and 1 in by_channels and 4 in by_channels:
        named = [r for r in by_channels[4] if any(word in r.name.lower() for word in ("cls", "class", "score", "conf"))]
        parts = [[r for r in by_channels[4] if all(r is not n for n in named)], by_channels[1], named]
    elif len(by_channels) == 3 and 1 in by_channels and 4 in by_channels and wide in (0, max(by_channels)):
        (channels,) = by_channels.keys() - {1, 4}
        parts = [by_channels[4], by_channels[1], by_channels[channels]]
    else:
        return None
    return np.concatenate([join_levels(p, levels, "box, objectness, classes") for p in parts], axis=1)


def decode(outputs: Outputs, settings: Settings) -> Boxes:
    """Returns the detections."""
    return select(candidates(outputs, settings), settings)
