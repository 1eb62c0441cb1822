"""Roundings of float32 that are larger than the result: differences of large numbers, and boxes far outside of the picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qverify

SCALE, ZERO = 0.08584731072187424, 4
Array = np.ndarray


def codes() -> Array:
    return np.random.default_rng(2).integers(-128, 128, (1, 256)).astype(np.int8)


def mistakes_of(path: Path, written: Array) -> list[str]:
    np.savez(path / "r.npz", embed=codes())
    np.savez(path / "d.npz", embed=written)
    found = qverify.outputs_diff(path / "r.npz", path / "d.npz", output=[f"embed={SCALE},{ZERO}"])
    assert not found.equal
    return list(found.mistakes)


def test_dequantized_twice_in_float32(tmp_path: Path) -> None:
    once = (codes().astype(np.float32) - np.float32(ZERO)) * np.float32(SCALE)
    twice = (once - np.float32(ZERO)) * np.float32(SCALE)
    assert mistakes_of(tmp_path, twice)[0] == "dequantization: applied twice"
    scale = float(np.float32(SCALE))
    exact = ((codes().astype(np.float64) - ZERO) * scale - ZERO) * scale
    assert (np.abs(twice - exact) > 2.0**-21 * np.abs(exact)).any()  # else it is no test of the difference


def test_the_zero_point_after_the_scale_in_float32(tmp_path: Path) -> None:
    written = codes().astype(np.float32) * np.float32(SCALE) - np.float32(ZERO)
    assert mistakes_of(tmp_path, written)[0] == "zero point: subtracted after the scale"


def test_a_value_farther_away_is_no_rounding(tmp_path: Path) -> None:
    once = (codes().astype(np.float32) - np.float32(ZERO)) * np.float32(SCALE)
    written = (once - np.float32(ZERO)) * np.float32(SCALE)
    written[0, 7] += np.float32(2e-5)
    assert mistakes_of(tmp_path, written) == []


def softmax_is_missing(bins: Array) -> Array:
    return np.asarray((bins * np.arange(16, dtype=np.float32)).sum(axis=2, dtype=np.float32))


@pytest.mark.parametrize("clip", [True, False])
def test_bins_without_softmax(tmp_path: Path, clip: bool) -> None:
    """The boxes are hundreds of times larger than the picture, and turned inside out."""
    g = np.random.default_rng(3)
    out = np.concatenate([g.normal(0, 60, (1, 64, 8, 8)), np.full((1, 2, 8, 8), -6.0)], axis=1).astype(np.float32)
    out[0, 64, ::3, ::3] = g.uniform(0, 3, (3, 3))
    out[0, 65, 1::3, 1::3] = g.uniform(0, 3, (3, 3))
    np.savez(tmp_path / "r.npz", o=out)
    rows: list[dict[str, Any]] = []
    for at, values in enumerate(out[0].reshape(66, 64).T):
        score = 1 / (1 + np.exp(-values[64:]))
        if score.max() > 0.25:
            away = softmax_is_missing(values[:64].reshape(1, 4, 16))[0]
            centre = np.array([at % 8 + 0.5, at // 8 + 0.5], np.float32)
            box = np.concatenate([centre - away[:2], centre + away[2:]]) * np.float32(8)
            box = np.clip(box, 0, 64) if clip else box
            rows.append({"class": int(score.argmax()), "score": float(score.max()), "box": [float(v) for v in box]})
    (tmp_path / "d.json").write_text(json.dumps(rows))
    decoder = f"yolov8,strides=8,size=64x64,classes=2,nms=none,clip={str(clip).lower()}"
    found = qverify.outputs_diff(tmp_path / "r.npz", tmp_path / "d.json", decoder=decoder)
    assert found.mistakes[0] == "distances: the softmax over the bins is missing"
