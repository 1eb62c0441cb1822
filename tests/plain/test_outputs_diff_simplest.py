"""`outputs diff` prefers one mistake to two, and names no two of which one undoes the other; infinite numbers are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qverify
from qverify.decoders import find_decoder
from qverify.errors import UsageError
from qverify.mistakes import Explanation, Mistake
from qverify.outputs.agreement import Agreement
from qverify.outputs.device import Rows, Written
from qverify.outputs.pairs import list_all_singles
from qverify.outputs.recipe import DeviceEvidence, Output, OutputRecipe
from qverify.outputs.reproduction import Reproduction
from qverify.outputs.trial import RowsTrial
from qverify.outputs.undoing import Undoing

Array = np.ndarray
SIZE, FRAME = (96, 64), (150, 120)
RATIO, PAD = 64 / 120, np.array([8.0, 0.0])
DECODER = "yunet,size=96x64,strides=8,frame=150x120,fit=letterbox,clip=false,score=0.7,iou=0.3"


def faces() -> dict[str, Array]:
    """Returns the outputs of one level: four faces apart from each other."""
    g = np.random.default_rng(3)
    found = {name: np.zeros((1, 96, width)) for name, width in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10))}
    for at, score in ((14, 0.9), (20, 0.85), (64, 0.95), (80, 0.8)):
        found["cls"][0, at], found["obj"][0, at] = score, score
        found["bbox"][0, at], found["kps"][0, at] = g.normal(0, 0.3, 4), g.normal(0, 0.7, 10)
    return {f"{name}_8": values.astype(np.float32) for name, values in found.items()}


def written(outputs: dict[str, Array], turned: bool = False) -> list[dict[str, Any]]:
    """Returns what an application writes. turned: x and y of the landmarks exchanged before the padding is cut."""
    rows = []
    for at in (64, 14, 20, 80):
        cell = np.array([at % 12, at // 12], float)
        box, marks = outputs["bbox_8"][0, at].astype(float), outputs["kps_8"][0, at].astype(float).reshape(5, 2)
        centre, half = (box[:2] + cell) * 8, np.exp(box[2:]) * 4
        marks = (marks + cell) * 8
        marks = (marks[:, ::-1] if turned else marks) - PAD
        corners = (np.array([centre - half, centre + half]) - PAD) / RATIO
        rows.append({"box": corners.ravel().tolist(), "score": float(outputs["cls_8"][0, at, 0]), "class": 0})
        rows[-1]["landmarks"] = (marks / RATIO).ravel().tolist()
    return rows


def mistakes_of(
    folder: Path, outputs: dict[str, Any], device: Any, decoder: str, **options: Any
) -> qverify.OutputsDiff:
    np.savez(folder / "r.npz", **outputs)
    if isinstance(device, np.ndarray):
        np.save(folder / "d.npy", device)
    else:
        (folder / "d.json").write_text(device if isinstance(device, str) else json.dumps(device))
    name = "d.npy" if isinstance(device, np.ndarray) else "d.json"
    return qverify.outputs_diff(folder / "r.npz", folder / name, decoder=decoder, seconds=20, **options)


def test_landmarks_turned_before_the_way_back_are_one_mistake(tmp_path: Path) -> None:
    assert mistakes_of(tmp_path, faces(), written(faces()), DECODER).equal
    found = mistakes_of(tmp_path, faces(), written(faces(), turned=True), DECODER)
    assert found.mistakes == ["keypoints: x and y exchanged in the input, before the way back to the picture"]


def test_two_mistakes_of_which_one_undoes_the_other_are_none() -> None:
    """Boxes, scores and classes are right: turning everything, and the boxes back, explains less than turned landmarks."""
    rows = written(faces(), turned=True)
    theirs = Rows(
        np.array([[*row["box"], *row["landmarks"]] for row in rows]),
        np.array([row["score"] for row in rows]),
        np.zeros(4, np.int64),
    )
    decoder = find_decoder(DECODER)
    trial = RowsTrial(Reproduction(decoder, Written()), Agreement(theirs), detector=True)
    stored = {name: Output(values) for name, values in faces().items()}
    base = OutputRecipe(decoder.settings, DeviceEvidence("boxes", stored, SIZE, rows=4))
    singles = {single.causes[0].said: single.recipe for single in list_all_singles(base, True)}
    turned, back = "letterbox: x and y exchanged before", "box form: x and y exchanged, after NMS"
    both = next(single.recipe for single in list_all_singles(singles[turned], False) if single.causes[0].said == back)
    pair = Explanation((Mistake("letterbox", turned), Mistake("box-form", back)), both)
    assert trial.compare(both) == () and trial.find_right_parts(base) == {"boxes", "scores", "classes"}
    undoing = Undoing(trial, base)
    assert undoing.holds(pair)
    marks = "keypoints: x and y exchanged in the input, before the way back to the picture"
    assert not undoing.holds(Explanation((Mistake("keypoints", marks),), singles[marks]))


@pytest.mark.parametrize("first", [0, 1])
def test_padding_that_is_not_cut_from_a_mask(tmp_path: Path, first: int) -> None:
    planes = np.random.default_rng(6).normal(0, 1, (1, 4, 8, 8)).astype(np.float32)
    labels = planes[0].argmax(axis=0).repeat(2, 0).repeat(2, 1) + first
    whole = labels[np.arange(12) * 16 // 12][:, np.arange(20) * 16 // 20].astype(np.uint8)
    decoder = "segmentation,size=16x16,frame=20x12,fit=letterbox,resize=nearest"
    found = mistakes_of(tmp_path, {"o": planes}, whole, decoder, written="as=mask")
    padding = "labels: the padding is not cut, the whole input becomes the picture"
    assert found.mistakes[0] == (f"labels: +1 + {padding}" if first else padding)
    if first == 0:
        inside = mistakes_of(tmp_path, {"o": planes}, labels.astype(np.uint8), decoder, written="as=mask")
        assert inside.mistakes[0] == "labels: left in the size of the input"


DECODED = "yolov8,size=64x64,classes=2,clip=false"


def test_a_size_beyond_float32_is_infinite_on_the_device(tmp_path: Path) -> None:
    """yolox without its scale: exp of a whole number."""
    q = np.full((1, 84, 7), 0, np.uint8)
    q[0, 5, :] = [3, 4, 200, 2, 1, 250, 1]
    q[0, 70, :] = [1, 2, 3, 1, 1, 1, 240]
    rows: list[dict[str, Any]] = []
    for at in (70, 5):
        values = q[0, at].astype(np.float32)
        x, y = (at % 8, at // 8) if at < 64 else ((at - 64) % 4, (at - 64) // 4)
        stride = np.float32(8 if at < 64 else 16)
        with np.errstate(over="ignore"):
            centre = (values[:2] + np.array([x, y], np.float32)) * stride
            half = np.exp(values[2:4]) * stride / 2
        scores = values[5:] * values[4]
        box = np.concatenate([centre - half, centre + half])
        rows.append({"class": int(scores.argmax()), "score": float(scores.max()), "box": [float(v) for v in box]})
    rows.sort(key=lambda row: -row["score"])
    assert "-Infinity" in json.dumps(rows)
    decoder = "yolox,size=64x64,classes=2,clip=false,activation=none"
    np.savez(tmp_path / "r.npz", o=q)
    for name, text in (("d.json", json.dumps(rows)), ("d.csv", _as_csv(rows))):
        (tmp_path / name).write_text(text)
        found = qverify.outputs_diff(tmp_path / "r.npz", tmp_path / name, decoder=decoder, output=["o=0.02,0"])
        assert any("dequantization: " in mistake for mistake in found.mistakes), str(found)
    rows[1]["box"][0] = 0.0
    (tmp_path / "d.json").write_text(json.dumps(rows))
    found = qverify.outputs_diff(
        tmp_path / "r.npz", tmp_path / "d.json", decoder=decoder, output=["o=0.02,0"], seconds=3
    )
    assert not found.equal and not found.mistakes


def _as_csv(rows: list[dict[str, Any]]) -> str:
    return "\n".join(",".join(map(str, (*row["box"], row["score"], row["class"]))) for row in rows)


@pytest.mark.parametrize("text", ['[{"class": 0, "score": 0.5, "box": [NaN, 1, 2, 3]}]', "nan,1,2,3,0.5,0\n"])
def test_nan_is_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    out = {"o": np.zeros((1, 6, 84), np.float32)}
    with pytest.raises(UsageError, match=r"NaN, which is equal to nothing; wanted numbers: look where"):
        mistakes_of(tmp_path, out, text, DECODED)


def test_an_infinite_score_is_refused(tmp_path: Path) -> None:
    out = {"o": np.zeros((1, 6, 84), np.float32)}
    with pytest.raises(UsageError, match="a score that is infinite"):
        mistakes_of(tmp_path, out, '[{"class": 0, "score": Infinity, "box": [0, 1, 2, 3]}]', DECODED)
