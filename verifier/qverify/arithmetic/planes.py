"""Cuts a convolution's input into stride phases of flat padded planes, so that every tap of a run of output rows is one
slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.windows import Window

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Planes:
    """The phases. flat: [C, phases, elements]; a row of a phase is `width` long, at least the output's; taps: (phase,
    row, column).

    Elements of a slice past the output's width belong to other windows: they are computed and dropped."""

    flat: Array
    width: int
    taps: tuple[tuple[int, int, int], ...]

    def tap(self, k: int, channels: slice, first_row: int, rows: int) -> Array:
        """Returns a view [channels, rows * width]: what tap k reads for these output rows."""
        phase, row, column = self.taps[k]
        start = (first_row + row) * self.width + column
        return self.flat[channels, phase, start : start + rows * self.width]

    def columns(self, channels: slice, first_row: int, rows: int) -> Array:
        """Returns patches [channels * taps, rows * width], copied; a view for a 1x1 kernel."""
        if len(self.taps) == 1:
            return self.tap(0, channels, first_row, rows)
        count = len(range(*channels.indices(len(self.flat))))
        copied = np.empty((count, len(self.taps), rows * self.width), self.flat.dtype)
        for k in range(len(self.taps)):
            copied[:, k] = self.tap(k, channels, first_row, rows)
        return copied.reshape(-1, rows * self.width)


def planes_of(x: Array, window: Window, out: tuple[int, int], zero_point: Array | int, dtype: np.dtype[Any]) -> Planes:
    """Returns x [C, H, W] minus its zero point, one or [C, 1, 1], in dtype, padded with 0, as the phases that the window's taps use."""
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
        rows, source_rows = _placed(i - window.pad[0], window.stride[0], x.shape[1], height)
        columns, source_columns = _placed(j - window.pad[1], window.stride[1], x.shape[2], width)
        target = flat[:, plane, rows, columns]
        np.subtract(x[:, source_rows, source_columns], zero_point, out=target, dtype=dtype, casting="unsafe")
    numbers = {phase: number for number, phase in enumerate(phases)}
    taps = tuple(
        (numbers[i % window.stride[0], j % window.stride[1]], i // window.stride[0], j // window.stride[1])
        for i in reach[0]
        for j in reach[1]
    )
    return Planes(flat.reshape(len(x), len(phases), -1), width, taps)


def _placed(start: int, stride: int, size: int, room: int) -> tuple[slice, slice]:
    """Returns (target, source) slices that copy elements start, start + stride, ... of an axis of `size` to one of
    `room`."""
    skipped = max(0, -(start // stride))
    first = start + skipped * stride
    count = max(0, min(len(range(first, size, stride)), room - skipped))
    return slice(skipped, skipped + count), slice(first, first + count * stride, stride)
