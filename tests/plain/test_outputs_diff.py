"""`outputs diff` names the mistake: the device's results are made by numpy and OpenCV alone, never by our own code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import jsonschema
import numpy as np
import pytest
import qverify
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from qverify.cli.outputs_diff import diff
from qverify.errors import UsageError
from qverify.outputs import hypotheses
from qverify.outputs.device import Written
from qverify.outputs.read_rows import read_text_file
from qverify.report.schema import outputs_schema

ROOT = Path(__file__).resolve().parents[2]
SIDE, CLASSES, FRAME = 160, 4, (320, 200)  # 525 anchors; the picture lies in 160 x 100, 30 rows above
SCALE, ZERO = {"box": 0.71371, "cls": 0.0039}, {"box": -120, "cls": -128}
DECODER = f"yolov8,size={SIDE}x{SIDE},frame={FRAME[0]}x{FRAME[1]},score=0.3,iou=0.5,top=0"
Row = dict[str, Any]


def codes(seed: int = 0) -> dict[str, np.ndarray]:
    """Outputs of a decoded head: centre and size, and probabilities, of 525 anchors; each object is seen by some."""
    g = np.random.default_rng(seed)
    real = np.zeros((525, 4 + CLASSES))
    real[:, :4] = np.stack(
        [g.uniform(0, SIDE, 525), g.uniform(30, 130, 525), g.uniform(8, 60, 525), g.uniform(8, 40, 525)], 1
    )
    real[:, 4:] = g.uniform(0, 0.2, (525, CLASSES))
    for at in g.choice(500, 14, replace=False):
        label = g.integers(CLASSES)
        for near in range(4):
            real[at + near, :4] = real[at, :4] + g.uniform(-3, 3, 4)
            real[at + near, 4 + label] = g.uniform(0.35, 0.95)
    parts = {"box": real[:, :4].T[None], "cls": real[:, 4:].T[None]}
    return {n: np.clip(np.rint(v / SCALE[n]) + ZERO[n], -128, 127).astype(np.int8) for n, v in parts.items()}


def real(q: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {n: (v.astype(np.float32) - ZERO[n]) * np.float32(SCALE[n]) for n, v in q.items()}


def corners(box: np.ndarray) -> np.ndarray:
    return np.concatenate([box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2], axis=1)


def back(boxes: np.ndarray) -> np.ndarray:
    """From the input to the picture: 30 rows of padding above, ratio 0.5; clipped."""
    moved = (boxes - np.float32([0, 30, 0, 30])) / np.float32(0.5)
    return np.clip(moved, 0, np.float32([*FRAME, *FRAME]))


class App:
    """The application of a device: each step is an attribute, which a mistake replaces."""

    def __init__(self) -> None:
        self.dequantize: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = real
        self.corners: Callable[[np.ndarray], np.ndarray] = corners
        self.activate: Callable[[np.ndarray], np.ndarray] = lambda s: s
        self.score, self.iou, self.by_class = 0.3, 0.5, True
        self.back: Callable[[np.ndarray], np.ndarray] = back
        self.classes: Callable[[np.ndarray], np.ndarray] = lambda c: c
        self.write: Callable[[np.ndarray], np.ndarray] = lambda b: b
        self.keep: Callable[[list[int]], list[int]] = lambda k: k

    def run(self, q: dict[str, np.ndarray]) -> list[Row]:
        values = self.dequantize(q)
        boxes, scores = self.corners(values["box"][0].T), self.activate(values["cls"][0].T)
        best = scores.argmax(axis=1)
        top = scores[np.arange(len(best)), best]
        kept: list[int] = []
        for group in range(CLASSES) if self.by_class else [None]:
            some = np.flatnonzero(best == group) if group is not None else np.arange(len(best))
            rects = [[float(x), float(y), float(a - x), float(b - y)] for x, y, a, b in boxes[some]]
            found = cv2.dnn.NMSBoxes(rects, top[some].tolist(), self.score, self.iou) if rects else []
            kept += some[np.asarray(found, int).reshape(-1)].tolist()
        kept = self.keep(sorted(kept, key=lambda at: -top[at]))
        placed, labels = self.write(self.back(boxes[kept])), self.classes(best[kept])
        return [
            {"box": [float(v) for v in box], "score": float(top[at]), "class": int(label)}
            for box, at, label in zip(placed, kept, labels, strict=True)
        ]


def mistaken(**steps: Any) -> App:
    app = App()
    for name, step in steps.items():
        assert hasattr(app, name)
        setattr(app, name, step)
    return app


def dequantized(scales: dict[str, float] = SCALE, zeros: dict[str, int] = ZERO) -> Any:
    return lambda q: {n: (v.astype(np.float32) - zeros[n]) * np.float32(scales[n]) for n, v in q.items()}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def to_cxcywh(b: np.ndarray) -> np.ndarray:
    return np.concatenate([(b[:, :2] + b[:, 2:]) / 2, b[:, 2:] - b[:, :2]], axis=1)


def to_xywh(b: np.ndarray) -> np.ndarray:
    return np.concatenate([b[:, :2], b[:, 2:] - b[:, :2]], axis=1)


PAD, RATIO = np.float32([0, 30, 0, 30]), np.float32(0.5)
LIMITS = np.float32([*FRAME, *FRAME])
PLANTED: list[tuple[str, App, str]] = [
    ("dequantization", mistaken(dequantize=lambda q: real(q) | {"cls": q["cls"].astype(np.float32)}), "dequantization: left out (only cls)"),
    ("zero-point", mistaken(dequantize=dequantized(zeros={"box": 0, "cls": -128})), "zero point: left out (only box)"),
    ("zero-point", mistaken(dequantize=dequantized(zeros={"box": 120, "cls": -128})), "zero point: added, not subtracted (only box)"),
    ("other-scale", mistaken(dequantize=dequantized(scales={"box": 0.71371, "cls": 0.71371})), "other scale: scale of box for cls"),
    ("element-type", mistaken(dequantize=lambda q: dequantized()({n: v.view(np.uint8) for n, v in q.items()})), "element type: int8 read as uint8"),
    ("layout", mistaken(dequantize=lambda q: real(q | {"box": q["box"].transpose(0, 2, 1).reshape(1, 4, 525)})), "layout: BA in memory, read as AB (only box)"),
    ("layout", mistaken(dequantize=lambda q: real(q | {"box": q["box"].reshape(1, 525, 4).transpose(0, 2, 1)})), "layout: AB in memory, read as BA (only box)"),
    ("activation", mistaken(activate=sigmoid), "activation: sigmoid"),
    ("class-channels", mistaken(activate=lambda s: s[:, 1:]), "class scores: from one channel too late"),
    ("box-form", mistaken(corners=lambda b: b), "box form: cx, cy, w, h as corners, before NMS"),
    ("box-form", mistaken(corners=lambda b: np.concatenate([b[:, :2], b[:, :2] + b[:, 2:]], 1)), "box form: the centre as corner (cx, cy, cx + w, cy + h), before NMS"),
    ("box-form", mistaken(corners=lambda b: np.concatenate([b[:, :2] - b[:, 2:], b[:, :2] + b[:, 2:]], 1)), "box form: width and height not halved (cx - w, cy - h, cx + w, cy + h), before NMS"),
    ("box-form", mistaken(write=to_cxcywh), "box form: cxcywh written instead of xyxy"),
    ("box-form", mistaken(write=to_xywh), "box form: xywh written instead of xyxy"),
    ("box-form", mistaken(write=lambda b: b[:, [1, 0, 3, 2]]), "box form: yxyx written instead of xyxy"),
    ("score-threshold", mistaken(score=0.6), "score threshold: 0.6 instead of 0.3"),
    ("nms", mistaken(iou=0.95), "NMS: IoU threshold: 0.95 instead of 0.5"),
    ("top", mistaken(keep=lambda k: k[:4]), "top: only the best 4 results are written"),
    ("letterbox", mistaken(back=lambda b: np.clip(b, 0, LIMITS)), "letterbox: not undone"),
    ("letterbox", mistaken(back=lambda b: np.clip(b / RATIO, 0, LIMITS)), "letterbox: taken as lying at the top left: the padding is not cut"),
    ("letterbox", mistaken(back=lambda b: np.clip(b * np.float32([2, 1.25, 2, 1.25]), 0, LIMITS)), "letterbox: taken as stretched: each side by its own ratio"),
    ("letterbox", mistaken(back=lambda b: np.clip(b / RATIO - PAD, 0, LIMITS)), "letterbox: the padding is subtracted after the division"),
    ("clip", mistaken(back=lambda b: (b - PAD) / RATIO), "clip: boxes are not clipped to the picture"),
    ("class-number", mistaken(classes=lambda c: c + 1), "class number: +1"),
    ("units", mistaken(write=lambda b: b / LIMITS), "units: divided by width and height of the picture"),
    ("units", mistaken(write=lambda b: b + 1), "units: one pixel added"),
    ("float16", mistaken(write=lambda b: b.astype(np.float16)), "coordinates in float16"),
    ("writing", mistaken(write=np.trunc), "coordinates truncated to whole numbers"),
    ("writing", mistaken(write=lambda b: np.round(b.astype(float), 2)), "coordinates rounded to 2 decimals"),
]  # fmt: skip
PAIRS: list[tuple[App, set[str]]] = [
    (mistaken(classes=lambda c: c + 1, write=lambda b: b[:, [1, 0, 3, 2]]), {"class-number", "box-form"}),
    (mistaken(dequantize=dequantized(zeros={"box": 0, "cls": -128}), score=0.6), {"zero-point", "score-threshold"}),
    (mistaken(back=lambda b: np.clip(b / RATIO, 0, LIMITS), iou=0.9), {"letterbox", "nms"}),
    (mistaken(activate=sigmoid, classes=lambda c: c + 1), {"activation", "class-number"}),
    (mistaken(write=lambda b: np.round(to_xywh(b).astype(float), 1)), {"box-form", "writing"}),
    (mistaken(corners=lambda b: np.concatenate([b[:, :2], b[:, :2] + b[:, 2:]], 1), back=lambda b: (b - PAD) / RATIO), {"box-form", "clip"}),
]  # fmt: skip


def save(folder: Path, q: dict[str, np.ndarray], rows: Any) -> list[str]:
    """Returns the words of the command for these outputs and results."""
    np.savez(folder / "reference.npz", **q)
    (folder / "device.json").write_text(json.dumps(rows))
    quantized = [f"--output={n}={SCALE[n]},{ZERO[n]}" for n in q]
    return [str(folder / "reference.npz"), str(folder / "device.json"), "--decoder", DECODER, *quantized]


def searched(
    folder: Path, rows: Any, q: dict[str, np.ndarray] | None = None, *words: str
) -> tuple[int, dict[str, Any]]:
    """Returns exit status and JSON of the command."""
    words = *save(folder, codes() if q is None else q, rows), *words, "--json", str(folder / "diff.json")
    done = CliRunner().invoke(diff, words, standalone_mode=False, catch_exceptions=False)
    document = json.loads((folder / "diff.json").read_text())
    jsonschema.validate(document, outputs_schema())
    return int(done.return_value), document


def listed(document: dict[str, Any]) -> list[list[str]]:
    return [[c["said"] for c in causes] for part in document["parts"] for group in part["exact"] for causes in group]


def test_equal_and_one_box_off_and_noise(tmp_path: Path) -> None:
    rows = App().run(codes())
    assert len(rows) > 8
    status, document = searched(tmp_path, rows)
    assert (status, document["verdict"]) == (0, "EQUAL")
    assert searched(tmp_path, rows[::-1])[1]["parts"][0]["notes"] == ["the rows are not in the order of falling scores"]
    rows[3]["box"][1] += 0.5
    status, document = searched(tmp_path, rows, None, "--seconds", "4")
    assert status == 1 and not listed(document)
    rest = document["parts"][0]["nearest"]
    assert (rest["equal"], rest["of"], rest["causes"]) == (len(rows) - 1, len(rows), [])
    assert rest["largest"] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(("family", "app", "said"), PLANTED, ids=[f"{f} {s}" for f, _, s in PLANTED])
def test_a_planted_mistake_is_named(family: str, app: App, said: str, tmp_path: Path) -> None:
    rows = app.run(codes())
    assert rows and rows != App().run(codes())
    status, document = searched(tmp_path, rows, None, "--seconds", "30")
    named = listed(document)
    assert status == 1 and named, document["parts"][0]["nearest"]
    assert all(len(causes) == 1 for causes in named)
    assert any(causes[0].startswith(said) for causes in named), named


@pytest.mark.parametrize(("app", "families"), PAIRS, ids=[" and ".join(sorted(f)) for _, f in PAIRS])
def test_a_planted_pair_is_named(app: App, families: set[str], tmp_path: Path) -> None:
    status, document = searched(tmp_path, app.run(codes()), None, "--seconds", "600")
    found = [{c["family"] for c in causes} for group in document["parts"][0]["exact"] for causes in group]
    assert status == 1 and families in found, (found, document["parts"][0]["nearest"])


@pytest.mark.parametrize("seed", range(6))
def test_what_no_mistake_makes_is_not_named(seed: int, tmp_path: Path) -> None:
    """Every box is moved by a little of its own."""
    rows = App().run(codes(seed))
    g = np.random.default_rng(seed)
    for row in rows:
        row["box"] = [v + float(g.uniform(0.2, 0.9)) for v in row["box"]]
    status, document = searched(tmp_path, rows, codes(seed), "--seconds", "3")
    assert status == 1 and listed(document) == []


def test_a_device_without_results_proves_nothing(tmp_path: Path) -> None:
    status, document = searched(tmp_path, [])
    assert status == 1 and listed(document) == []
    assert document["parts"][0]["not_searched"] == ["every mistake: the device wrote nothing, which proves none"]


ARRAYS: list[tuple[Callable[[np.ndarray], np.ndarray], str]] = [
    (lambda q: q.transpose(0, 2, 3, 1).reshape(q.shape), "layout: NHWC in memory, read as NCHW"),
    (lambda q: q.reshape(1, 8, 12, 6).transpose(0, 3, 1, 2), "layout: NCHW in memory, read as NHWC"),
    (lambda q: q.transpose(0, 2, 1, 3), "layout: NHCW in memory, read as NCHW"),
    (lambda q: q.astype(np.float32), "dequantization: left out"),
    (lambda q: q.astype(np.float32) * np.float32(0.1), "zero point: left out"),
    (lambda q: (q.astype(np.float32) + 5) * np.float32(0.1), "zero point: added, not subtracted"),
    (lambda q: (q.view(np.uint8).astype(np.float32) - 5) * np.float32(0.1), "element type: int8 read as uint8"),
    (lambda q: sigmoid((q.astype(np.float32) - 5) * np.float32(0.1)).astype(np.float32), "activation: sigmoid applied"),
    (lambda q: ((q.astype(np.float32) - 5) * np.float32(0.1)).astype(np.float16), "values in float16"),
    (lambda q: np.pad(q, ((0, 0), (0, 0), (0, 0), (0, 4))), "padding: rows in multiples of 8 elements (zeros), kept"),
    (lambda q: np.pad(q, ((0, 0), (0, 0), (0, 0), (0, 4))).reshape(-1)[: q.size].reshape(q.shape), "padding: rows in multiples of 8 elements (zeros), read"),
    (lambda q: q.reshape(1, 6, 12, 8), "shape: 6x8x12 stated as 6x12x8"),
    (lambda q: q[:, :, ::-1], "axes: flipped top to bottom"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "said"), ARRAYS, ids=[s for _, s in ARRAYS])
def test_a_mistake_with_an_array_is_named(make: Callable[[np.ndarray], np.ndarray], said: str, tmp_path: Path) -> None:
    q = np.random.default_rng(5).integers(-128, 128, (1, 6, 8, 12), np.int8)
    np.savez(tmp_path / "q.npz", out=q)
    np.savez(tmp_path / "d.npz", out=make(q))
    found = qverify.outputs_diff(tmp_path / "q.npz", tmp_path / "d.npz", output={"out": "0.1,5"})
    assert not found.equal and any(text.startswith(said) for text in found.mistakes), str(found)
    assert all(found.mistakes[0] == text or "+" not in text for text in found.mistakes)


def test_exchanged_outputs_and_another_scale(tmp_path: Path) -> None:
    g = np.random.default_rng(6)
    q = {n: g.integers(-128, 128, (1, 5, 40), np.int8) for n in "ab"}
    np.savez(tmp_path / "q.npz", **q)
    np.savez(tmp_path / "d.npz", a=q["b"], b=q["a"])
    both = {"a": "0.5,1", "b": "0.25,2"}
    assert (
        "outputs: a and b exchanged"
        in qverify.outputs_diff(tmp_path / "q.npz", tmp_path / "d.npz", output=both).mistakes[0]
    )
    np.savez(
        tmp_path / "d.npz", a=(q["a"] - np.float32(1)) * np.float32(0.25), b=(q["b"] - np.float32(2)) * np.float32(0.25)
    )
    found = qverify.outputs_diff(tmp_path / "q.npz", tmp_path / "d.npz", output=both)
    assert found.mistakes[0] == "other scale: scale of b for a"
    assert [p.name for p in found.parts if not p.difference.equal] == ["a"]


FORMS: list[tuple[str, Callable[[Row], Any]]] = [
    ("objects", lambda r: r),
    ("lists", lambda r: [*r["box"], r["score"], r["class"]]),
    ("names of corners", lambda r: dict(zip(("x1", "y1", "x2", "y2"), r["box"], strict=True)) | {"confidence": r["score"], "class_id": r["class"]}),
    ("COCO", lambda r: {"image_id": 1, "category_id": r["class"], "score": r["score"], "bbox": [*r["box"][:2], r["box"][2] - r["box"][0], r["box"][3] - r["box"][1]]}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "form"), FORMS, ids=[n for n, _ in FORMS])
def test_forms_of_json(name: str, form: Callable[[Row], Any], tmp_path: Path) -> None:
    rows = [form(row) for row in App().run(codes())]
    assert searched(tmp_path, rows)[0] == 0
    assert searched(tmp_path, {"detections": rows, "count": len(rows)})[0] == 0


@pytest.mark.parametrize(
    "line",
    [
        "{c},{s!r},{x!r},{y!r},{a!r},{b!r}",
        "{x!r} {y!r} {a!r} {b!r} {s!r} {c}",
        "class{c} @ ({x!r} {y!r} {a!r} {b!r}) {s!r}",
        "class={c}, score={s!r}, box=({x!r}, {y!r}, {a!r}, {b!r})",
        "cat{c} @ ({x!r} {y!r} {a!r} {b!r}) {s!r}",
    ],
)
def test_forms_of_lines(line: str, tmp_path: Path) -> None:
    texts = []
    for row in App().run(codes()):
        x, y, a, b = row["box"]
        texts.append(line.format(x=x, y=y, a=a, b=b, s=row["score"], c=row["class"]))
    words = save(tmp_path, codes(), [])
    (tmp_path / "device.txt").write_text("\n".join(texts))
    words[1] = str(tmp_path / "device.txt")
    done = CliRunner().invoke(diff, words, standalone_mode=False, catch_exceptions=False)
    assert done.return_value == 0, done.output


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff\xfe\x00", "not text"),
        (b"[{", "Expecting"),
        (b'[{"box": [1, 2, 3, NaN], "score": 1}]', "NaN"),
        (b'[{"box": [1, 2, 3], "score": 1}]', "numbers"),
        (b'[{"box": [1, 2, 3, 4], "box": [1, 2, 3, 5]}]', "twice"),
        (b'[{"box": [1, 2, 3, 4], "score": 1}, {"box": [1, 2, 3, 4]}]', "some do not"),
        (b'{"boxes": [[1, 2, 3, 4]], "scores": [1, 2]}', "as many"),
        (b"1 2 3", "columns"),
        (b"1 2 3 4 5 6\n1 2 3", "columns"),
        (b"[" * 5000, "nested"),
        (b'[{"box": [1e999, 2, 3, 4]}]', "finite"),
    ],
)
def test_what_cannot_be_read_is_one_line(content: bytes, why: str, tmp_path: Path) -> None:
    words = save(tmp_path, codes(), [])
    (tmp_path / "device.json").write_bytes(content)
    with pytest.raises(UsageError) as refused:
        CliRunner().invoke(diff, words, standalone_mode=False, catch_exceptions=False)
    assert why in str(refused.value) and "\n" not in str(refused.value)


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(alphabet='[]{},:"0123456789.eE+- \nboxscrcla()@=', max_size=200).map(str.encode),
    )
)
def test_any_bytes_are_read_or_refused_in_one_line(data: bytes) -> None:
    for kind in ("boxes", "classes", "keypoints", "text"):
        try:
            result = read_text_file(data, "device", Written(), kind)
        except UsageError as error:
            assert "\n" not in str(error)
        else:
            assert result.text is not None or (result.rows is not None and np.isfinite(result.rows.numbers).all())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(*[st.floats(-1e6, 1e6, width=32)] * 4, st.floats(0, 1, width=32), st.integers(0, 90)),
        min_size=1,
        max_size=20,
    )
)
def test_rows_are_read_as_they_were_written(rows: list[Any]) -> None:
    text = json.dumps([{"bbox": list(r[:4]), "score": r[4], "label": r[5]} for r in rows])
    read = read_text_file(text.encode(), "device", Written(), "boxes").rows
    assert read is not None and read.scores is not None and read.classes is not None
    assert read.numbers.tolist() == [list(r[:4]) for r in rows]
    assert (read.scores.tolist(), read.classes.tolist()) == ([r[4] for r in rows], [r[5] for r in rows])


@pytest.mark.parametrize(
    "words",
    [
        ["--decoder", "yolov9x"],
        ["--decoder", "yolov8,size=99x99"],
        ["--written", "boxes=abcd"],
        ["--written", "as=else"],
        ["--output", "nothing=1,2"],
        ["--output", "box"],
        ["--outputs", "nothing"],
    ],
)
def test_wrong_options_are_refused_in_one_line(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        CliRunner().invoke(diff, [*save(tmp_path, codes(), []), *words], standalone_mode=False, catch_exceptions=False)
    assert "\n" not in str(refused.value)


def test_options_of_a_description(tmp_path: Path) -> None:
    rows = [row | {"box": [round(v, 1) for v in row["box"]]} for row in App().run(codes())]
    words = save(tmp_path, codes(), rows)
    keys = dict(part.split("=") for part in DECODER.split(",")[1:])
    toml = "[decoder]\nname = 'yolov8'\n" + "".join(f"{k} = '{v}'\n" for k, v in keys.items())
    toml += "".join(f"[outputs.{n}]\nscale = {SCALE[n]}\nzero_point = {ZERO[n]}\n" for n in SCALE)
    (tmp_path / "o.toml").write_text(toml)
    given_words = [*words[:2], "--description", str(tmp_path / "o.toml")]
    assert CliRunner().invoke(diff, given_words, standalone_mode=False).return_value == 1
    (tmp_path / "o.toml").write_text(toml + "[written]\ndigits = 1\n")
    assert CliRunner().invoke(diff, given_words, standalone_mode=False).return_value == 0


def test_every_family_is_in_the_document() -> None:
    document = (ROOT / "verifier" / "OUTPUTS.md").read_text()
    rows = set(re.findall(r"^\| `([\w-]+)` \|", document, re.MULTILINE))
    names = {page.NAME for page in hypotheses.pages()}
    assert names <= rows and "writing" in rows
    assert len(names) == len(hypotheses.pages())


def test_infinite_values_reproduce_nothing(tmp_path: Path) -> None:
    """Divided by a small scale, values are beyond float16: they are infinite, and no number is near to infinity."""
    q = np.random.default_rng(9).integers(-30000, 30000, (1, 100), np.int16)
    np.savez(tmp_path / "q.npz", out=q)
    np.savez(tmp_path / "d.npz", out=np.random.default_rng(10).permutation(q[0]).astype(np.float32)[None] * 1.9e-4)
    found = qverify.outputs_diff(tmp_path / "q.npz", tmp_path / "d.npz", output={"out": "1.9e-4,-11482"}, seconds=5)
    assert not found.equal and found.mistakes == []


@pytest.mark.parametrize(
    ("by_place", "zero", "said"),
    [
        (False, 5, "outputs: a and b exchanged, each with its own scale"),
        (True, -5, "outputs: a and b exchanged, with the scale of the place + zero point: added, not subtracted"),
    ],
)
def test_outputs_of_different_sizes_exchanged_in_bytes(by_place: bool, zero: int, said: str, tmp_path: Path) -> None:
    """The device wrote the second output before the first; a file of bytes does not say where one begins."""
    g = np.random.default_rng(11)
    q = {"a": g.integers(-128, 128, (1, 6, 8), np.int8), "b": g.integers(-128, 128, (1, 6, 40), np.int8)}
    quantized = {"a": (0.1, 5), "b": (0.7, 5)}
    np.savez(tmp_path / "q.npz", **q)
    scales = [quantized[n][0] for n in ("ab" if by_place else "ba")]
    parts = [(q[n].astype(np.float32) - zero) * np.float32(s) for n, s in zip("ba", scales, strict=True)]
    (tmp_path / "d.bin").write_bytes(b"".join(part.tobytes() for part in parts))
    stated = {n: f"{s},{z}" for n, (s, z) in quantized.items()}
    found = qverify.outputs_diff(tmp_path / "q.npz", tmp_path / "d.bin", output=stated, seconds=5)
    assert not found.equal and said in found.mistakes, found.mistakes


def test_bytes_that_are_not_exchanged(tmp_path: Path) -> None:
    """Equal ones are equal, and those that no mistake makes are not named."""
    g = np.random.default_rng(12)
    q = {"a": g.integers(-128, 128, (1, 6, 8), np.int8), "b": g.integers(-128, 128, (1, 6, 40), np.int8)}
    np.savez(tmp_path / "q.npz", **q)
    stated = {"a": "0.1,5", "b": "0.7,5"}
    right = [(q[n].astype(np.float32) - 5) * np.float32(s) for n, s in (("a", 0.1), ("b", 0.7))]
    (tmp_path / "d.bin").write_bytes(b"".join(part.tobytes() for part in right))
    assert qverify.outputs_diff(tmp_path / "q.npz", tmp_path / "d.bin", output=stated, seconds=5).equal
    right[1][0, 3, 7] += 1
    (tmp_path / "d.bin").write_bytes(b"".join(part.tobytes() for part in right))
    wrong = qverify.outputs_diff(tmp_path / "q.npz", tmp_path / "d.bin", output=stated, seconds=2)
    assert not wrong.equal and wrong.mistakes == []


@pytest.mark.parametrize(
    ("arrays", "words", "said"),
    [
        ({"a": np.ones(3, np.float32)}, [], "lacks b of 2 outputs; wanted all, or --outputs a"),
        (
            {"boxes": np.ones((3, 4), np.float32)},
            ["--decoder", "yolox", "--written", "as=decoded"],
            "wanted the arrays boxes and scores",
        ),
        (
            {"probabilities": np.ones(3, np.float32)},
            ["--decoder", "ctc", "--outputs", "a", "--written", "as=decoded"],
            "of every anchor of a detector, or every class; ctc has none",
        ),
    ],
)
def test_a_file_that_lacks_a_part_is_never_equal(
    arrays: dict[str, np.ndarray], words: list[str], said: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "ref.npz", a=np.ones(3, np.float32), b=np.ones(2, np.float32))
    np.savez(tmp_path / "device.npz", **arrays)
    done = CliRunner().invoke(diff, [str(tmp_path / "ref.npz"), str(tmp_path / "device.npz"), "--seconds", "1", *words])
    assert isinstance(done.exception, UsageError) and said in str(done.exception), done.output


def test_outputs_that_are_named_are_compared_alone(tmp_path: Path) -> None:
    np.savez(tmp_path / "ref.npz", a=np.ones(3, np.float32), b=np.ones(2, np.float32))
    np.savez(tmp_path / "device.npz", a=np.ones(3, np.float32))
    files = [str(tmp_path / "ref.npz"), str(tmp_path / "device.npz")]
    assert CliRunner().invoke(diff, [*files, "--outputs", "a"]).output.startswith("EQUAL: all 3 elements")
