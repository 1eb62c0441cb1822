"""Measures how often the largest value, and the five largest values, of an output are at the same positions on both
sides."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qverify.report.document import Agreement
from qverify.tensors.recording import Array


def measure_agreement(output: str, a: Array, b: Array) -> Agreement:
    """Returns the shares (0..1) of the batch items that agree in the largest value, and in the five largest values. A
    share is None if an item has too few values, and both are if the shapes differ, or if an item is no list of scores but
    has several axes (a feature map, boxes)."""
    items = a.shape[0] if a.ndim > 1 else 1
    no_list = sum(length > 1 for length in a.shape[1:]) > 1
    if a.shape != b.shape or a.size == 0 or no_list or a.size // items < 2:
        return Agreement(output, None, None)
    rows = [(np.ravel(x), np.ravel(y)) for x, y in zip(a.reshape(items, -1), b.reshape(items, -1), strict=True)]
    first = float(np.mean([int(np.argmax(x)) == int(np.argmax(y)) for x, y in rows]))
    if a.size // items < 6:
        return Agreement(output, first, None)
    return Agreement(output, first, float(np.mean([_top5(x) == _top5(y) for x, y in rows])))


def _top5(values: npt.NDArray[np.generic]) -> frozenset[int]:
    """Returns the flat positions of the five largest values. Among equal values, those that come first are taken."""
    fifth = np.partition(values, values.size - 5)[values.size - 5]
    above = np.flatnonzero(values > fifth)
    level = np.flatnonzero(values == fifth)[: 5 - above.size]
    return frozenset(int(i) for i in np.concatenate([above, level]))
