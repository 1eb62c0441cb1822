"""Class scores that an application reads from one channel too early or too late, of detectors without an objectness; and maps of
yolov8 whose channels could be read in two ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qverify
from qverify.decoders import find_decoder
from qverify.errors import UsageError

CLASSES = 5
Array = np.ndarray


def decoded() -> Array:
    g = np.random.default_rng(4)
    out = np.zeros((1, 4 + CLASSES, 84), np.float32)
    out[0, :2], out[0, 2:4] = g.uniform(4, 60, (2, 84)), g.uniform(0.2, 0.9, (2, 84))
    out[0, 4:] = g.uniform(0.0, 0.2, (CLASSES, 84))
    out[0, 4:, ::4] = g.uniform(0.3, 0.9, (CLASSES, 21))
    return out


def rows_of(out: Array, scores: Array) -> list[dict[str, Any]]:
    rows = []
    for (x, y, w, h), values in zip(out[0, :4].T.astype(float), scores.T, strict=True):
        if values.max() > 0.25:
            box = [x - w / 2, y - h / 2, x + w / 2, y + h / 2]
            rows.append({"class": int(values.argmax()), "score": float(values.max()), "box": box})
    return rows


def read(path: Path, decoder: str, out: Array, scores: Array) -> list[str]:
    np.savez(path / "r.npz", o=out)
    (path / "d.json").write_text(json.dumps(rows_of(out, scores)))
    found = qverify.outputs_diff(path / "r.npz", path / "d.json", decoder=f"{decoder},size=64x64,nms=none,clip=false")
    assert not found.equal
    return list(found.mistakes)


@pytest.mark.parametrize("family", ["yolov8", "yolo11"])
def test_one_channel_too_early_or_late(tmp_path: Path, family: str) -> None:
    out = decoded()
    early = "class scores: from one channel too early"
    assert read(tmp_path, family, out, out[0, 3:-1])[0] == early  # the height comes first
    assert read(tmp_path, family, out, out[0, 3:]) == [f"{early}, one class more"]
    assert read(tmp_path, family, out, out[0, 5:])[0] == "class scores: from one channel too late"


def test_the_first_class_taken_for_the_objectness(tmp_path: Path) -> None:
    out = decoded()
    found = read(tmp_path, "yolov8", out, out[0, 4] * out[0, 5:])
    assert found[0] == "class scores: from one channel too late, the first of them taken for the objectness"


def test_one_map_of_bins_and_classes_is_raw() -> None:
    """(1, 64 + 4, 16, 16) is bins and 4 classes, also where only one level and no number of classes is stated."""
    outputs = {"o": np.random.default_rng(0).normal(0, 2, (1, 68, 16, 16)).astype(np.float32)}
    plain, stated = (find_decoder(f"yolov8,size=128x128,strides=8{more}") for more in ("", ",classes=4"))
    assert plain.candidates is not None
    assert plain.candidates(outputs, plain.settings).values.shape == (256, 4)
    assert np.array_equal(
        plain.function(outputs, plain.settings).boxes, stated.function(outputs, stated.settings).boxes
    )  # type: ignore[union-attr]
    flat = {"o": np.ascontiguousarray(outputs["o"].reshape(1, 68, 256))}
    assert plain.candidates(flat, plain.settings).values.shape == (256, 64)  # without a grid: what the network decoded
    with pytest.raises(UsageError, match="wanted"):
        find_decoder("yolov8,size=128x128,strides=8,classes=5").decode(outputs)
