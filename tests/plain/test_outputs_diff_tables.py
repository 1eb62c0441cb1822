"""Mistakes of the tables of `outputs diff`, each made by an application of this file: heads with anchors, distributions of
distances, faces, arrays, heatmaps, masks, text and classes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qverify
from qverify.errors import UsageError
from qverify.outputs.hypotheses import pages
from qverify.outputs.tables import rows as table_rows

Array = np.ndarray
SIZE, FRAME, CLASSES = (96, 64), (150, 120), 3
STRIDES, RATIO = (8, 16), 64 / 120
PAD = np.array([(96 - 80) // 2, 0.0])
ANCHORS = np.array([[[10, 14], [20, 16], [16, 30]], [[30, 40], [50, 30], [40, 60]]], float)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def iou(a: Array, b: Array) -> Array:
    low, high = np.maximum(a[:2], b[:, :2]), np.minimum(a[2:], b[:, 2:])
    inner = np.maximum(high - low, 0).prod(axis=1)
    return inner / ((a[2:] - a[:2]).prod() + (b[:, 2:] - b[:, :2]).prod(axis=1) - inner)


def greedy(boxes: Array, scores: Array, classes: Array, keys: Array | None = None, overlap: Any = iou) -> list[int]:
    """Places of the boxes that NMS at 0.2 keeps, by falling keys."""
    order = np.argsort(-(scores if keys is None else keys), kind="stable").tolist()
    kept: list[int] = []
    while order:
        first = order.pop(0)
        kept.append(first)
        over = overlap(boxes[first], boxes[order]) if order else np.zeros(0)
        order = [at for at, v in zip(order, over, strict=True) if v <= 0.2 or classes[at] != classes[first]]
    return kept


def cells_of(stride: int) -> Array:
    y, x = np.mgrid[0 : SIZE[1] // stride, 0 : SIZE[0] // stride]
    return np.stack([x.ravel(), y.ravel()], 1).astype(float)


# --- an application with anchors
HEAD: dict[str, Any] = {
    "centre": lambda t: 2 * sigmoid(t) - 0.5,
    "size": lambda t: (2 * sigmoid(t)) ** 2,
    "above": lambda c, o, v: c * o > 0.3,
    "score": lambda c, o, v: c * o,
    "nms": greedy,
    "back": lambda b: (b.reshape(-1, 2, 2) - PAD) / RATIO,
    "clip": lambda b: np.clip(b, 0, FRAME),
    "written": lambda c, o, v: c * o,
    "classes": lambda p: p.argmax(axis=1),
    "mixed": lambda boxes, scores, classes: (boxes, scores, classes),
    "read": lambda head: head,
}


def heads(seed: int = 3) -> dict[str, Array]:
    g = np.random.default_rng(seed)
    found = {}
    for at, stride in enumerate(STRIDES):
        values = g.normal(0, 1.2, (1, 3, 5 + CLASSES, SIZE[1] // stride, SIZE[0] // stride))
        values[:, :, 4] = g.normal(-1.2, 3, values[:, :, 4].shape)
        values[:, :, 5:] -= 0.6
        found[f"p{at}"] = values.reshape(1, -1, *values.shape[3:]).astype(np.float32)
    return found


def by_anchors(outputs: dict[str, Array], **changed: Any) -> list[dict[str, Any]]:
    steps = HEAD | changed
    boxes, parts = [], []
    for at, stride in enumerate(STRIDES):
        head = steps["read"](outputs[f"p{at}"].astype(float))
        head = head.reshape(3, 5 + CLASSES, -1).transpose(0, 2, 1)
        for anchor in range(3):
            t = head[anchor]
            centre = (steps["centre"](t[:, :2]) + cells_of(stride)) * stride
            half = steps["size"](t[:, 2:4]) * ANCHORS[at, anchor] / 2
            boxes.append(np.concatenate([centre - half, centre + half], 1))
            parts.append(t[:, 4:])
    b, raw = np.concatenate(boxes), np.concatenate(parts)
    labels = steps["classes"](raw[:, 1:])
    value = raw[np.arange(len(raw)), 1 + labels]
    c, o = sigmoid(value), sigmoid(raw[:, 0])
    keep = np.flatnonzero(steps["above"](c, o, value))
    b, c, o, value, labels = b[keep], c[keep], o[keep], value[keep], labels[keep]
    score = steps["score"](c, o, value)
    b, score, labels = steps["mixed"](b, score, labels)
    kept = steps["nms"](b, score, labels)
    written = steps["written"](c, o, value) if steps["written"] is not HEAD["written"] else score
    corners = steps["clip"](steps["back"](b[kept])).reshape(-1, 4)
    return [
        {"box": np.float32(x).tolist(), "score": float(np.float32(s)), "class": int(k)}
        for x, s, k in zip(corners, written[kept], labels[kept], strict=True)
    ]


def sorted_apart(what: str) -> Callable[..., Any]:
    def mix(b: Array, s: Array, k: Array) -> Any:
        order = np.argsort(-s, kind="stable")
        return (b if what == "boxes" else b[order]), s[order], (k if what == "classes" else k[order])

    return mix


def clip_corner(points: Array) -> Array:
    corner = np.clip(points[:, 0], 0, FRAME)
    return np.stack([corner, corner + points[:, 1] - points[:, 0]], 1)


def diou(a: Array, b: Array) -> Array:
    low, high = np.minimum(a[:2], b[:, :2]), np.maximum(a[2:], b[:, 2:])
    away = (((a[:2] + a[2:]) / 2 - (b[:, :2] + b[:, 2:]) / 2) ** 2).sum(1)
    return iou(a, b) - away / ((high - low) ** 2).sum(1)


def soft(b: Array, s: Array, k: Array) -> list[int]:
    """Linear soft-NMS; it changes the scores in place."""
    left, kept = list(range(len(b))), []
    while left:
        first = max(left, key=lambda at: s[at])
        left.remove(first)
        kept.append(first)
        for at in left:
            over = float(iou(b[first], b[at][None])[0])
            if k[at] == k[first] and over > 0.2:
                s[at] *= 1 - over
        left = [at for at in left if s[at] > 0.3]
    return kept


def area(b: Array) -> Array:
    return (b[:, 2:] - b[:, :2]).prod(axis=1)


OF_ANCHORS: list[tuple[str, dict[str, Any], str]] = [
    ("extent", {"centre": sigmoid, "size": np.exp}, "the formula of yolov3"),
    ("extent", {"size": np.exp}, "size exp(t)"),
    ("extent", {"size": lambda t: 2 * sigmoid(t)}, "size 2 sigmoid(t)"),
    ("extent", {"size": lambda t: sigmoid(t) ** 2}, "size sigmoid(t)^2"),
    ("grid", {"centre": sigmoid}, "centre sigmoid(t)"),
    ("grid", {"centre": lambda t: 2 * t - 0.5}, "centre 2 t - 0.5"),
    ("score-threshold", {"above": lambda c, o, v: o > 0.3}, "on the objectness alone"),
    ("score-threshold", {"above": lambda c, o, v: c > 0.3}, "on the class score alone"),
    ("score-threshold", {"above": lambda c, o, v: (c > 0.3) & (o > 0.3)}, "on both parts, not on the score"),
    ("score", {"written": lambda c, o, v: v}, "the value before its activation is written"),
    ("score", {"written": lambda c, o, v: o}, "the objectness alone is written"),
    ("class-number", {"classes": lambda p: np.argsort(-p, axis=1)[:, 1]}, "the second best class wins"),
    ("nms", {"nms": lambda b, s, k: greedy(b, s, k, area(b))}, "sorted by falling area"),
    ("nms", {"nms": lambda b, s, k: greedy(b, s, k, b[:, 3])}, "sorted by y2"),
    ("nms", {"nms": lambda b, s, k: greedy(b, s, k, overlap=diou)}, "DIoU instead of IoU"),
    ("nms", {"nms": soft}, "soft-NMS, linear"),
    ("nms", {"mixed": sorted_apart("classes")}, "classes are not sorted with the others"),
    ("nms", {"mixed": sorted_apart("boxes")}, "boxes are not sorted with the others"),
    ("clip", {"clip": lambda b: np.clip(b, 0, SIZE)}, "to the size of the input instead of the picture's"),
    ("clip", {"clip": clip_corner}, "x1, y1 only, the size is kept"),
    ("clip", {"clip": lambda b: np.clip(b, 0, np.array(FRAME) [::-1] - 1)}, "to height - 1 and width - 1"),
    ("letterbox", {"back": lambda b: (b.reshape(-1, 2, 2) - PAD + 0.5) / RATIO - 0.5}, "by half a pixel"),
    ("letterbox", {"back": lambda b: (b.reshape(-1, 2, 2) - PAD / 2) / RATIO}, "half of the padding is cut"),
    ("letterbox", {"back": lambda b: (b.reshape(-1, 2, 2) - PAD) / np.round(RATIO, 2)}, "by the ratio rounded to 2 decimals"),
    ("class-channels", {"read": lambda h: np.roll(h, 1, axis=1)}, "channels read 1 too early"),
]  # fmt: skip


def searched(folder: Path, outputs: dict[str, Array], device: Any, decoder: str, **options: Any) -> qverify.OutputsDiff:
    np.savez(folder / "r.npz", **outputs)
    path = folder / ("d.npz" if isinstance(device, dict) else "d.npy" if isinstance(device, np.ndarray) else "d.json")
    if isinstance(device, dict):
        np.savez(path, **device)
    elif isinstance(device, np.ndarray):
        np.save(path, device)
    else:
        path.write_text(json.dumps(device))
    given = {"seconds": 30} | ({"decoder": decoder} if decoder else {}) | options
    return qverify.outputs_diff(folder / "r.npz", path, **given)


def texts(levels: Array) -> str:
    return ";".join(",".join(f"{v:g}" for v in level.ravel()) for level in levels)


BY_ANCHORS = (
    f"yolov5,size=96x64,frame=150x120,classes=3,strides=8,16,anchors={texts(ANCHORS)},score=0.3,iou=0.2,nms=class-wise"
)


def test_the_application_with_anchors_is_the_decoder(tmp_path: Path) -> None:
    made = by_anchors(heads())
    assert len(made) >= 8 and searched(tmp_path, heads(), made, BY_ANCHORS).equal


@pytest.mark.parametrize(("family", "changed", "said"), OF_ANCHORS)
def test_of_anchors(family: str, changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    found = searched(tmp_path, heads(), by_anchors(heads(), **changed), BY_ANCHORS)
    assert any(m.startswith(f"{family.replace('-', ' ')}: {said}") for m in found.mistakes), found.mistakes


# --- distributions of distances
def bins(seed: int = 5) -> dict[str, Array]:
    g = np.random.default_rng(seed)
    count = sum(len(cells_of(s)) for s in STRIDES)
    values = g.normal(0, 1.5, (1, count, 64 + CLASSES))
    values[:, :, 64:] -= 1.6
    return {"o": values.transpose(0, 2, 1).astype(np.float32)}


def by_bins(outputs: dict[str, Array], expect: Any, put: Any = None, read: Any = None) -> list[dict[str, Any]]:
    values = outputs["o"][0].T.astype(float) if read is None else read(outputs["o"][0].T.astype(float))
    cells = np.concatenate([cells_of(s) for s in STRIDES])
    stride = np.concatenate([np.full(len(cells_of(s)), s) for s in STRIDES])[:, None]
    away = expect(values[:, :64].reshape(-1, 4, 16))
    boxes = (
        np.concatenate([cells + 0.5 - away[:, :2], cells + 0.5 + away[:, 2:]], 1) if put is None else put(cells, away)
    )
    boxes, scores = boxes * stride, sigmoid(values[:, 64:])
    labels, best = scores.argmax(1), scores.max(1)
    keep = np.flatnonzero(best > 0.6)
    kept = keep[greedy(boxes[keep], best[keep], labels[keep])]
    corners = np.clip(boxes[kept].reshape(-1, 2, 2), 0, SIZE).reshape(-1, 4)
    return [
        {"box": np.float32(x).tolist(), "score": float(np.float32(s)), "class": int(k)}
        for x, s, k in zip(corners, best[kept], labels[kept], strict=True)
    ]


def expected(v: Array, axis: int = 2) -> Array:
    return softmax(v, axis) @ np.arange(v.shape[2], dtype=float)


def grouped(v: Array, count: int) -> Array:
    flat = v.reshape(len(v), -1)
    flat = np.concatenate([flat, np.zeros((len(flat), max(4 * count - 64, 0)))], 1)[:, : 4 * count]
    return expected(flat.reshape(-1, 4, count))


OF_BINS: list[tuple[str, dict[str, Any], str]] = [
    ("distances", {"expect": lambda v: expected(v, 1)}, "the softmax over the four sides"),
    ("distances", {"expect": lambda v: softmax(v.reshape(len(v), -1)).reshape(v.shape) @ np.arange(16.0)}, "the softmax over all bins"),
    ("distances", {"expect": lambda v: softmax(v) @ np.arange(1.0, 17)}, "bins counted from 1"),
    ("distances", {"expect": lambda v: softmax(v) @ (np.arange(16) / 15)}, "bins as shares of the last one"),
    ("distances", {"expect": lambda v: grouped(v, 8)}, "8 bins for each side"),
    ("distances", {"expect": lambda v: grouped(v, 15)}, "15 bins for each side"),
    ("distances", {"expect": lambda v: expected(v[:, :, :15])}, "the last bin left out"),
    ("distances", {"expect": expected, "put": lambda c, a: np.concatenate([c + a[:, :2] - a[:, 2:] / 2, c + a[:, :2] + a[:, 2:] / 2], 1)}, "distances taken as centre and size"),
    ("class-channels", {"expect": expected, "read": lambda v: np.concatenate([v[:, :64], v[:, 63:66]], 1)}, "scores from 1 channel too early"),
]  # fmt: skip
BY_BINS = "yolov8,size=96x64,classes=3,strides=8,16,score=0.6,iou=0.2,nms=class-wise,layout=NCHW"


def test_the_application_with_bins_is_the_decoder(tmp_path: Path) -> None:
    assert searched(tmp_path, bins(), by_bins(bins(), expected), BY_BINS).equal


@pytest.mark.parametrize(("family", "changed", "said"), OF_BINS)
def test_of_bins(family: str, changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    found = searched(tmp_path, bins(), by_bins(bins(), **changed), BY_BINS)
    assert any(m.startswith(f"{family.replace('-', ' ')}: {said}") for m in found.mistakes), found.mistakes


# --- faces
def faces(seed: int = 7) -> dict[str, Array]:
    g = np.random.default_rng(seed)
    found = {}
    for stride in STRIDES:
        cells = len(cells_of(stride))
        found |= {f"cls_{stride}": g.uniform(0, 1, (1, cells, 1)), f"obj_{stride}": g.uniform(0, 1, (1, cells, 1))}
        found |= {f"bbox_{stride}": g.normal(0, 0.5, (1, cells, 4)), f"kps_{stride}": g.normal(0, 0.8, (1, cells, 10))}
    return {name: v.astype(np.float32) for name, v in found.items()}


def by_faces(outputs: dict[str, Array], points: Any = None, moved: float = 0.0) -> list[dict[str, Any]]:
    rows: list[tuple[float, Array, Array]] = []
    for stride in STRIDES:
        cls, obj, box, kps = (outputs[f"{n}_{stride}"][0].astype(float) for n in ("cls", "obj", "bbox", "kps"))
        scores, cells = np.sqrt(cls * obj)[:, 0], cells_of(stride)
        centre, half = (box[:, :2] + cells + moved) * stride, np.exp(box[:, 2:]) * stride / 2
        marks = (kps.reshape(-1, 5, 2) + cells[:, None]) * stride
        rows += [
            (scores[at], np.concatenate([centre[at] - half[at], centre[at] + half[at]]), marks[at])
            for at in range(len(cells))
        ]
    rows = [row for row in rows if row[0] >= 0.85]
    boxes, scores = np.array([row[1] for row in rows]), np.array([row[0] for row in rows])
    kept = greedy(boxes, scores, np.zeros(len(rows), int))
    marks = np.array([rows[at][2] for at in kept])
    marks = marks if points is None else points(marks, boxes[kept])
    return [
        {"box": np.float32(boxes[at]).tolist(), "score": float(np.float32(scores[at])), "class": 0, "landmarks": np.float32(m).ravel().tolist()}
        for at, m in zip(kept, marks, strict=True)
    ]  # fmt: skip


BY_FACES = "yunet,size=96x64,strides=8,16,score=0.85,iou=0.2"


@pytest.mark.parametrize(
    ("points", "said"),
    [
        (None, ""),
        (lambda m, b: m[:, [1, 0, 2, 3, 4]], "in the order 1, 0, 2, 3, 4"),
        (lambda m, b: m[:, [2, 0, 1, 3, 4]], "in the order 2, 0, 1, 3, 4"),
        (lambda m, b: m[:, ::-1], "in the order 4, 3, 2, 1, 0"),
        (lambda m, b: (m - b[:, None, :2]) / (b[:, 2:] - b[:, :2])[:, None], "shares of the box"),
        (lambda m, b: np.roll(m, 1, axis=0), "of the box before"),
    ],
)
def test_of_faces(points: Any, said: str, tmp_path: Path) -> None:
    found = searched(tmp_path, faces(), by_faces(faces(), points), BY_FACES)
    assert found.equal if not said else any(m == f"keypoints: {said}" for m in found.mistakes), found.mistakes


def test_half_a_cell_is_added_to_boxes_but_not_to_their_landmarks(tmp_path: Path) -> None:
    found = searched(tmp_path, faces(), by_faces(faces(), moved=0.5), BY_FACES)
    assert found.mistakes == ["grid: centre t + 0.5"]


# --- arrays, scales
SCALE, ZERO = 0.0371923, -11
QUANTIZED = np.random.default_rng(1).integers(-128, 128, (1, 6, 5, 8), np.int8)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda q: (q - ZERO) * float(np.float16(SCALE)), "dequantization: scale rounded to float16"),
        (lambda q: (q - ZERO) * 0.0372, "dequantization: scale rounded to 4 decimals"),
        (lambda q: (q - ZERO) * 0.037, "dequantization: scale rounded to 3 decimals"),
        (lambda q: (q - ZERO) / 32, "dequantization: scale rounded to the nearest power of two"),
        (lambda q: (q - ZERO) / 27, "dequantization: 1 / scale rounded to a whole number"),
        (lambda q: (q - ZERO) / 128, "dequantization: scale of 1 / 128"),
        (lambda q: (q - ZERO - 1) * SCALE, "zero point: too large by 1"),
        (lambda q: (q - ZERO).astype(np.int8) * SCALE, "zero point: the difference q - zero point wraps around in int8"),
        (lambda q: np.clip(q - ZERO, -128, 127) * SCALE, "zero point: the difference q - zero point is cut in int8"),
        (lambda q: np.maximum((q - ZERO) * SCALE, 0), "activation: values negative values cut to 0"),
        (lambda q: np.round((q - ZERO) * SCALE, 1), "activation: values rounded to 1 decimal"),
        (lambda q: np.roll((q - ZERO) * SCALE, 1, axis=1), "class channels: channels read 1 too early"),
        (lambda q: ((q - ZERO) * SCALE)[:, ::-1], "layout: channels in reverse order"),
        (lambda q: np.roll(((q - ZERO) * SCALE).ravel(), -1).reshape(q.shape), "layout: the memory is read 1 element too late"),
        (lambda q: np.rot90((q - ZERO) * SCALE, 2, (2, 3)), "layout: turned by 180 degrees"),
        (lambda q: (q - ZERO) * SCALE / 255, "activation: values divided by 255"),
    ],
)  # fmt: skip
def test_of_arrays(change: Any, said: str, tmp_path: Path) -> None:
    device = np.ascontiguousarray(change(QUANTIZED.astype(np.int64)), np.float32)
    found = searched(tmp_path, {"o": QUANTIZED}, {"o": device}, "", output={"o": f"{SCALE},{ZERO}"})
    assert any(m.startswith(said) for m in found.mistakes), found.mistakes


# --- heatmaps, masks, text, classes
def test_of_masks(tmp_path: Path) -> None:
    planes = np.random.default_rng(3).normal(0, 1, (1, 4, 9, 13)).astype(np.float32)
    decoder = "segmentation,size=52x36,frame=52x36,fit=stretch,classes=4,resize="

    def place(target: int, source: int, how: str) -> Array:
        at = np.arange(target, dtype=float)
        return {
            "corners": at * (source - 1) / (target - 1),
            "centre": (at + 0.5) * source / target - 0.5,
            "no": at * source / target,
        }[how]

    def linear(how: str) -> Array:
        v = planes[0].astype(float)
        for axis, target in ((1, 36), (2, 52)):
            source = v.shape[axis]
            at = np.clip(place(target, source, how), 0, source - 1)
            low = np.floor(at).astype(int)
            part = (at - low).reshape((-1, 1) if axis == 1 else (1, -1))
            v = v.take(low, axis) * (1 - part) + v.take(np.minimum(low + 1, source - 1), axis) * part
        return v.argmax(axis=0).astype(np.uint8)

    assert searched(tmp_path, {"o": planes}, linear("centre"), f"{decoder}bilinear").equal
    for how, name in (("corners", "bilinear-corners"), ("no", "bilinear-asymmetric")):
        found = searched(tmp_path, {"o": planes}, linear(how), f"{decoder}bilinear")
        assert found.mistakes == [f"labels: resize: {name} instead of bilinear"]
    labels = planes[0].argmax(axis=0)
    near = [np.minimum(np.floor((np.arange(n) + 0.5) * s / n).astype(int), s - 1) for n, s in ((36, 9), (52, 13))]
    rounded = [np.minimum(np.floor(np.arange(n) * s / n + 0.5).astype(int), s - 1) for n, s in ((36, 9), (52, 13))]
    assert searched(
        tmp_path, {"o": planes}, labels[near[0]][:, near[1]].astype(np.uint8), f"{decoder}nearest-centre"
    ).equal
    device = labels[rounded[0]][:, rounded[1]].astype(np.uint8)
    assert searched(tmp_path, {"o": planes}, device, f"{decoder}nearest").mistakes == [
        "labels: resize: nearest-round instead of nearest"
    ]


def test_of_heatmaps(tmp_path: Path) -> None:
    maps = np.random.default_rng(2).uniform(0, 1, (1, 5, 12, 16)).astype(np.float32)
    y, x = np.divmod(maps[0].reshape(5, -1).argmax(axis=1), 16)
    cells = np.stack([x, y], 1).astype(float)

    def named(points: Array, order: Any = slice(None)) -> list[str]:
        rows = [
            {"id": n, "x": float(p[0]), "y": float(p[1]), "score": float(s)}
            for n, (p, s) in enumerate(zip(points[order], maps[0].max(axis=(1, 2))[order], strict=True))
        ]
        return searched(tmp_path, {"o": maps}, rows, "heatmaps,refine=0,frame=128x96,fit=stretch,size=64x48").mistakes

    assert named(cells * 8) == []
    assert "keypoints: by the corners' centres (width - 1, height - 1)" in named(cells * [127 / 15, 95 / 11])
    assert "keypoints: by half a pixel ((cell + 0.5) * ratio - 0.5)" in named((cells + 0.5) * 8 - 0.5)
    assert named(cells * 8, slice(None, None, -1)) == ["keypoints: in reverse order"]


def test_of_text(tmp_path: Path) -> None:
    best = np.array([1, 1, 0, 1, 2, 2, 0, 3, 0, 3, 3, 4])
    steps = np.random.default_rng(4).uniform(0, 0.4, (1, len(best), 6)).astype(np.float32)
    steps[0, np.arange(len(best)), best] = 0.9

    def read(text: str) -> list[str]:
        np.savez(tmp_path / "r.npz", o=steps)
        (tmp_path / "d.txt").write_text(text)
        return qverify.outputs_diff(
            tmp_path / "r.npz", tmp_path / "d.txt", decoder="ctc,characters=abcde", seconds=20
        ).mistakes

    assert read("aabccd") == []
    assert read("aaabbcccd") == ["characters: what is left out: none instead of repeats"]
    assert read("abcd") == ["characters: what is left out: blanks-first instead of repeats"]
    assert read("dccbaa") == ["characters: steps in reverse order"]


LOGITS = np.random.default_rng(1).normal(0, 2, (1, 12)).astype(np.float32)
CHANCES = softmax(LOGITS[0].astype(float))


@pytest.mark.parametrize(
    ("device", "said"),
    [
        (CHANCES, ""),
        (LOGITS[0], "activation: none instead of softmax"),
        (softmax(CHANCES), "activation: softmax applied twice, or to probabilities"),
        (np.sort(CHANCES)[::-1], "order: probabilities by falling score, without their classes"),
        (np.r_[0, CHANCES[:-1]], "class number: +1"),
        (CHANCES * 100, "score: as a percentage"),
        (np.where(np.sort(CHANCES)[-3] <= CHANCES, CHANCES, 0), "top: all but the best 3 are 0"),
    ],
)
def test_of_probabilities(device: Array, said: str, tmp_path: Path) -> None:
    for value in (device.astype(np.float32), device.tolist()):
        found = searched(tmp_path, {"o": LOGITS}, value, "softmax,top=3", written="as=decoded")
        assert found.equal if not said else found.mistakes[0] == said, found.mistakes
    with pytest.raises(UsageError, match="11 numbers; wanted one for each of 12 classes"):
        searched(tmp_path, {"o": LOGITS}, device[:11].tolist(), "softmax", written="as=decoded")


@pytest.mark.parametrize("seed", range(4))
def test_noise_is_none_of_them(seed: int, tmp_path: Path) -> None:
    """A row that lacks, and numbers that nothing explains."""
    made, g = by_anchors(heads()), np.random.default_rng(seed)
    lacking = [row for at, row in enumerate(made) if at != seed + 1]
    noisy = [row | {"box": (np.array(row["box"]) + g.uniform(0.1, 0.4, 4)).tolist()} for row in made]
    assert searched(tmp_path, heads(), lacking, BY_ANCHORS, seconds=2).mistakes == []
    assert searched(tmp_path, heads(), noisy, BY_ANCHORS, seconds=2).mistakes == []


def test_every_row_of_a_table_has_a_family_and_a_name_of_its_own() -> None:
    families, named = {page.NAME for page in pages()} | {"writing"}, [(r.family, r.said) for r in table_rows()]
    assert {family for family, _ in named} <= families
    assert len(set(named)) == len(named)
