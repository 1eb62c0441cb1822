"""SSD: offsets of priors and class scores with a background class, or detections that the network made itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.decoders.parts.levels import make_centres, make_levels, refuse, squeeze_batch
from qverify.decoders.parts.results import Boxes
from qverify.decoders.parts.selection import BoxParts, Candidates, from_centres, select
from qverify.decoders.parts.settings import Settings
from qverify.errors import UsageError

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
NAME = "ssd"
RESULT = "boxes"
DEFAULTS = Settings(fit="stretch", background=0, score=0.5, strides=(8, 16, 32, 64))


def candidates(outputs: Outputs, settings: Settings) -> Candidates:
    """Returns the candidates of offsets (1, N, 4) and class scores (1, N, C): centre prior + offset * variance * size of
    the prior, size exp(offset * variance) * size of the prior. Scores are probabilities unless activation says."""
    if settings.size == (0, 0):
        raise UsageError("decoder ssd: the input's size does not follow from the outputs; give size=WIDTHxHEIGHT")
    offsets, scores = _find_outputs(squeeze_batch(outputs), settings, outputs)
    priors = make_priors(settings)
    if len(priors) != len(offsets):
        raise UsageError(f"decoder ssd: {len(offsets)} rows, {len(priors)} priors; give priors, or anchors and strides")
    size = np.array(settings.size, np.float64)

    def boxes(index: Array) -> Array:
        part, prior = np.asarray(offsets[index], np.float64), priors[index]
        part = part if settings.order == "xywh" else part[:, [1, 0, 3, 2]]
        centre = prior[:, :2] + part[:, :2] * settings.variances[0] * prior[:, 2:]
        with np.errstate(over="ignore"):
            extent = prior[:, 2:] * functions64.exp(part[:, 2:] * settings.variances[1])
        return from_centres(centre * size, extent * size)

    def parts(index: Array) -> BoxParts:
        factors = np.repeat(np.array(settings.variances), 2)
        extent = priors[index, 2:] * size
        numbers = np.asarray(offsets[index], np.float64)
        numbers = numbers if settings.order == "xywh" else numbers[:, [1, 0, 3, 2]]
        return BoxParts(numbers * factors, priors[index, :2] * size, extent, extent)

    return Candidates(scores, boxes, settings.size, parts=parts)


def decode(outputs: Outputs, settings: Settings) -> Boxes:
    """Returns the detections."""
    return select(candidates(outputs, settings), settings)


def make_priors(settings: Settings) -> Array:
    """Returns the priors as cx, cy, w, h, shares of the input: those that are stated, or the anchors of every level at the
    centres of its cells, the anchors of a cell one after another. Raises UsageError without either."""
    if len(settings.priors):
        return settings.priors.values
    if not settings.anchors:
        raise UsageError("decoder ssd: no priors; give priors, or anchors for each of its strides")
    size, parts = np.array(settings.size, np.float64), []
    for level, anchors in zip(make_levels(settings.size, settings.strides), settings.anchors, strict=True):
        shapes = np.array(anchors, np.float64).reshape(-1, 2)
        centres, _ = make_centres((level,), 0.5 if math.isnan(settings.grid_offset) else settings.grid_offset)
        centres = np.repeat(centres * level.stride, len(shapes), axis=0)
        parts.append(np.concatenate([centres, np.tile(shapes, (level.cells, 1))], axis=1) / np.tile(size, 2))
    return np.concatenate(parts)


def _find_outputs(plain: Mapping[str, Array], settings: Settings, outputs: Outputs) -> tuple[Array, Array]:
    """Returns offsets (N, 4) and class scores (N, C), of which either may come transposed."""
    wanted = "offsets (N, 4) and class scores (N, C)"
    if len(plain) != 2 or any(v.ndim != 2 for v in plain.values()):
        raise refuse(outputs, wanted)
    first, second = plain.values()
    rows = max({*first.shape} & {*second.shape}, default=0)
    tables = [v if v.shape[0] == rows else v.T for v in (first, second)]
    if not rows or all(t.shape[1] != 4 for t in tables):
        raise refuse(outputs, wanted)
    offsets, scores = tables if tables[0].shape[1] == 4 else tables[::-1]
    if settings.classes and scores.shape[1] != settings.classes:
        raise refuse(outputs, f"{wanted} with {settings.classes} classes")
    return offsets, scores
