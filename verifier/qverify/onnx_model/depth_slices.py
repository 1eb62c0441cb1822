"""Rewrites windows over volumes (N, C, D, H, W) as windows over images (N, C, H, W), slice by slice in depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Volume:
    """The window of a convolution or pool over three spatial dims.

    pads: all begins, then all ends, with auto_pad resolved. size, out: depth, height and width of input and output."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    size: tuple[int, ...]
    out: tuple[int, ...]

    def plane(self) -> dict[str, Any]:
        """Returns the attributes of the same window over rows and columns."""
        return {
            "kernel_shape": self.kernel[1:],
            "strides": self.strides[1:],
            "dilations": self.dilations[1:],
            "pads": [*self.pads[1:3], *self.pads[4:]],
        }

    def taps(self) -> Array:
        """Returns the input depth that each tap reads, as an array [out depth, kernel depth]; it may lie outside the
        input."""
        return np.arange(self.out[0])[:, None] * self.strides[0] - self.pads[0] + self._reach()

    def transposed_taps(self) -> Array:
        """Returns the same for a transposed window; -1 where a tap reads nothing."""
        far = np.arange(self.out[0])[:, None] + self.pads[0] - self._reach()
        return np.where(far % self.strides[0] == 0, far // self.strides[0], -1)

    def _reach(self) -> Array:
        return np.arange(self.kernel[0]) * self.dilations[0]


def volume_of(r: Rewriter, node: onnx.NodeProto, kernel: tuple[int, ...], x: str, y: str) -> Volume:
    """Returns the window of a node, with auto_pad resolved. x, y: names of its input and output tensor."""
    size, out = r.dims(x)[2:], r.dims(y)[2:]
    strides, dilations = (tuple(attribute(node, n, [1] * 3)) for n in ("strides", "dilations"))
    pads = [int(p) for p in attribute(node, "pads", [0] * 6)]
    auto, transposed = attribute(node, "auto_pad", b"NOTSET"), node.op_type == "ConvTranspose"
    if auto.startswith(b"SAME") or (transposed and attribute(node, "output_shape", None)):
        further = attribute(node, "output_padding", [0] * 3)
        for i in range(3):
            reach = (kernel[i] - 1) * dilations[i] + 1
            total = (
                (size[i] - 1) * strides[i] + further[i] + reach - out[i]
                if transposed
                else (out[i] - 1) * strides[i] + reach - size[i]
            )
            small = max(0, total) // 2
            pads[i], pads[i + 3] = small, max(0, total) - small
            if auto != b"SAME_UPPER":
                pads[i], pads[i + 3] = pads[i + 3], pads[i]
    return Volume(kernel, strides, dilations, tuple(pads), size, out)


def slices(r: Rewriter, x: str, taps: Array, zero: str | None) -> tuple[str, tuple[int, ...]]:
    """Adds nodes that gather the slices of x that each tap reads, and returns the name and dims of the result, which
    are (N, C, out depth, kernel depth, H, W).

    taps: the depth that each tap reads, [out depth, kernel depth]. For a depth outside x the slice is filled with the
    scalar tensor `zero`, or 0.0 if that is None."""
    n, c, depth, height, width = r.dims(x)
    outside = (taps < 0) | (taps >= depth)
    if outside.any():
        x = _with_border(r, x, zero)
    index = np.where(outside, depth, taps).reshape(-1)
    if index.size != depth or (index != np.arange(depth)).any():
        x = r.step("Gather", [x, r.ints("slices", index)], "slices_read", axis=2)
    dims = (n, c, *taps.shape, height, width)
    return r.step("Reshape", [x, r.ints("slices_dims", dims)], "slices_of_each"), dims


def _with_border(r: Rewriter, x: str, zero: str | None) -> str:
    """Adds nodes that append one slice filled with `zero` to x, and returns the result's name."""
    n, c, _, height, width = r.dims(x)
    if zero is None or zero in r.initializers:
        ends = r.ints("slices_border", [0] * 7 + [1, 0, 0])
        value = r.value(zero) if zero else None
        more = [] if value is None else [r.constant("border", value.reshape(()))]
        return r.step("Pad", [x, ends, *more], "bordered")
    one = r.step("Reshape", [zero, r.ints("one", [1])], "zero")
    row = r.step("Gather", [one, r.ints("border_places", np.zeros(n * c * height * width, np.int64))], "zeros", axis=0)
    border = r.step("Reshape", [row, r.ints("border_dims", [n, c, 1, height, width])], "border")
    return r.step("Concat", [x, border], "bordered", axis=2)


def images(r: Rewriter, source: str, dims: tuple[int, ...]) -> str:
    """Adds nodes that reshape the result of `slices` to images (N * out depth, C * kernel depth, H, W); returns their
    name."""
    n, c, out, kernel, height, width = dims
    if out > 1:
        source = r.step("Transpose", [source], "slices_first", perm=[0, 2, 1, 3, 4, 5])
    return r.step("Reshape", [source, r.ints("image_dims", [n * out, c * kernel, height, width])], "images")


def volume_again(r: Rewriter, source: str, batch: int, dims: tuple[int, ...], to: str) -> None:
    """Adds nodes that compute the volume `to` with dims (N, O, out depth, h, w) from images (N * out depth, O, h,
    w)."""
    _, channels, out, height, width = dims
    if out == 1:
        r.node("Reshape", [source, r.ints("volume_dims", dims)], to)
        return
    parts = r.step("Reshape", [source, r.ints("parts_dims", [batch, out, channels, height, width])], "parts")
    r.node("Transpose", [parts], to, perm=[0, 2, 1, 3, 4])
