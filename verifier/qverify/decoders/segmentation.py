"""Segmentation: the class of each pixel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.functions import logit
from qverify.decoders.parts.levels import find_channels, refuse, squeeze_batch
from qverify.decoders.parts.results import Mask
from qverify.decoders.parts.selection import find_placement
from qverify.decoders.parts.settings import Settings

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
NAME = "segmentation"
RESULT = "mask"
DEFAULTS = Settings(score=0.5)
PLACES: dict[
    str, Callable[[Array, int, int], Array]
] = {  # of pixels of the target, by the lengths of source and target
    "nearest": lambda i, source, target: np.floor(i * (source / target)),
    "nearest-centre": lambda i, source, target: np.floor((i + 0.5) * (source / target)),
    "nearest-round": lambda i, source, target: np.floor(i * (source / target) + 0.5),
    "nearest-corners": lambda i, source, target: np.floor(i * ((source - 1) / max(target - 1, 1)) + 0.5),
    "bilinear": lambda i, source, target: (i + 0.5) * (source / target) - 0.5,
    "bilinear-corners": lambda i, source, target: i * ((source - 1) / max(target - 1, 1)),
    "bilinear-asymmetric": lambda i, source, target: i * (source / target),
}


def decode(outputs: Outputs, settings: Settings) -> Mask:
    """Returns the class with the highest value of each pixel, of equal values the lowest, of one output (1, C, H, W) or
    (1, H, W, C); of one channel, 1 where its value is above `score` (with activation=sigmoid: its sigmoid); of integers
    (1, H, W), these. With `resize` the mask is as large as the picture, by the places of PLACES. Stretched: in one step (as
    words of bilinear: of the values, before the best class). With a letterbox, or `through_input`: to the input's size,
    there the best class, cut, and its labels to the picture's size by the nearest pixel."""
    plain = squeeze_batch(outputs)
    value = next(iter(plain.values())) if len(plain) == 1 else np.zeros(0)
    if value.ndim not in (2, 3) or not value.size:
        raise refuse(outputs, "one output, (1, C, H, W), (1, H, W, C) or integers (1, H, W)")
    if value.ndim == 2 and value.dtype.kind in "iu":
        return Mask(_to_picture(value.astype(np.int64), settings))
    value = value[None] if value.ndim == 2 else value
    planes = value if find_channels(value, settings) == 0 else np.moveaxis(value, 2, 0)
    if settings.resize.startswith("bilinear") and settings.size != (0, 0):
        at_once = _is_one_step(settings)
        planes = _resize(np.asarray(planes, np.float64), settings.frame if at_once else settings.size, settings.resize)
        if at_once:
            return Mask(_find_labels(planes, settings))
    return Mask(_to_picture(_find_labels(planes, settings), settings))


def _find_labels(planes: Array, settings: Settings) -> Array:
    if len(planes) > 1:
        if 0 <= settings.background < len(planes):
            planes = np.delete(planes, settings.background, axis=0)
        return planes.argmax(axis=0).astype(np.int64)
    least = logit(settings.score) if settings.activation == "sigmoid" else settings.score
    return (np.asarray(planes[0], np.float64) > least).astype(np.int64)


def _resize(planes: Array, size: tuple[int, int], how: str) -> Array:
    """Returns planes (..., H, W) resized to a width and height by the places of PLACES, the edge repeated."""
    for axis, target in ((planes.ndim - 2, size[1]), (planes.ndim - 1, size[0])):
        source = planes.shape[axis]
        place = PLACES[how](np.arange(target, dtype=np.float64), source, target)
        place = np.clip(place, 0.0, source - 1.0)
        low = np.floor(place).astype(np.int64)
        if how.startswith("nearest"):
            planes = planes.take(low, axis)
            continue
        part = (place - low).reshape([-1 if at == axis else 1 for at in range(planes.ndim)])
        high = np.minimum(low + 1, source - 1)
        planes = planes.take(low, axis) * (1.0 - part) + planes.take(high, axis) * part
    return planes


def _is_one_step(settings: Settings) -> bool:
    """Returns whether a mask is resized from its own size to the picture's: nothing is cut between."""
    return settings.fit == "stretch" and settings.frame != (0, 0) and not settings.through_input


def _to_picture(labels: Array, settings: Settings) -> Array:
    """Returns labels in the size of the picture, if the settings say so."""
    if not settings.resize or settings.size == (0, 0) or settings.frame == (0, 0):
        return labels
    near = settings.resize if settings.resize.startswith("nearest") else "nearest"
    if _is_one_step(settings):
        return _resize(labels, settings.frame, near)
    labels = _resize(labels, settings.size, near)
    if settings.fit != "stretch":
        placement = find_placement(settings.size, settings)
        x, y = (int(p) for p in placement.pad)
        wide, high = (round(side * r) for side, r in zip(settings.frame, placement.ratio, strict=True))
        labels = labels[y : y + high, x : x + wide]
    return _resize(labels, settings.frame, near)
