"""The windows of convolutions and pools: padded planes, and the elements that each tap of a window reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Cut = tuple[Any, ...]  # an index of the last two axes
WINDOW_WORDS = (
    "kernel_h",
    "kernel_w",
    "stride_h",
    "stride_w",
    "pad_top",
    "pad_left",
    "pad_bottom",
    "pad_right",
)
DILATION_WORDS = ("dilation_h", "dilation_w")
MAX_WORD, MAX_KERNEL_AREA = 65536, 1 << 20
FREE_PADDING = 1 << 16  # elements of padding whose cost is negligible


@dataclass(frozen=True, slots=True)
class Window:
    """Kernel, stride, padding (top left bottom right) and dilation, in elements."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int, int, int]
    dilation: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        """Raises ValueError for values outside the limits of FORMAT.md, because time and memory are proportional to
        them."""
        steps, area = (*self.kernel, *self.stride, *self.dilation), self.kernel[0] * self.kernel[1]
        if min(steps) < 1 or min(self.pad) < 0 or max(*steps, *self.pad) > MAX_WORD or area > MAX_KERNEL_AREA:
            raise ValueError(
                f"window of kernel, stride, dilation {steps}, pad {self.pad}: wanted 1 to {MAX_WORD}, pad from 0, kernel area up to {MAX_KERNEL_AREA}"
            )

    def padded(self, x: Array, out: tuple[int, int], fill: float | int) -> Array:
        """Returns x [N,C,H,W] with padding, as large as is necessary for the taps of the output."""
        top, left, bottom, right = self.pad
        height, width = x.shape[2:]
        need = [(out[i] - 1) * self.stride[i] + (self.kernel[i] - 1) * self.dilation[i] + 1 for i in (0, 1)]
        bottom = max(bottom, need[0] - height - top, 0)
        right = max(right, need[1] - width - left, 0)
        if not (top or left or bottom or right):
            return x
        whole = np.full((*x.shape[:2], height + top + bottom, width + left + right), fill, x.dtype)
        whole[:, :, top : top + height, left : left + width] = x
        return whole

    def taps(self, padded: Array, out: tuple[int, int]) -> Iterator[Array]:
        """Yields views [N,C,oh,ow] of a padded input, one per tap, row-major over the kernel."""
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                y, x = i * self.dilation[0], j * self.dilation[1]
                rows = slice(y, y + (out[0] - 1) * self.stride[0] + 1, self.stride[0])
                yield padded[:, :, rows, x : x + (out[1] - 1) * self.stride[1] + 1 : self.stride[1]]

    def reads(self, x: Array, out: tuple[int, int], fill: float | int) -> Iterator[Array]:
        """Yields arrays [N,C,oh,ow] with the elements that the windows over x [N,C,H,W] read, in row-major order for
        each window. A window that reads fewer elements than others has `fill` in some of the arrays. Time and memory
        are limited by the sizes of x and of the output, whatever the words are."""
        size = (x.shape[2], x.shape[3])
        if self.reads_directly(size, out):
            yield from self.taps(self.padded(x, out, fill), out)
        else:
            yield from self._read_one_by_one(x, self._find_spans(size, out), fill)

    def reads_directly(self, size: tuple[int, int], out: tuple[int, int]) -> bool:
        """Returns whether the padded image is not much larger than an image of this size, and few of the taps read
        only padding."""
        needed = int(np.prod([(end - first).max() for first, end in self._find_spans(size, out)]))
        room = int(np.prod([size[i] + self.pad[i] + self.pad[i + 2] + self._reach(i) for i in (0, 1)]))
        return (
            self.kernel[0] * self.kernel[1] <= 4 * needed
            and room <= 4 * (size[0] * size[1] + out[0] * out[1]) + FREE_PADDING
        )

    def _find_spans(self, size: tuple[int, int], out: tuple[int, int]) -> list[tuple[Array, Array]]:
        return [self._find_taps_inside(axis, size[axis], out[axis]) for axis in (0, 1)]

    def _read_one_by_one(self, x: Array, spans: list[tuple[Array, Array]], fill: float | int) -> Iterator[Array]:
        """Yields the same elements as `reads`. The first array has the first element of each window, the second array
        the second, and so on."""
        counts = [max(1, int((end - first).max())) for first, end in spans]
        for i, j in np.ndindex(*counts):
            at, inside = [], []
            for axis, step in ((0, i), (1, j)):
                first, end = spans[axis]
                place = (
                    np.arange(len(first)) * self.stride[axis] - self.pad[axis] + (first + step) * self.dilation[axis]
                )
                inside.append(first + step < end)
                at.append(np.where(inside[axis], place, 0))
            read = x[:, :, at[0][:, None], at[1]]
            yield np.where(inside[0][:, None] & inside[1], read, np.array(fill, x.dtype))

    def _reach(self, axis: int) -> int:
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def _find_taps_inside(self, axis: int, size: int, out: int) -> tuple[Array, Array]:
        """Returns the first tap of each window that lies within the image, and the one after the last, int64 [out]."""
        start = np.arange(out, dtype=np.int64) * self.stride[axis] - self.pad[axis]
        return taps_between(start, self.kernel[axis], self.dilation[axis], 0, size)

    def cropped(self, size: tuple[int, int], out: tuple[int, int]) -> tuple[Window, Cut, Cut]:
        """Returns the window without the first and last taps that read only padding, and the indices of the remaining
        parts of its kernel and of an image of this size. At least one tap remains."""
        pad, kernel, taps, kept = list(self.pad), [0, 0], [slice(0)] * 2, [slice(0)] * 2
        for axis in (0, 1):
            first, end = self._find_taps_inside(axis, size[axis], out[axis])
            some = end > first
            low = int(first[some].min()) if some.any() else 0
            high = int(end[some].max()) if some.any() else 1
            left = self.pad[axis] - low * self.dilation[axis]
            pad[axis], kernel[axis] = max(left, 0), high - low
            taps[axis], kept[axis] = slice(low, high), slice(max(0, -left), None)
        window = replace(self, kernel=(kernel[0], kernel[1]), pad=(pad[0], pad[1], pad[2], pad[3]))
        return window, (Ellipsis, *taps), (Ellipsis, *kept)


def window_of(words: tuple[int, ...], dilated: bool = True) -> Window:
    """Returns the window in the words of a node, which start with WINDOW_WORDS and, if `dilated`, DILATION_WORDS.
    Raises ValueError for words out of range."""
    kernel_h, kernel_w, stride_h, stride_w, top, left, bottom, right = words[:8]
    dilation = (words[8], words[9]) if dilated else (1, 1)
    return Window((kernel_h, kernel_w), (stride_h, stride_w), (top, left, bottom, right), dilation)


def as_planes(x: Array) -> Array:
    """Returns an array of rank 3 (N,C,W) as rank 4 with H = 1, and one of rank 4 unchanged."""
    return x[:, :, None, :] if x.ndim == 3 else x


def plane_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Returns (height, width) of a shape (N,C,H,W) or (N,C,W)."""
    return (1, shape[2]) if len(shape) == 3 else (shape[2], shape[3])


def taps_counted(window: Window, size: tuple[int, int], out: tuple[int, int], with_padding: bool) -> Array:
    """Returns the number of taps of each window that lie in a plane of this size, int64 [oh,ow]. with_padding: whether
    the padding counts as part of the plane."""
    each = []
    for axis in (0, 1):
        starts = np.arange(out[axis], dtype=np.int64) * window.stride[axis] - window.pad[axis]
        low = -window.pad[axis] if with_padding else 0
        high = size[axis] + (window.pad[axis + 2] if with_padding else 0)
        first, end = taps_between(starts, window.kernel[axis], window.dilation[axis], low, high)
        each.append(end - first)
    return np.multiply.outer(*each)


def taps_between(starts: Array, kernel: int, dilation: int, low: int, high: int) -> tuple[Array, Array]:
    """Returns, for windows of one axis that start at these positions, the first tap that lies in low .. high-1, and the
    one after the last. Both are equal if there is none."""
    first, end = (np.maximum(-((starts - limit) // dilation), 0) for limit in (low, high))
    end = np.minimum(end, kernel)
    return np.minimum(first, end), end


def find_landing_slices(start: int, stride: int, size: int, room: int) -> tuple[slice, slice]:
    """Returns (target, source) slices for scattering an axis of `size` elements: element i lands at start + i * stride
    in an axis of `room` elements. Elements that would land outside of it are left out."""
    first = max(0, -(start // stride))
    end = max(first, min(size, -((start - room) // stride)))
    return slice(start + first * stride, start + (end - 1) * stride + 1 if end > first else 0, stride), slice(
        first, end
    )


def find_copied_slices(start: int, stride: int, size: int, room: int) -> tuple[slice, slice]:
    """Returns (target, source) slices that copy elements start, start + stride, ... of an axis of `size` to one of
    `room`."""
    skipped = max(0, -(start // stride))
    first = start + skipped * stride
    count = max(0, min(len(range(first, size, stride)), room - skipped))
    return slice(skipped, skipped + count), slice(first, first + count * stride, stride)
