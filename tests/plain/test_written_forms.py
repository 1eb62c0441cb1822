"""Keypoints in one object, and lists of characters in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import qverify
from qverify.decoders import find_decoder
from qverify.errors import UsageError

MAPS = np.random.default_rng(0).random((1, 5, 8, 8)).astype(np.float32)


def points() -> list[list[float]]:
    found = find_decoder("heatmaps,size=32x32").decode({"o": MAPS})
    return [[x, y, s] for (x, y), s in zip(found.points.tolist(), found.scores.tolist(), strict=True)]  # type: ignore[union-attr]


def compared(path: Path, content: Any) -> Any:
    np.savez(path / "r.npz", o=MAPS)
    (path / "d.json").write_text(json.dumps(content))
    return qverify.outputs_diff(path / "r.npz", path / "d.json", decoder="heatmaps,size=32x32")


def test_keypoints_in_one_object(tmp_path: Path) -> None:
    rows = points()
    for content in (
        [{"keypoints": rows}],
        {"keypoints": rows},
        [{"keypoints": [v for row in rows for v in row]}],
        {"image": "a.jpg", "keypoints": [row[:2] for row in rows], "keypoint_scores": [row[2] for row in rows]},
        [{"keypoints": [{"x": x, "y": y, "score": s} for x, y, s in rows], "score": 0.9}],
        [{"x": x, "y": y, "score": s} for x, y, s in rows],
    ):
        found = compared(tmp_path, content)
        assert found.equal and found.parts[0].difference.size == "5 rows", content
    moved = [[y, x, s] for x, y, s in rows]
    assert "keypoints: x and y exchanged" in compared(tmp_path, [{"keypoints": moved}]).mistakes


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([{"keypoints": [[1, 2, 0.5]]}, {"keypoints": [[1, 2, 0.5]]}], "2 objects with keypoints"),
        ([{"keypoints": [1, 2, 3, 4]}], "4 numbers of keypoints"),
        ([{"keypoints": 3}], "keypoints that are no list"),
    ],
)
def test_other_forms_of_keypoints_are_refused(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        compared(tmp_path, content)


def test_characters_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in (("a.txt", "a\nb\n \nd\n"), ("b", "ab d"), ("c.txt", "a\r\nb\r\n \r\nd")):
        (tmp_path / name).write_bytes(content.encode())
        assert find_decoder(f"ctc,characters={name}").settings.characters == "ab d"
    assert find_decoder("ctc,characters=0123").settings.characters == "0123"
    many = "".join(chr(0x4E00 + at) for at in range(6623))
    (tmp_path / "keys.txt").write_text("\n".join(many) + "\n", encoding="utf-8")
    assert find_decoder("ctc,characters=keys.txt").settings.characters == many
    (tmp_path / "wrong.txt").write_text("a\nbc\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    for name, said in (("wrong", "line 2 has 2"), ("empty", "empty"), ("bytes", "not UTF-8"), ("no", "no such file")):
        with pytest.raises(UsageError, match=said):
            find_decoder(f"ctc,characters={name}.txt")


def test_corners_of_turned_boxes_in_any_order(tmp_path: Path) -> None:
    """The corners are those of OpenCV: of three plain rectangles and a turned one, grown as the decoder states it."""
    heat = np.zeros((1, 1, 96, 96), np.float32)
    for box, angle in (((20, 20, 24, 10), 0), ((70, 20, 30, 12), 0), ((24, 70, 12, 30), 0), ((66, 66, 36, 12), 30)):
        corners = cv2.boxPoints((box[:2], box[2:], angle))
        cv2.fillPoly(heat[0, 0], [np.rint(corners).astype(np.int32)], 0.9)
    rows = []
    for contour in cv2.findContours((heat[0, 0] > 0.3).astype(np.uint8), cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)[0]:
        centre, (wide, high), angle = cv2.minAreaRect(contour)
        grown = wide * high * 1.5 / (2 * (wide + high))
        points = cv2.boxPoints((centre, (wide + 2 * grown, high + 2 * grown), angle))
        rows.append({"points": points.tolist(), "score": 0.9})
    np.savez(tmp_path / "r.npz", o=heat)
    found = []
    for turn, order in ((0, 1), (1, 1), (2, -1)):
        written = [{**row, "points": np.roll(row["points"], turn, axis=0)[::order].tolist()} for row in rows]
        (tmp_path / "d.json").write_text(json.dumps(written))
        found.append(qverify.outputs_diff(tmp_path / "r.npz", tmp_path / "d.json", decoder="ppocr-det", seconds=5))
    assert [f.equal for f in found] == [True] * 3, [f.parts[0].difference.nearest for f in found]
    rows[0]["points"][0][0] += 1
    (tmp_path / "d.json").write_text(json.dumps(rows))
    assert not qverify.outputs_diff(tmp_path / "r.npz", tmp_path / "d.json", decoder="ppocr-det", seconds=1).equal
