"""Copies what the windows of a run of output rows read into matrices, one for each row of the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.exact_matmul import centred, narrow_type
from qverify.arithmetic.windows import Window, find_copied_slices

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Strip:
    """Copies of the elements of C channels that the windows of a run of output rows read.

    Attributes:
        flat: [phases, rows of a matrix, elements]: a copy for each phase of the vertical stride, channel and column of
            the kernel, shifted by that column. Its rows are as long as those of the output.
        starts: phase, and first element, of each row of the kernel.
        length: number of output elements of a channel.
        ones: 1 if the first row of each matrix is 1, by which a bias is multiplied, else 0.
    """

    flat: Array
    starts: tuple[tuple[int, int], ...]
    length: int
    ones: int

    def matrix(self, i: int, ones: bool = False) -> Array:
        """Returns what row i of the kernel reads, as a view [C * kernel_w, length]. ones: True for the row of ones,
        too."""
        phase, start = self.starts[i]
        return self.flat[phase, 0 if ones else self.ones :, start : start + self.length]

    def whole(self) -> Array:
        """Returns what all rows of the kernel read, [ones + kernel_h * C * kernel_w, length]."""
        parts = [self.matrix(i, ones=i == 0) for i in range(len(self.starts))]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def strip_of(
    x: Array,
    window: Window,
    width: int,
    rows: slice,
    zero_point: Array | int,
    dtype: np.dtype[Any],
    ones: bool = False,
    padding: int = 0,
) -> Strip:
    """Returns the strip of these output rows.

    Args:
        x: integers [C, H, W].
        window: the window.
        width: length of a row of the output.
        rows: the output rows.
        zero_point: of x, one number or [C, 1, 1]. It is subtracted.
        dtype: type of the strip.
        ones: True to begin each matrix with a row of ones.
        padding: value of the padding.
    """
    layout = _layout_of(window, x.shape[1:], width, rows.start, rows.stop)
    kernel_w, height = len(layout.columns), layout.height
    shape = (len(layout.lines), ones + len(x) * kernel_w, height * width)
    flat = np.empty(shape, dtype) if layout.full else np.full(shape, padding, dtype)
    if ones:
        flat[:, 0] = 1
    zero, narrow = np.asarray(zero_point), narrow_type(str(x.dtype))
    for plane, (targets, sources) in zip(flat[:, int(ones) :], layout.lines, strict=True):
        read, copies = centred(x[:, sources], zero, narrow), plane.reshape(len(x), kernel_w, height, width)
        for k, (target, source) in enumerate(layout.columns):
            copies[:, k, targets, target] = read[:, :, source]
    return Strip(flat, layout.starts, (rows.stop - rows.start) * width, int(ones))


class _Layout(NamedTuple):
    """The places of the elements of a strip: for each phase, and for each column of the kernel, slices of the strip and
    of the input; whether these fill the strip; the number of rows of a phase; `starts` of the Strip."""

    lines: list[tuple[slice, slice]]
    columns: list[tuple[slice, slice]]
    full: bool
    height: int
    starts: tuple[tuple[int, int], ...]


@lru_cache(1 << 12)
def _layout_of(window: Window, size: tuple[int, ...], width: int, first: int, end: int) -> _Layout:
    stride, shift = window.stride, window.dilation[1]
    reach = [i * window.dilation[0] for i in range(window.kernel[0])]
    phases = sorted({r % stride[0] for r in reach})
    height = end - first + reach[-1] // stride[0]
    start = first * stride[0] - window.pad[0]
    lines = [find_copied_slices(start + phase, stride[0], size[0], height) for phase in phases]
    taps = range(window.kernel[1])
    columns = [find_copied_slices(j * shift - window.pad[1], stride[1], size[1], width) for j in taps]
    full = all(_covers(t, height) for t, _ in lines) and all(_covers(t, width) for t, _ in columns)
    starts = tuple((phases.index(r % stride[0]), r // stride[0] * width) for r in reach)
    return _Layout(lines, columns, full, height, starts)


def _covers(target: slice, room: int) -> bool:
    return (target.start, target.stop) == (0, room)
