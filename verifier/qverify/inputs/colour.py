"""Converts RGB to YUV and back by the formulas in INPUTS.md section 2. Mode `opencv` uses OpenCV, all others numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.colour import convert_yuv
from qverify.extras import import_extra

Array = npt.NDArray[Any]
Planes = tuple[Array, Array, Array]


def half_even(x: Array) -> Array:
    """Rounds to the nearest integer, ties to even."""
    return np.rint(x)


def half_away(x: Array) -> Array:
    """Rounds to the nearest integer, ties away from zero."""
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
# The words of OpenCV's conversions COLOR_YUV2RGB_NV12 and COLOR_YUV2RGB (NUMERICS.md, yuv_to_rgb)
OPENCV_COARSE = (20, 0, 16, 128, 128, 1220542, 0, 1673527, 1220542, -409993, -852492, 1220542, 2116026, 0)
OPENCV_FULL = (14, -255, 0, 128, 128, 16384, 0, 18678, 16384, -6472, -9519, 16384, 33292, 0)
MODES = (*PRESETS, "bt601", "bt709")
UNVERIFIED = ("sigmastar", "horizon")  # published formulas, never compared with the vendors' tools


@dataclass(frozen=True, slots=True)
class Colour:
    """A colour conversion. mode: one of MODES. range, siting, rounding: any of the known ones for bt601 and bt709, and
    those that preset() sets for the other modes."""

    mode: str = "opencv"
    range: str = "limited"
    siting: str = "top-left"
    rounding: str = "half-away"

    @staticmethod
    def preset(mode: str) -> Colour:
        """Returns the conversion of a mode that has a range, siting and rounding of its own."""
        return Colour(mode, *PRESETS[mode])

    def without_preset(self, coarse: bool) -> Colour:
        """Returns the most similar conversion whose range, siting and rounding may be changed. coarse: whether it is
        for a 4:2:0 format."""
        if self.mode != "opencv":
            return self
        return Colour("bt601", "limited" if coarse else "full", self.siting, self.rounding)

    def yuv444(self, rgb: Array) -> Array:
        """Converts uint8 RGB (H, W, 3) to uint8 YUV (H, W, 3), one chroma value per pixel."""
        if self.mode == "opencv":
            return _opencv(rgb, "COLOR_RGB2YUV")
        return np.stack([self._round_plane(p) for p in self._compute_planes(rgb.astype(np.float64))], axis=-1)

    def yuv420(self, rgb: Array) -> Planes:
        """Converts uint8 RGB (H, W, 3), H and W even, to Y (H, W), U and V (H/2, W/2), uint8."""
        if self.mode == "opencv":
            return _opencv_420(rgb)
        real = rgb.astype(np.float64)
        height, width = rgb.shape[:2]
        blocks = real.reshape(height // 2, 2, width // 2, 2, 3)
        coarse = blocks[:, 0, :, 0] if self.siting == "top-left" else blocks.mean(axis=(1, 3))
        luma = self._compute_planes(real)[0]
        _, u, v = self._compute_planes(coarse)
        return self._round_plane(luma), self._round_plane(u), self._round_plane(v)

    def inverse(self, coarse: bool) -> tuple[int, ...]:
        """Returns the conversion back to RGB as the words of yuv_to_rgb (NUMERICS.md): shift, floor, three offsets, and
        the rows of R, G and B. coarse: whether the YUV is from a 4:2:0 format."""
        if self.mode == "opencv":
            return OPENCV_COARSE if coarse else OPENCV_FULL
        kr, kb = WEIGHTS[self.mode]
        wide, around = (255 / 219, 255 / 224) if self.range == "limited" else (1.0, 1.0)
        u, v = around * 2 * (1 - kb), around * 2 * (1 - kr)
        green = 1 - kr - kb
        matrix = (wide, 0, v, wide, -kb * u / green, -kr * v / green, wide, u, 0)
        low = 16 if self.range == "limited" else 0
        return (20, -255, low, 128, 128, *(round(m * (1 << 20)) for m in matrix))

    def rgb(self, yuv: Array, coarse: bool = False) -> Array:
        """Converts uint8 YUV (H, W, 3) back to RGB, uint8 (H, W, 3)."""
        return np.moveaxis(convert_yuv(np.moveaxis(yuv, -1, 0)[None], self.inverse(coarse))[0], 0, -1)

    def _round_plane(self, plane: Array) -> Array:
        return np.clip(ROUNDINGS[self.rounding](plane), 0, 255).astype(np.uint8)

    def _compute_planes(self, rgb: Array) -> Planes:
        """Returns Y, U and V without rounding. rgb: float64, R, G and B along the last axis."""
        r, g, b = rgb[..., 0], rgb[..., 1], rgb[..., 2]
        kr, kb = WEIGHTS[self.mode]
        y = kr * r + (1 - kr - kb) * g + kb * b
        u, v = (b - y) / (2 * (1 - kb)), (r - y) / (2 * (1 - kr))
        if self.range == "full":
            return y, u + 128, v + 128
        return y * 219 / 255 + 16, u * 224 / 255 + 128, v * 224 / 255 + 128


def _opencv(rgb: Array, name: str) -> Array:
    cv2 = import_extra("cv2", "colour mode opencv (bt601 does without it)")
    return np.asarray(cv2.cvtColor(np.ascontiguousarray(rgb), getattr(cv2, name)))


def _opencv_420(rgb: Array) -> Planes:
    height, width = rgb.shape[:2]
    flat, pixels = _opencv(rgb, "COLOR_RGB2YUV_I420").reshape(-1), height * width
    y, u, v = np.split(flat, [pixels, pixels * 5 // 4])
    half = (height // 2, width // 2)
    return y.reshape(height, width), u.reshape(half), v.reshape(half)
