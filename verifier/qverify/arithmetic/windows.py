"""Conv and pool windows: padded planes and the taps of a window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
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
LARGEST, LARGEST_KERNEL = 65536, 1 << 20


@dataclass(frozen=True, slots=True)
class Window:
    """Kernel, stride, padding (top left bottom right) and dilation, in elements."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int, int, int]
    dilation: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        """Raises ValueError outside FORMAT.md's limits: time and memory of a window are proportional to its words."""
        steps, most = (*self.kernel, *self.stride, *self.dilation), self.kernel[0] * self.kernel[1]
        if min(steps) < 1 or min(self.pad) < 0 or max(*steps, *self.pad) > LARGEST or most > LARGEST_KERNEL:
            raise ValueError(
                f"window of kernel, stride, dilation {steps}, pad {self.pad}: wanted 1 to {LARGEST}, pad from 0, kernel area up to {LARGEST_KERNEL}"
            )

    def padded(self, x: Array, out: tuple[int, int], fill: float | int) -> Array:
        """Returns x [N,C,H,W] with padding, at least as large as the output's taps reach."""
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


def window_of(words: tuple[int, ...], dilated: bool = True) -> Window:
    """Returns the window of a node whose words start with WINDOW_WORDS, then DILATION_WORDS if dilated. Raises
    ValueError."""
    kernel_h, kernel_w, stride_h, stride_w, top, left, bottom, right = words[:8]
    dilation = (words[8], words[9]) if dilated else (1, 1)
    return Window((kernel_h, kernel_w), (stride_h, stride_w), (top, left, bottom, right), dilation)


def as_planes(x: Array) -> Array:
    """Returns rank 3 (N,C,W) as rank 4 with H = 1."""
    return x[:, :, None, :] if x.ndim == 3 else x


def plane_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Returns (height, width) of (N,C,H,W) or (N,C,W)."""
    return (1, shape[2]) if len(shape) == 3 else (shape[2], shape[3])


def taps_counted(window: Window, size: tuple[int, int], out: tuple[int, int], with_padding: bool) -> Array:
    """Returns as [oh,ow], int64, how many taps of each window lie in a plane of this size; with_padding: in the plane and
    its padding."""
    each = []
    for axis in (0, 1):
        first = 0 if with_padding else window.pad[axis]
        end = window.pad[axis] + size[axis] + (window.pad[axis + 2] if with_padding else 0)
        starts = np.arange(out[axis]) * window.stride[axis]
        at = starts[:, None] + np.arange(window.kernel[axis]) * window.dilation[axis]
        each.append(((at >= first) & (at < end)).sum(1, dtype=np.int64))
    return np.multiply.outer(*each)
