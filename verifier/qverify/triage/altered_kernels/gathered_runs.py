"""Which taps of a dense convolution a kernel gathers one by one, and which as whole runs of pixels of one output row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.triage.altered_kernels.summed_elements import SummedElements, words_of

Array = npt.NDArray[Any]
PANELS = (16, 8, 32, 64, 0)  # pixels gathered together; 0: a whole output row


def one_by_one(e: SummedElements, panel: int) -> Array:
    """Returns bool [S, 1, 1, kernel columns]: whether the run of pixels to which this element belongs crosses the left or
    right border at this tap, or is not consecutive in the input."""
    case, s, words = e.case, e.summands, words_of(e.case)
    shape, x = case.spec.shape, case.graph.spec(case.last.inputs[0] or "").shape
    columns, pixels, width = shape[-1], int(np.prod(shape[2:])), x[-1]
    pixel = e.places % pixels
    row, column = pixel // columns, pixel % columns
    first, last = 0 * column, 0 * column + columns - 1
    if panel:
        base = pixel // panel * panel
        first = np.maximum(base - row * columns, 0)
        last = np.minimum(base + panel - 1 - row * columns, columns - 1)
    stride = words["stride_w"]
    if stride > 1:
        return np.ones((len(e.places), 1, 1, 1), bool)
    if _is_dense(words, shape, x):
        return np.zeros((len(e.places), 1, 1, 1), bool)
    start = s.column + (first - column).reshape(-1, 1, 1, 1) * stride
    end = s.column + (last - column).reshape(-1, 1, 1, 1) * stride
    return np.asarray((start < 0) | (end >= width))


def _is_dense(words: dict[str, int], shape: tuple[int, ...], x: tuple[int, ...]) -> bool:
    """Returns whether output pixels are input pixels."""
    return words["kernel_h"] * words["kernel_w"] == 1 and words["stride_h"] == 1 and shape[2:] == x[2:]
