"""Cuts the input of a convolution into the phases of its stride, as flat padded planes. Each tap then reads one slice
for any run of output rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.windows import Window, find_copied_slices

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Planes:
    """The phases of an input.

    Attributes:
        flat: [C, phases, elements].
        width: length of a row of a phase, at least that of the output.
        taps: phase, row and column of each tap.

    Elements of a slice beyond the output's width belong to other windows. They are computed and dropped.
    """

    flat: Array
    width: int
    taps: tuple[tuple[int, int, int], ...]

    def tap(self, k: int, channels: slice, first_row: int, rows: int) -> Array:
        """Returns the elements that tap k reads for these output rows, as a view [channels, rows * width]."""
        phase, row, column = self.taps[k]
        start = (first_row + row) * self.width + column
        return self.flat[channels, phase, start : start + rows * self.width]

    def columns(self, channels: slice, first_row: int, rows: int) -> Array:
        """Returns the patches [channels * taps, rows * width], as a copy, or as a view for a 1x1 kernel."""
        if len(self.taps) == 1:
            return self.tap(0, channels, first_row, rows)
        count = len(range(*channels.indices(len(self.flat))))
        copied = np.empty((count, len(self.taps), rows * self.width), self.flat.dtype)
        for k in range(len(self.taps)):
            copied[:, k] = self.tap(k, channels, first_row, rows)
        return copied.reshape(-1, rows * self.width)


def planes_of(x: Array, window: Window, out: tuple[int, int], zero_point: Array | int, dtype: np.dtype[Any]) -> Planes:
    """Returns the phases that the window's taps use, of x [C, H, W] minus its zero point (one number or [C, 1, 1]), in
    dtype and padded with 0."""
    covered = out[0] <= x.shape[1] and out[1] <= x.shape[2]
    if window.kernel == (1, 1) and window.stride == (1, 1) and not any(window.pad) and covered:
        flat = np.subtract(x.reshape(len(x), 1, -1), zero_point, dtype=dtype, casting="unsafe")
        return Planes(flat, x.shape[2], ((0, 0, 0),))
    reach = [[k * window.dilation[axis] for k in range(window.kernel[axis])] for axis in (0, 1)]
    phases = sorted({(i % window.stride[0], j % window.stride[1]) for i in reach[0] for j in reach[1]})
    height = out[0] + reach[0][-1] // window.stride[0] + 1
    width = out[1] + reach[1][-1] // window.stride[1]
    flat = np.zeros((len(x), len(phases), height, width), dtype)
    for plane, (i, j) in enumerate(phases):
        rows, source_rows = find_copied_slices(i - window.pad[0], window.stride[0], x.shape[1], height)
        columns, source_columns = find_copied_slices(j - window.pad[1], window.stride[1], x.shape[2], width)
        target = flat[:, plane, rows, columns]
        np.subtract(x[:, source_rows, source_columns], zero_point, out=target, dtype=dtype, casting="unsafe")
    numbers = {phase: number for number, phase in enumerate(phases)}
    taps = tuple(
        (numbers[i % window.stride[0], j % window.stride[1]], i // window.stride[0], j // window.stride[1])
        for i in reach[0]
        for j in reach[1]
    )
    return Planes(flat.reshape(len(x), len(phases), -1), width, taps)
