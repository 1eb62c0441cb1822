"""RGB to YUV and back by the formulas of INPUTS.md section 2; numpy alone, so that every board's bytes can be explained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Planes = tuple[Array, Array, Array]


def half_even(x: Array) -> Array:
    return np.rint(x)


def half_away(x: Array) -> Array:
    return np.trunc(x + np.copysign(0.5, x))


ROUNDINGS: dict[str, Callable[[Array], Array]] = {"half-even": half_even, "half-away": half_away, "truncate": np.trunc}
SITINGS = ("top-left", "mean")
RANGES = ("full", "limited")
WEIGHTS = {  # Kr, Kb
    "bt601": (0.299, 0.114),
    "bt709": (0.2126, 0.0722),
    "sigmastar": (218 / 1024, 74 / 1024),
    "horizon": (0.299, 0.114),
}
PRESETS = {  # range, siting, rounding
    "opencv": ("limited", "top-left", "half-away"),
    "sigmastar": ("full", "mean", "half-away"),
    "horizon": ("full", "top-left", "truncate"),
}
MODES = (*PRESETS, "bt601", "bt709")
UNVERIFIED = ("sigmastar", "horizon")  # published formulas, never compared with the vendors' tools


@dataclass(frozen=True, slots=True)
class Colour:
    """mode: of MODES. range, siting, rounding: chosen for bt601 and bt709; preset() brings those of the others."""

    mode: str = "opencv"
    range: str = "limited"
    siting: str = "top-left"
    rounding: str = "half-away"

    @staticmethod
    def preset(mode: str) -> Colour:
        return Colour(mode, *PRESETS[mode])

    def written_out(self, coarse: bool) -> Colour:
        """The nearest one whose range, siting and rounding can be chosen. coarse: of 4:2:0."""
        if self.mode != "opencv":
            return self
        return Colour("bt601", "limited" if coarse else "full", self.siting, self.rounding)

    def yuv444(self, rgb: Array) -> Array:
        """uint8 (H, W, 3) to uint8 (H, W, 3), one chroma a pixel."""
        if self.mode == "opencv":
            return _opencv_full(rgb)
        return np.stack([self._stored(p) for p in self._planes(rgb.astype(np.float64))], axis=-1)

    def yuv420(self, rgb: Array) -> Planes:
        """uint8 (H, W, 3), H and W even, to Y (H, W), U and V (H/2, W/2), uint8."""
        if self.mode == "opencv":
            return _opencv_fixed(rgb)
        real = rgb.astype(np.float64)
        height, width = rgb.shape[:2]
        blocks = real.reshape(height // 2, 2, width // 2, 2, 3)
        coarse = blocks[:, 0, :, 0] if self.siting == "top-left" else blocks.mean(axis=(1, 3))
        luma = self._planes(real)[0]
        _, u, v = self._planes(coarse)
        return self._stored(luma), self._stored(u), self._stored(v)

    def rgb(self, yuv: Array, coarse: bool = False) -> Array:
        """Back to RGB for people to look at, uint8 (H, W, 3). coarse: yuv came from a 4:2:0 format."""
        y, u, v = (yuv[..., k].astype(np.float64) for k in range(3))
        kr, kb = WEIGHTS.get(self.mode, WEIGHTS["bt601"])
        u, v = u - 128, v - 128
        if self.range == "limited" and (coarse or self.mode != "opencv"):
            y, u, v = (y - 16) * 255 / 219, u * 255 / 224, v * 255 / 224
        elif self.mode == "opencv":  # COLOR_RGB2YUV: U = 0.492 (B - Y), V = 0.877 (R - Y)
            u, v = u / (0.492 * 2 * (1 - kb)), v / (0.877 * 2 * (1 - kr))
        r, b = y + v * 2 * (1 - kr), y + u * 2 * (1 - kb)
        g = (y - kr * r - kb * b) / (1 - kr - kb)
        return np.rint(np.stack([r, g, b], axis=-1)).clip(0, 255).astype(np.uint8)

    def _stored(self, plane: Array) -> Array:
        return np.clip(ROUNDINGS[self.rounding](plane), 0, 255).astype(np.uint8)

    def _planes(self, rgb: Array) -> Planes:
        """Unrounded Y, U, V of float64 R, G, B along the last axis."""
        r, g, b = rgb[..., 0], rgb[..., 1], rgb[..., 2]
        kr, kb = WEIGHTS[self.mode]
        y = kr * r + (1 - kr - kb) * g + kb * b
        u, v = (b - y) / (2 * (1 - kb)), (r - y) / (2 * (1 - kr))
        if self.range == "full":
            return y, u + 128, v + 128
        return y * 219 / 255 + 16, u * 224 / 255 + 128, v * 224 / 255 + 128


def _opencv_fixed(rgb: Array) -> Planes:
    """OpenCV's COLOR_RGB2YUV_I420, in its 20-bit fixed point."""
    r, g, b = (rgb[..., k].astype(np.int32) for k in range(3))
    half, offset = 1 << 19, 128 << 20
    y = (269484 * r + 528482 * g + 102760 * b + half + (16 << 20)) >> 20
    r, g, b = r[::2, ::2], g[::2, ::2], b[::2, ::2]
    u = (-155188 * r - 305135 * g + 460324 * b + half + offset) >> 20
    v = (460324 * r - 385875 * g - 74448 * b + half + offset) >> 20
    return y.astype(np.uint8), u.astype(np.uint8), v.astype(np.uint8)


def _opencv_full(rgb: Array) -> Array:
    import cv2

    return np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV))
