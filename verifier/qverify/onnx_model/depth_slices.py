"""Volumes (N, C, D, H, W) as images (N, C, H, W): the slices that each output depth of a window reads."""

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
    """The window of a convolution or pool of three spatial dims. pads: begins, then ends, as they are applied."""

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
        """Returns [out depth, kernel depth]: the depth that each tap reads, which may lie outside."""
        return np.arange(self.out[0])[:, None] * self.strides[0] - self.pads[0] + self._reach()

    def transposed_taps(self) -> Array:
        """Returns the same of a transposed window; -1 where none is read."""
        far = np.arange(self.out[0])[:, None] + self.pads[0] - self._reach()
        return np.where(far % self.strides[0] == 0, far // self.strides[0], -1)

    def _reach(self) -> Array:
        return np.arange(self.kernel[0]) * self.dilations[0]


def volume_of(r: Rewriter, node: onnx.NodeProto, kernel: tuple[int, ...], x: str, y: str) -> Volume:
    """Returns the window of a node, its auto_pad resolved. x, y: the tensors that it reads and makes."""
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
    """Writes (N, C, out depth, kernel depth, H, W) of x, and returns its name and dims. taps: the depth that each reads,
    [out depth, kernel depth]; one outside is a slice of `zero`, a scalar of x's type, 0.0 if None."""
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
    """Returns x with one slice of `zero` behind its last."""
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
    """Returns what `slices` wrote as (N * out depth, C * kernel depth, H, W)."""
    n, c, out, kernel, height, width = dims
    if out > 1:
        source = r.step("Transpose", [source], "slices_first", perm=[0, 2, 1, 3, 4, 5])
    return r.step("Reshape", [source, r.ints("image_dims", [n * out, c * kernel, height, width])], "images")


def volume_again(r: Rewriter, source: str, batch: int, dims: tuple[int, ...], to: str) -> None:
    """Writes (N, O, out depth, h, w), `dims`, from images (N * out depth, O, h, w)."""
    _, channels, out, height, width = dims
    if out == 1:
        r.node("Reshape", [source, r.ints("volume_dims", dims)], to)
        return
    parts = r.step("Reshape", [source, r.ints("parts_dims", [batch, out, channels, height, width])], "parts")
    r.node("Transpose", [parts], to, perm=[0, 2, 1, 3, 4])
