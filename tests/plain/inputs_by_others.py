"""Inputs of a board as OpenCV, Pillow and numpy alone make them, never our own code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from PIL import Image

MEAN, SCALE = np.float32([120, 110, 100]), np.float32([0.017, 0.018, 0.019])


def photo() -> np.ndarray:
    """Smooth with noise, no symmetry, every channel of its own."""
    generator = np.random.Generator(np.random.PCG64(7))
    smooth = cv2.resize(
        generator.integers(0, 256, (7, 9, 3), np.uint8), (150, 100), interpolation=cv2.INTER_CUBIC
    ).astype(np.int16)
    return (smooth + generator.integers(-9, 10, smooth.shape)).clip(0, 255).astype(np.uint8)


def small(rgb: np.ndarray, how: int = cv2.INTER_LINEAR) -> np.ndarray:
    return cv2.resize(rgb, (64, 48), interpolation=how)


def gray(rgb: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(rgb).convert("L"))


def i420(rgb: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    flat = cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV_I420).reshape(-1)
    y, u, v = np.split(flat, [64 * 48, 64 * 60])
    return y.reshape(48, 64), u.reshape(24, 32), v.reshape(24, 32)


def nv12(y: np.ndarray, u: np.ndarray, v: np.ndarray) -> bytes:
    return y.tobytes() + np.dstack([u, v]).tobytes()


def by_formula(rgb: np.ndarray, kr: float, kb: float, full: bool, mean: bool, how: Callable[[Any], Any]) -> bytes:
    """INPUTS.md section 2, on its own."""

    def planes(x: np.ndarray) -> list[np.ndarray]:
        r, g, b = np.moveaxis(x.astype(np.float64), -1, 0)
        y = kr * r + (1 - kr - kb) * g + kb * b
        u, v = (b - y) / (2 * (1 - kb)), (r - y) / (2 * (1 - kr))
        made = [y, u + 128, v + 128] if full else [y * 219 / 255 + 16, u * 224 / 255 + 128, v * 224 / 255 + 128]
        return [how(p).clip(0, 255).astype(np.uint8) for p in made]

    blocks = rgb.reshape(24, 2, 32, 2, 3).astype(np.float64)
    coarse = blocks.mean(axis=(1, 3)) if mean else blocks[:, 0, :, 0]
    return nv12(planes(rgb)[0], *planes(coarse)[1:])


def half_up(x: np.ndarray) -> np.ndarray:
    return np.floor(x + 0.5)
