"""Finds which taps of a dense convolution a kernel gathers pixel by pixel, and which as whole runs of pixels of one
output row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.triage.altered_kernels.summed_elements import words_of
from qverify.triage.case import Case

Array = npt.NDArray[Any]
PANELS = (16, 8, 32, 64, 0)  # numbers of pixels that are gathered together, where 0 is a whole output row


def one_by_one(case: Case, places: Array, panel: int) -> Array:
    """Returns whether the run of pixels with each of these output elements is gathered pixel by pixel, because it
    crosses the left or right border at the tap or is not consecutive in the input: bool [S, 1, 1, kernel columns]."""
    words, shape, x = words_of(case), case.spec.shape, case.graph.spec(case.last.inputs[0] or "").shape
    columns, pixels, width = shape[-1], int(np.prod(shape[2:])), x[-1]
    taps = words["kernel_w"]
    if words["stride_w"] > 1:
        return np.ones((len(places), 1, 1, taps), bool)
    if taps * words["kernel_h"] == 1 and words["stride_h"] == 1 and shape[2:] == x[2:]:
        return np.zeros((len(places), 1, 1, taps), bool)
    pixel = places % pixels
    row = pixel // columns
    first, last = 0 * row, 0 * row + columns - 1
    if panel:
        base = pixel // panel * panel
        first = np.maximum(base - row * columns, 0)
        last = np.minimum(base + panel - 1 - row * columns, columns - 1)
    offset = np.arange(taps) * words["dilation_w"] - words["pad_left"]
    crosses = (first[:, None] + offset < 0) | (last[:, None] + offset >= width)
    return np.asarray(crosses[:, None, None, :])


def runs(case: Case) -> dict[int, list[str]]:
    """Returns the lengths of runs that differ at this node, each with the texts of all lengths that are equivalent to
    it."""
    places = np.arange(int(np.prod(case.spec.shape[2:])))
    panels: dict[bytes, int] = {}  # the first one, by its mask
    words: dict[int, list[str]] = {}
    for panel in PANELS:
        first = panels.setdefault(one_by_one(case, places, panel).tobytes(), panel)
        words.setdefault(first, []).append(f"runs of {panel} pixels" if panel else "runs of a whole output row")
    return words
