"""Decoders against decoders of the tests' own: plain loops over cells in the formulas of the networks' papers, numpy and
OpenCV, no code of the verifier's."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
import pytest
from qverify import decoders
from qverify.decoders import Boxes, Settings, find_decoder
from qverify.errors import UsageError

MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"
SIDE = 64  # pixels: 8 x 8, 4 x 4 and 2 x 2 cells
CLASSES = 5
Row = tuple[float, float, float, float, float, int]  # x1, y1, x2, y2, score, class


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def overlap(a: Row, b: Row) -> float:
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    inner = max(wide, 0) * max(high, 0)
    return inner / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inner)


def keep(rows: list[Row], score: float, iou: float) -> list[Row]:
    """Greedy NMS by class, one pair at a time."""
    kept: list[Row] = []
    for row in sorted((r for r in rows if r[4] > score), key=lambda r: -r[4]):
        if all(row[5] != other[5] or overlap(row, other) <= iou for other in kept):
            kept.append(row)
    return kept


def from_centre(x: float, y: float, wide: float, high: float, score: float, label: int) -> Row:
    return x - wide / 2, y - high / 2, x + wide / 2, y + high / 2, score, label


def clip(rows: list[Row], wide: float, high: float) -> list[Row]:
    return [
        (min(max(a, 0), wide), min(max(b, 0), high), min(max(c, 0), wide), min(max(d, 0), high), s, label)
        for a, b, c, d, s, label in rows
    ]


def same(found: Any, rows: list[Row]) -> None:
    assert isinstance(found, Boxes)
    assert len(rows) > 3, "nothing to compare"
    assert len(found) == len(rows)
    np.testing.assert_allclose(found.boxes, [r[:4] for r in rows], rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.scores, [r[4] for r in rows], rtol=0, atol=1e-12)
    assert found.classes.tolist() == [r[5] for r in rows]


def heads(seed: int, channels: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        f"stride{s}": generator.normal(0, 1.5, (1, channels, SIDE // s, SIDE // s)).astype(np.float32)
        for s in (8, 16, 32)
    }


ANCHORS = {
    "yolov5": [[10, 13, 16, 30, 33, 23], [30, 61, 62, 45, 59, 119], [116, 90, 156, 198, 373, 326]],
    "yolov7": [[12, 16, 19, 36, 40, 28], [36, 75, 76, 55, 72, 146], [142, 110, 192, 243, 459, 401]],
    "yolov3": [[10, 13, 16, 30, 33, 23], [30, 61, 62, 45, 59, 119], [116, 90, 156, 198, 373, 326]],
}


@pytest.mark.parametrize("name", sorted(ANCHORS))
def test_anchors(name: str) -> None:
    outputs = heads(1, 3 * (5 + CLASSES))
    rows = []
    for (_, head), anchors, stride in zip(outputs.items(), ANCHORS[name], (8, 16, 32), strict=True):
        for at in range(3):
            for y in range(SIDE // stride):
                for x in range(SIDE // stride):
                    v = [float(head[0, at * (5 + CLASSES) + c, y, x]) for c in range(5 + CLASSES)]
                    wide, high = anchors[2 * at : 2 * at + 2]
                    if name == "yolov3":
                        centre = (sigmoid(v[0]) + x) * stride, (sigmoid(v[1]) + y) * stride
                        extent = math.exp(v[2]) * wide, math.exp(v[3]) * high
                    else:
                        centre = (2 * sigmoid(v[0]) - 0.5 + x) * stride, (2 * sigmoid(v[1]) - 0.5 + y) * stride
                        extent = (2 * sigmoid(v[2])) ** 2 * wide, (2 * sigmoid(v[3])) ** 2 * high
                    label = max(range(CLASSES), key=lambda c: v[5 + c])
                    rows.append(from_centre(*centre, *extent, sigmoid(v[4]) * sigmoid(v[5 + label]), label))
    wanted = clip(keep(rows, 0.5, 0.45), SIDE, SIDE)
    decoder = find_decoder(f"{name},score=0.5")
    same(decoder.decode(outputs), wanted)
    five = {n: v.reshape(1, 3, 5 + CLASSES, *v.shape[2:]).transpose(0, 1, 3, 4, 2) for n, v in outputs.items()}
    same(decoder.decode(five), wanted)
    same(decoder.decode(dict(reversed(outputs.items()))), wanted)


def distance(bins: np.ndarray) -> float:
    powers = [math.exp(float(v)) for v in bins]
    return sum(at * p for at, p in enumerate(powers)) / sum(powers)


def test_yolov8_in_every_form() -> None:
    outputs = heads(2, 64 + CLASSES)
    for head in outputs.values():
        head[:, 64:] -= 1
    rows = []
    for head, stride in zip(outputs.values(), (8, 16, 32), strict=True):
        for y in range(SIDE // stride):
            for x in range(SIDE // stride):
                left, up, right, down = (distance(head[0, 16 * side : 16 * side + 16, y, x]) for side in range(4))
                label = int(head[0, 64:, y, x].argmax())
                score = sigmoid(float(head[0, 64 + label, y, x]))
                rows.append(
                    (
                        (x + 0.5 - left) * stride,
                        (y + 0.5 - up) * stride,
                        (x + 0.5 + right) * stride,
                        (y + 0.5 + down) * stride,
                        score,
                        label,
                    )
                )
    wanted = clip(keep(rows, 0.25, 0.45), SIDE, SIDE)
    decoder = find_decoder("yolov8")
    flat = {n: v.reshape(1, 64 + CLASSES, -1) for n, v in outputs.items()}
    joined = np.concatenate([*flat.values()], axis=2)
    decoded = np.array(
        [[(r[0] + r[2]) / 2, (r[1] + r[3]) / 2, r[2] - r[0], r[3] - r[1]] + [0.0] * CLASSES for r in rows]
    )
    decoded[:, 4:] = [[sigmoid(float(v)) for v in column] for column in joined[0, 64:].T]
    forms = [
        outputs,
        {n: v.transpose(0, 2, 3, 1) for n, v in outputs.items()},
        {
            n + part: v[:, some]
            for n, v in outputs.items()
            for part, some in (("box", slice(64)), ("cls", slice(64, None)))
        },
        {
            n + part: v[:, some]
            for n, v in outputs.items()
            for part, some in (("cls", slice(64, None)), ("box", slice(64)))
        },
        {"boxes": joined[:, :64], "scores": joined[:, 64:]},
        {"output0": decoded.T[None]},
        {"output0": decoded[None]},
        {"boxes": decoded[:, :4].T[None], "scores": decoded[:, 4:].T[None]},
    ]
    for form in forms:
        same(decoder.decode(form), wanted)
    same(find_decoder(f"yolov8,classes={CLASSES},size=64x64").decode({"all": joined}), wanted)


def test_letterbox_is_undone() -> None:
    """A picture of 100 x 50 in 64 x 64: 64 x 32, with 16 rows above."""
    decoded = np.zeros((1, 4 + CLASSES, 84))
    decoded[0, :5, 7] = [32, 32, 32, 16, 0.9]
    found = find_decoder("yolov8,frame=100x50").decode({"o": decoded})
    assert isinstance(found, Boxes)
    np.testing.assert_allclose(found.boxes, [[25, 12.5, 75, 37.5]])
    stretched = find_decoder("yolov8,frame=100x50,fit=stretch").decode({"o": decoded})
    assert isinstance(stretched, Boxes)
    np.testing.assert_allclose(stretched.boxes, [[25, 18.75, 75, 31.25]])


def test_nms_equals_that_of_opencv() -> None:
    generator = np.random.default_rng(3)
    low = generator.uniform(0, 100, (300, 2))
    boxes = np.concatenate([low, low + generator.uniform(5, 60, (300, 2))], axis=1)
    scores = generator.permutation(300) / 300
    decoded = np.zeros((1, 300, 5))
    decoded[0, :, :2], decoded[0, :, 2:4], decoded[0, :, 4] = (
        (boxes[:, :2] + boxes[:, 2:]) / 2,
        boxes[:, 2:] - boxes[:, :2],
        scores,
    )
    theirs = cv2.dnn.NMSBoxes([[x, y, a - x, b - y] for x, y, a, b in boxes.tolist()], scores.tolist(), 0.3, 0.4)
    order = np.argsort(-scores)
    from qverify.decoders.parts.selection import find_kept

    order = order[scores[order] > 0.3]
    ours = order[find_kept(boxes[order], np.zeros(len(order), np.int64), 0.4)]
    assert 5 < len(ours) < 200 and ours.tolist() == np.asarray(theirs).reshape(-1).tolist()


def test_yunet_equals_opencvs_own_decoder(tmp_path: Path) -> None:
    """FaceDetectorYN runs and decodes the network itself."""
    model = MODELS / "yunet_n_320" / "yunet_n_320.onnx"
    if not model.exists():
        pytest.skip(f"no {model.name}")
    picture = np.full((320, 320, 3), 90, np.uint8)
    for x, y, size in ((80, 90, 40), (220, 200, 55)):
        cv2.ellipse(picture, (x, y), (size, int(size * 1.3)), 0, 0, 360, (150, 180, 220), -1)
        for side in (-1, 1):
            cv2.circle(picture, (x + side * size // 2, y - size // 4), size // 8, (20, 20, 20), -1)
        cv2.ellipse(picture, (x, y + size // 2), (size // 3, size // 8), 0, 0, 180, (60, 60, 160), 4)
    session = onnxruntime.InferenceSession(str(model))
    values = session.run(None, {"input": picture.transpose(2, 0, 1)[None].astype(np.float32)})
    outputs = {o.name: v for o, v in zip(session.get_outputs(), values, strict=True)}
    detector = cv2.FaceDetectorYN.create(str(model), "", (320, 320), 0.05, 0.3, 5000)
    faces = np.asarray(detector.detect(picture)[1])
    found = find_decoder("yunet,score=0.05").decode(outputs)
    assert isinstance(found, Boxes) and found.keypoints is not None and len(faces) == len(found) > 0
    np.testing.assert_allclose(found.scores, faces[:, 14], atol=2e-3)  # two runtimes computed the network
    np.testing.assert_allclose(found.boxes[:, :2], faces[:, :2], atol=0.05)
    np.testing.assert_allclose(found.boxes[:, 2:] - found.boxes[:, :2], faces[:, 2:4], atol=0.05)
    np.testing.assert_allclose(found.keypoints.reshape(-1, 10), faces[:, 4:14], atol=0.05)


NOTHING: list[dict[str, Any]] = [
    {},
    {"o": np.zeros((3, 3, 3))},
    {"o": np.zeros((2, 84, 8400))},
    {"o": np.array(["text"])},
    {"a": np.zeros((1, 4, 7)), "b": np.zeros((1, 5, 9)), "c": np.zeros(())},
]


@pytest.mark.parametrize("page", decoders.pages(), ids=lambda p: p.NAME)
def test_outputs_of_other_shapes_are_refused_in_one_line(page: Any) -> None:
    for outputs in NOTHING[0], NOTHING[3], NOTHING[4]:
        with pytest.raises(UsageError) as refused:
            page.decode(outputs, page.DEFAULTS)
        assert "\n" not in str(refused.value)


def test_a_function_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np\ndef good(outputs, settings):\n    return np.zeros((1, 4)), np.ones(1), np.array([settings.classes])\n"
        "def bad(outputs, settings):\n    return 7\ndef worse(outputs, settings):\n    raise ValueError('no\\nbox')\n"
    )
    found = find_decoder(f"{tmp_path}/mine.py:good,classes=3").decode({})
    assert isinstance(found, Boxes) and found.classes.tolist() == [3]
    for name in "bad", "worse", "none":
        with pytest.raises(UsageError) as refused:
            find_decoder(f"{tmp_path}/mine.py:{name}").decode({})
        assert "mine.py" in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "yolo8",
        "",
        "yolov8,score",
        "yolov8,score=2",
        "yolov8,scor=0.1",
        "yolov8,iou=0.1,iou=0.2",
        "yolov8,size=0x3",
        "yolov8,nms=soft",
    ],
)
def test_wrong_settings_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        find_decoder(text)


def test_settings_of_a_description() -> None:
    decoder = find_decoder("", {"name": "yolov5", "size": [64, 32], "anchors": [[1, 2], [3, 4], [5, 6]], "score": 0.5})
    assert decoder.settings.size == (64, 32) and decoder.settings.anchors[2] == (5.0, 6.0)
    assert find_decoder("yolov5,score=0.1", {"score": 0.5, "iou": 0.3}).settings == Settings(
        score=0.1, iou=0.3, anchors=find_decoder("yolov5").settings.anchors
    )
