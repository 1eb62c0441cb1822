"""Boxes beside boxes: intersection over union, and pairs of boxes of the same class."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def iou_table(a: Array, b: Array) -> npt.NDArray[np.float64]:
    """Returns the intersection over union of each box of a with each of b, (len(a), len(b)); 1 of equal ones, also empty. Boxes are
    x1, y1, x2, y2."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    inside = np.clip(high - low, 0, None).prod(axis=2)
    areas = [np.clip(x[:, 2:] - x[:, :2], 0, None).prod(axis=1) for x in (a, b)]
    union = areas[0][:, None] + areas[1][None] - inside
    shares = np.divide(inside, union, out=np.zeros_like(inside), where=union > 0)
    return np.where((a[:, None] == b[None]).all(axis=2), 1.0, shares)


def pair_boxes(a: Array, b: Array, classes_a: Array, classes_b: Array, least: float) -> list[tuple[int, int, float]]:
    """Returns pairs of a box of a with one of b of the same class, whose IoU is at least `least`: the largest IoU first, each
    box once; as (index in a, index in b, IoU)."""
    table = iou_table(a, b)
    table[classes_a[:, None] != classes_b[None]] = -1.0
    pairs, order = [], np.argsort(-table, axis=None, kind="stable")
    free_a, free_b = np.ones(len(a), bool), np.ones(len(b), bool)
    for at in order:
        i, j = divmod(int(at), len(b))
        if table[i, j] < max(least, 1e-12):
            break
        if free_a[i] and free_b[j]:
            free_a[i] = free_b[j] = False
            pairs.append((i, j, float(table[i, j])))
    return pairs
