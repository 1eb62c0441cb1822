"""Where neither `fit` nor `clip` is stated, `outputs diff` takes a right device for right, however its pictures were fitted into
the input, says what it assumed, and calls this no second mistake. The devices are of this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qverify

SIDE, FRAME, CLASSES = 64, (160, 96), 3
RATIO = SIDE / 160
WAYS = {
    "letterbox": (np.array([0.0, 13.0]), np.array([RATIO, RATIO])),
    "letterbox-top-left": (np.zeros(2), np.array([RATIO, RATIO])),
    "stretch": (np.zeros(2), np.array([SIDE / 160, SIDE / 96])),
}


def yolox_outputs() -> np.ndarray:
    """(1, 84, 8): few anchors with a score, apart from each other, some of whose boxes reach over the border."""
    g = np.random.default_rng(5)
    out = np.zeros((1, 84, 5 + CLASSES), np.float32)
    out[0, :, :4] = g.uniform(-0.2, 0.9, (84, 4))
    out[0, ::5, 4], out[0, ::5, 5:] = g.uniform(0.7, 0.95, 17), g.uniform(0.05, 0.95, (17, CLASSES))
    return out


def device_of(out: np.ndarray, fit: str, clip: bool, first: int = 0, alone: bool = False) -> list[dict[str, Any]]:
    """Returns the rows of an application without NMS. first: number of class 0. alone: the objectness is left out."""
    pad, ratio = WAYS[fit]
    sides = [8, 4, 2]
    cells = [(x, y, SIDE // s) for s in sides for y in range(s) for x in range(s)]
    rows = []
    for (x, y, stride), values in zip(cells, out[0].astype(float), strict=True):
        score = values[5:].max() * (1.0 if alone else values[4])
        if score <= 0.25:
            continue
        centre, half = (values[:2] + np.array([x, y])) * stride, np.exp(values[2:4]) * stride / 2
        box = (np.stack([centre - half, centre + half]) - pad) / ratio
        box = np.clip(box, 0, FRAME) if clip else box
        rows.append({"class": int(values[5:].argmax()) + first, "score": float(score), "box": box.reshape(-1).tolist()})
    return sorted(rows, key=lambda r: -float(r["score"]))


def compared(path: Path, rows: list[dict[str, Any]], stated: str = "", out: np.ndarray | None = None) -> Any:
    np.savez(path / "reference.npz", output=yolox_outputs() if out is None else out)
    (path / "device.json").write_text(json.dumps(rows))
    decoder = f"yolox,size=64x64,frame=160x96,nms=none{stated}"
    return qverify.outputs_diff(str(path / "reference.npz"), str(path / "device.json"), decoder=decoder)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("fit", [*WAYS])
def test_a_right_device_is_equal_with_a_note(tmp_path: Path, fit: str, clip: bool) -> None:
    found = compared(tmp_path, device_of(yolox_outputs(), fit, clip))
    assert found.equal
    assert any(f"fit={fit} and clip={str(clip).lower()} are assumed" in note for note in notes(found))


def test_what_is_stated_is_held_to(tmp_path: Path) -> None:
    rows = device_of(yolox_outputs(), "letterbox", True)
    right = compared(tmp_path, rows, ",fit=letterbox,clip=true")
    assert right.equal and not notes(right)
    wrong = compared(tmp_path, rows, ",fit=stretch,clip=true")
    assert not wrong.equal and said(wrong)[0] == ("letterbox: taken as centred in the input",)
    of_clip = compared(tmp_path, device_of(yolox_outputs(), "letterbox", False), ",clip=true")
    assert said(of_clip)[0] == ("clip: boxes are not clipped to the picture",)
    assert any("fit=letterbox is assumed" in note for note in notes(of_clip))


@pytest.mark.parametrize("fit", [*WAYS])
def test_one_mistake_stays_one(tmp_path: Path, fit: str) -> None:
    found = compared(tmp_path, device_of(yolox_outputs(), fit, True, alone=True))
    assert said(found)[0] == ("score: the class score alone, without objectness",)
    assert {len(causes) for causes in said(found)} == {1}
    assert any(f"fit={fit}" in note for note in notes(found))
    assert said(compared(tmp_path, device_of(yolox_outputs(), fit, True, first=1)))[0] == ("class number: +1",)


def test_the_family_of_centred_letterboxes_needs_no_statement(tmp_path: Path) -> None:
    out = np.zeros((1, 4 + CLASSES, 84), np.float32)
    g = np.random.default_rng(1)
    out[0, :2], out[0, 2:4], out[0, 4:, ::12] = g.uniform(16, 36, (2, 84)), 8, g.uniform(0.3, 0.9, (3, 7))
    np.savez(tmp_path / "reference.npz", o=out)
    rows = [
        {
            "class": int(np.argmax(s)),
            "score": float(max(s)),
            "box": [x / 0.4 - 10, y / 0.4 - 10, x / 0.4 + 10, y / 0.4 + 10],
        }
        for x, y, _, _, *s in out[0, :, ::12].T.tolist()
    ]
    (tmp_path / "device.json").write_text(json.dumps(rows))
    decoder = "yolov8,frame=160x96,nms=none"
    found = qverify.outputs_diff(str(tmp_path / "reference.npz"), str(tmp_path / "device.json"), decoder=decoder)
    assert "letterbox: taken as lying at the top left: the padding is not cut" in {c for e in said(found) for c in e}


def said(found: Any) -> list[tuple[str, ...]]:
    return [
        tuple(cause["said"] for cause in causes)
        for part in found.to_json()["parts"]
        for g in part["exact"]
        for causes in g
    ]


def notes(found: Any) -> list[str]:
    return [note for part in found.to_json()["parts"] for note in part["notes"]]
