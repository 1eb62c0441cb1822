"""The forms in which four numbers stand for a box."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def _columns(*columns: Array) -> Array:
    return np.stack(columns, axis=1) if len(columns[0]) else np.zeros((0, 4))


def to_xywh(b: Array) -> Array:
    """Returns x1, y1, width, height of x1, y1, x2, y2 (N, 4)."""
    return _columns(b[:, 0], b[:, 1], b[:, 2] - b[:, 0], b[:, 3] - b[:, 1])


def to_cxcywh(b: Array) -> Array:
    """Returns centre, width, height of x1, y1, x2, y2 (N, 4)."""
    return _columns((b[:, 0] + b[:, 2]) / 2, (b[:, 1] + b[:, 3]) / 2, b[:, 2] - b[:, 0], b[:, 3] - b[:, 1])


def order_corners(corners: Array) -> Array:
    """Returns the corners (N, 4, 2) of each box clockwise on the picture, from the one with the least x + y, of equal ones the
    least y: programs begin at different ones."""
    away = corners - corners.mean(axis=1, keepdims=True)
    turned = np.take_along_axis(corners, np.argsort(_angle(away), axis=1, kind="stable")[..., None], axis=1)
    sums = np.round(turned.sum(axis=2), 3)
    first = np.lexsort((turned[..., 1], sums), axis=1)[:, :1] if len(corners) else np.zeros((0, 1), np.int64)
    return np.take_along_axis(turned, ((first + np.arange(4)) % 4)[..., None], axis=1)


def _angle(away: Array) -> Array:
    """Returns numbers (N, 4) that rise with the angle of each direction (N, 4, 2), without its tangent."""
    x, y = away[..., 0], away[..., 1]
    length = np.abs(x) + np.abs(y)
    share = x / np.where(length > 0, length, 1.0)
    return np.where(y >= 0, 1.0 - share, 3.0 + share)


FORMS: dict[str, Callable[[Array], Array]] = {  # what is written: x1, y1, x2, y2 to four numbers
    "xyxy": lambda b: b,
    "xywh": to_xywh,
    "cxcywh": to_cxcywh,
    "yxyx": lambda b: b[:, [1, 0, 3, 2]],
    "xxyy": lambda b: b[:, [0, 2, 1, 3]],
    "yxhw": lambda b: to_xywh(b)[:, [1, 0, 3, 2]],
    "xyhw": lambda b: to_xywh(b)[:, [0, 1, 3, 2]],
    "yxwh": lambda b: to_xywh(b)[:, [1, 0, 2, 3]],
    "cycxhw": lambda b: to_cxcywh(b)[:, [1, 0, 3, 2]],
    "cxcyhw": lambda b: to_cxcywh(b)[:, [0, 1, 3, 2]],
    "cycxwh": lambda b: to_cxcywh(b)[:, [1, 0, 2, 3]],
}

WRONG: dict[str, Callable[[Array], Array]] = {  # x1, y1, x2, y2 to corners that a mistake makes of them
    "cx, cy, w, h as corners": to_cxcywh,
    "x1, y1, w, h as corners": to_xywh,
    "the centre as corner (cx, cy, cx + w, cy + h)": lambda b: _columns(
        (b[:, 0] + b[:, 2]) / 2,
        (b[:, 1] + b[:, 3]) / 2,
        b[:, 2] + (b[:, 2] - b[:, 0]) / 2,
        b[:, 3] + (b[:, 3] - b[:, 1]) / 2,
    ),
    "width and height not halved (cx - w, cy - h, cx + w, cy + h)": lambda b: _columns(
        b[:, 0] - (b[:, 2] - b[:, 0]) / 2,
        b[:, 1] - (b[:, 3] - b[:, 1]) / 2,
        b[:, 2] + (b[:, 2] - b[:, 0]) / 2,
        b[:, 3] + (b[:, 3] - b[:, 1]) / 2,
    ),
    "half of width and height (cx - w / 4, ...)": lambda b: _columns(
        b[:, 0] + (b[:, 2] - b[:, 0]) / 4,
        b[:, 1] + (b[:, 3] - b[:, 1]) / 4,
        b[:, 2] - (b[:, 2] - b[:, 0]) / 4,
        b[:, 3] - (b[:, 3] - b[:, 1]) / 4,
    ),
    "width and height exchanged": lambda b: _columns(
        (b[:, 0] + b[:, 2] - b[:, 3] + b[:, 1]) / 2,
        (b[:, 1] + b[:, 3] - b[:, 2] + b[:, 0]) / 2,
        (b[:, 0] + b[:, 2] + b[:, 3] - b[:, 1]) / 2,
        (b[:, 1] + b[:, 3] + b[:, 2] - b[:, 0]) / 2,
    ),
    "corners taken as cx, cy, w, h": lambda b: _columns(
        b[:, 0] - b[:, 2] / 2, b[:, 1] - b[:, 3] / 2, b[:, 0] + b[:, 2] / 2, b[:, 1] + b[:, 3] / 2
    ),
    "corners taken as x1, y1, w, h": lambda b: _columns(b[:, 0], b[:, 1], b[:, 0] + b[:, 2], b[:, 1] + b[:, 3]),
    "x and y exchanged": lambda b: b[:, [1, 0, 3, 2]],
    "x2 and y1 exchanged (x1, x2, y1, y2)": lambda b: b[:, [0, 2, 1, 3]],
}
