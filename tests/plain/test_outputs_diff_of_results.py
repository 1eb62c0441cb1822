"""`outputs diff` of classes, keypoints, masks and text; and where the text of a run asks for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qverify
from qverify.decoders import find_decoder
from qverify.errors import UsageError
from qverify.outputs.trial import Rest
from qverify.renderers.outputs_difference import describe_rest
from qverify.renderers.outputs_question import ask_for_outputs
from qverify.report.document import Pair, ReportDocument, TaskNumbers, TaskSide


def difference(
    folder: Path, outputs: dict[str, np.ndarray], device: Any, decoder: str, **options: Any
) -> qverify.OutputsDiff:
    np.savez(folder / "r.npz", **outputs)
    if isinstance(device, np.ndarray):
        np.save(folder / "d.npy", device)
        return qverify.outputs_diff(folder / "r.npz", folder / "d.npy", decoder=decoder, seconds=20, **options)
    (folder / "d.json").write_text(json.dumps(device))
    return qverify.outputs_diff(folder / "r.npz", folder / "d.json", decoder=decoder, seconds=20, **options)


def test_classes(tmp_path: Path) -> None:
    logits = np.random.default_rng(1).normal(0, 2, (1, 12)).astype(np.float32)
    powers = np.exp(logits[0].astype(float))
    chances = powers / powers.sum()
    best = np.argsort(-chances)[:3].tolist()
    right = [{"class": c, "score": chances[c]} for c in best]
    assert difference(tmp_path, {"o": logits}, right, "softmax,top=3").equal
    later = [{"class": c + 1, "score": chances[c]} for c in best]
    assert difference(tmp_path, {"o": logits}, later, "softmax,top=3").mistakes[0] == "class number: +1"
    raw = [{"class": c, "score": float(logits[0, c])} for c in best]
    assert (
        difference(tmp_path, {"o": logits}, raw, "softmax,top=3").mistakes[0] == "activation: none instead of softmax"
    )
    assert difference(tmp_path, {"o": logits}, right[::-1], "softmax,top=3").mistakes[0].startswith("order: ")


def test_softmax_is_not_applied_to_probabilities(tmp_path: Path) -> None:
    logits = np.random.default_rng(8).normal(0, 2, 12)
    chances = np.exp(logits) / np.exp(logits).sum()
    twice = np.exp(chances) / np.exp(chances).sum()
    outputs, vector = {"o": chances[None].astype(np.float32)}, {"written": "as=decoded"}
    healthy = difference(tmp_path, outputs, np.float32(chances), "softmax", **vector)
    assert healthy.equal and "activation=none is assumed" in str(healthy)
    assert difference(tmp_path, outputs, np.float32(chances), "softmax,activation=none", **vector).equal
    found = difference(tmp_path, outputs, np.float32(twice), "softmax", **vector)
    assert not found.equal and "activation: softmax instead of none" in found.mistakes
    with pytest.raises(UsageError, match="softmax twice"):
        difference(tmp_path, outputs, np.float32(twice), "softmax,activation=softmax", **vector)
    codes = {"o": np.round(chances * 256).astype(np.uint8)[None]}  # add up to 1 within the roundings of 8 bits
    device = np.float32(codes["o"][0] / 256)
    assert difference(tmp_path, codes, device, "softmax", output={"o": "0.00390625,0"}, **vector).equal
    of_logits = difference(tmp_path, {"o": np.float32(logits)[None]}, np.float32(chances), "softmax", **vector)
    assert of_logits.equal and "activation=softmax is assumed" in str(of_logits)


@pytest.mark.parametrize("applied", [True, False])
def test_a_sigmoid_that_the_network_applied_is_not_applied_again(tmp_path: Path, applied: bool) -> None:
    g = np.random.default_rng(9)
    raw = {f"s{s}": g.normal(0, 1, (1, 64 + 3, 64 // s, 64 // s)) for s in (8, 16, 32)}
    for values in raw.values():
        values[:, 64:] = 1 / (1 + np.exp(-values[:, 64:])) if applied else values[:, 64:]
    np.savez(tmp_path / "r.npz", **{n: v.astype(np.float32) for n, v in raw.items()})
    decoder = find_decoder(f"yolov8,size=64x64,activation={'none' if applied else 'sigmoid'}")
    found = decoder.decode({n: v.astype(np.float32) for n, v in raw.items()})
    rows = [[*box, score, kind] for box, score, kind in zip(found.boxes, found.scores, found.classes, strict=True)]
    np.save(tmp_path / "d.npy", np.float32(rows))
    same = qverify.outputs_diff(tmp_path / "r.npz", tmp_path / "d.npy", decoder="yolov8,size=64x64")
    assert same.equal and ("activation=none is assumed" in str(same)) == applied


def test_keypoints(tmp_path: Path) -> None:
    maps = np.random.default_rng(2).uniform(0, 1, (1, 5, 12, 16)).astype(np.float32)
    points = []
    for at in range(5):
        y, x = np.unravel_index(maps[0, at].argmax(), (12, 16))
        moved = [float(x), float(y)]
        if 0 < x < 15 and 0 < y < 11:
            moved[0] += 0.25 * np.sign(maps[0, at, y, x + 1] - maps[0, at, y, x - 1])
            moved[1] += 0.25 * np.sign(maps[0, at, y + 1, x] - maps[0, at, y - 1, x])
        points.append([float(moved[0]) * 4, float(moved[1]) * 4, float(maps[0, at, y, x])])
    whole = [{"id": n, "x": p[0], "y": p[1], "score": p[2]} for n, p in enumerate(points)]
    assert difference(tmp_path, {"o": maps}, whole, "heatmaps").equal
    turned = [row | {"x": row["y"], "y": row["x"]} for row in whole]
    assert difference(tmp_path, {"o": maps}, turned, "heatmaps").mistakes[0] == "keypoints: x and y exchanged"


def test_masks(tmp_path: Path) -> None:
    planes = np.random.default_rng(3).normal(0, 1, (1, 4, 10, 14)).astype(np.float32)
    labels = planes[0].argmax(axis=0).astype(np.uint8)
    assert difference(tmp_path, {"o": planes}, labels, "segmentation").equal
    assert (
        difference(tmp_path, {"o": planes}, labels[:, ::-1], "segmentation").mistakes[0]
        == "labels: flipped left to right"
    )
    skipped = planes[0, 1:].argmax(axis=0).astype(np.uint8)
    assert (
        difference(tmp_path, {"o": planes}, skipped, "segmentation").mistakes[0]
        == "background: class 0 is taken for it"
    )


@pytest.mark.parametrize("through", [False, True])
def test_a_mask_that_is_stretched_goes_to_the_picture_in_one_step_or_through_the_input(
    tmp_path: Path, through: bool
) -> None:
    planes = np.random.default_rng(5).normal(0, 1, (1, 4, 9, 13)).astype(np.float32)

    def resized(values: np.ndarray, wide: int, high: int) -> np.ndarray:
        for axis, target in ((1, high), (2, wide)):
            source = values.shape[axis]
            at = np.clip((np.arange(target) + 0.5) * source / target - 0.5, 0, source - 1)
            low = np.floor(at).astype(int)
            part = (at - low).reshape((-1, 1) if axis == 1 else (1, -1))
            high_value = values.take(np.minimum(low + 1, source - 1), axis)
            values = values.take(low, axis) * (1 - part) + high_value * part
        return values

    at_once = resized(planes[0].astype(float), 40, 30).argmax(axis=0).astype(np.uint8)
    labels = resized(planes[0].astype(float), 52, 36).argmax(axis=0)
    by_input = labels[np.arange(30) * 36 // 30][:, np.arange(40) * 52 // 40].astype(np.uint8)
    stated = "segmentation,size=52x36,frame=40x30,fit=stretch,resize=bilinear"
    own, other = (by_input, at_once) if through else (at_once, by_input)
    decoder = f"{stated},through_input=true" if through else stated
    assert difference(tmp_path, {"o": planes}, own, decoder).equal
    said = "in one step" if through else "to the input's size, and its labels from there to the picture's"
    assert difference(tmp_path, {"o": planes}, other, decoder).mistakes == [f"labels: resized {said}"]


def test_text(tmp_path: Path) -> None:
    steps = np.full((1, 6, 4), 0.1, np.float32)
    for at, code in enumerate((1, 1, 0, 2, 3, 3)):
        steps[0, at, code] = 0.9
    assert difference(tmp_path, {"o": steps}, "abc", "ctc,characters=abc").equal
    assert difference(tmp_path, {"o": steps}, {"text": "bca"}, "ctc,characters=abc").mistakes == [
        "characters: the list begins one class too early"
    ]


def test_decoded_anchors(tmp_path: Path) -> None:
    """All anchors before threshold and NMS: the logits were not activated, and x and y of the cell exchanged."""
    g = np.random.default_rng(4)
    head = {f"s{s}": g.normal(0, 1, (1, 8, 64 // s, 64 // s)).astype(np.float32) for s in (8, 16, 32)}
    boxes, scores = [], []
    for values, s in zip(head.values(), (8, 16, 32), strict=True):
        for y in range(64 // s):
            for x in range(64 // s):
                v = values[0, :, y, x].astype(float)
                cx, cy, w, h = (v[0] + x) * s, (v[1] + y) * s, np.exp(v[2]) * s, np.exp(v[3]) * s
                boxes.append([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2])
                scores.append(1 / (1 + np.exp(-v[5:])) / (1 + np.exp(-v[4])))
    np.savez(tmp_path / "r.npz", **head)
    np.savez(tmp_path / "d.npz", boxes=np.float32(boxes), scores=np.float32(scores))
    assert qverify.outputs_diff(tmp_path / "r.npz", tmp_path / "d.npz", decoder="yolox,activation=sigmoid").equal
    other = np.float32(boxes)
    other[4, 2] += 0.5  # of an anchor that a sample of some may leave out
    np.savez(tmp_path / "d.npz", boxes=other, scores=np.float32(scores))
    one = qverify.outputs_diff(tmp_path / "r.npz", tmp_path / "d.npz", decoder="yolox,activation=sigmoid", seconds=2)
    assert not one.equal and one.mistakes == []
    np.savez(tmp_path / "d.npz", boxes=np.float32(boxes) + np.float32(0.5), scores=np.float32(scores))
    moved = qverify.outputs_diff(tmp_path / "r.npz", tmp_path / "d.npz", decoder="yolox,activation=sigmoid", seconds=3)
    assert not moved.equal and moved.mistakes == []
    found = qverify.outputs_diff(tmp_path / "r.npz", tmp_path / "d.npz", decoder="yolox", seconds=3)
    assert not found.equal and found.mistakes == []


@pytest.mark.parametrize(
    ("verdict", "right", "asked"), [("PASSED", 0.5, True), ("PASSED", 1.0, False), ("FAILED", 0.5, False)]
)
def test_a_run_asks_where_outputs_agree_and_the_task_does_not(verdict: Any, right: float, asked: bool) -> None:
    sides = [TaskSide("reference", 4, {"top-1": 1.0}), TaskSide("board", 4, {"top-1": right})]
    task = TaskNumbers("classification", "labels.txt", "o", 4, sides)
    report = ReportDocument.__new__(ReportDocument)
    report.verdict, report.tasks, report.pairs = verdict, [task], [Pair("reference", "board", "PASSED")]
    assert ("qverify outputs diff" in ask_for_outputs(report)) == asked
    report.pairs[0].relaxed = ["judged by cosine >= 0.1 instead of 5 decimals"]
    said = ask_for_outputs(report)
    assert "outputs diff" not in said and ("PASSED by a weaker gate only (judged by cosine >= 0.1" in said) == asked
    report.pairs[0].bit_equal = True
    assert ("qverify outputs diff" in ask_for_outputs(report)) == asked


def test_classes_have_the_number_that_is_stated(tmp_path: Path) -> None:
    logits = np.random.default_rng(1).normal(0, 2, (1, 12)).astype(np.float32)
    powers = np.exp(logits[0].astype(float))
    chances = powers / powers.sum()
    rows = [{"class": c + 1, "score": chances[c]} for c in np.argsort(-chances)[:3].tolist()]
    assert difference(tmp_path, {"o": logits}, rows, "softmax,top=3", written="first_class=1").equal


def anchor_head() -> dict[str, np.ndarray]:
    """Raw heads of yolov5, 64 x 64 pixels, two classes: a few objects, elsewhere negative objectness."""
    g = np.random.default_rng(4)
    heads = {}
    for side in (8, 4, 2):
        head = g.normal(0, 0.6, (1, 3, 7, side, side))
        head[:, :, 4] = -4 + g.normal(0, 0.3, (1, 3, side, side))
        head[0, 1, 4, side // 2, side // 2], head[0, 1, 5, side // 2, side // 2] = 3.0, 2.0
        heads[f"o{side}"] = head.reshape(1, 21, side, side).astype(np.float32)
    return heads


def anchor_rows(heads: dict[str, np.ndarray], s: Any, score: Any) -> list[dict[str, Any]]:
    """Returns the rows that an application without NMS makes of the heads. s: the activation. score: of objectness and class."""
    anchors = ((10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326))
    rows = []
    for (name, head), shapes in zip(heads.items(), anchors, strict=True):
        side = int(name[1:])
        v = s(head.astype(float).reshape(3, 7, side, side))
        y, x = np.mgrid[0:side, 0:side]
        centre = (2 * v[:, :2] - 0.5 + np.stack([x, y])) * (64 // side)
        extent = (2 * v[:, 2:4]) ** 2 * np.array(shapes, float).reshape(3, 2, 1, 1)
        scores = score(v[:, 4:5], v[:, 5:])
        for a, i, j in zip(*np.nonzero(scores.max(axis=1) > 0.25), strict=True):
            corners = np.concatenate([centre - extent / 2, centre + extent / 2], axis=1)[a, :, i, j]
            best = int(scores[a, :, i, j].argmax())
            rows.append({"box": corners.tolist(), "score": float(scores[a, best, i, j]), "class": best})
    return rows


@pytest.mark.parametrize(
    ("activated", "score", "said"),
    [
        (True, lambda o, c: o * c, ""),
        (True, lambda o, c: c + 0 * o, "score: the class score alone, without objectness"),
        (False, lambda o, c: o * c, "activation: missing"),
    ],
)
def test_a_head_with_anchors(activated: bool, score: Any, said: str, tmp_path: Path) -> None:
    """The activation of raw boxes is that of the recipe, and a negative objectness turns the order of the classes."""
    heads = anchor_head()
    rows = anchor_rows(heads, (lambda v: 1 / (1 + np.exp(-v))) if activated else (lambda v: v), score)
    found = difference(tmp_path, heads, rows, "yolov5,size=64x64,clip=false,nms=none,top=0,activation=sigmoid")
    assert found.equal if not said else found.mistakes == [said], found.mistakes


def test_rows_of_all_levels_are_not_taken_for_channels() -> None:
    """80 classes of 1680 anchors, in which the last level has 80 cells."""
    from qverify.decoders import yolox
    from qverify.decoders.parts.settings import Settings

    outputs = {"bbox": np.zeros((1, 1680, 4)), "obj": np.zeros((1, 1680, 1)), "cls": np.zeros((1, 1680, 80))}
    made = yolox.candidates(outputs, Settings(size=(320, 256), classes=80))
    assert made.values.shape == (1680, 80) and made.boxes(np.arange(3)).shape == (3, 4)


def ssd_rows(values: np.ndarray, first: int, exp: Any = np.exp) -> list[dict[str, Any]]:
    """Returns the rows that an application makes of four priors' offsets and scores, with the classes from `first` on."""
    rows = []
    for at, prior in enumerate(PRIORS):
        t = values[at, :4]
        centre, extent = prior[:2] + t[:2] * 0.1 * prior[2:], prior[2:] * exp(t[2:] * 0.2)
        box = np.concatenate([centre - extent / 2, centre + extent / 2]) * [100, 50, 100, 50]
        best = int(values[at, 4 + first :].argmax()) + first
        rows.append({"box": box.tolist(), "score": float(values[at, 4 + best]), "class": best - 1 + (first == 0)})
    return [row for row in rows if row["score"] > 0.3]


PRIORS = np.array([[0.2, 0.3, 0.2, 0.2], [0.5, 0.5, 0.3, 0.4], [0.7, 0.3, 0.2, 0.3], [0.6, 0.7, 0.2, 0.2]])


@pytest.mark.parametrize(
    ("first", "exp", "said"),
    [
        (1, np.exp, ""),
        (0, np.exp, "background: counts as a class, and as number 0 (the other classes one later)"),
        (1, lambda t: t, "extent: the exponential function is missing"),
        (1, lambda t: 1 + t, "extent: the exponential function is missing: 1 + value for exp(value)"),
    ],
)
def test_ssd(first: int, exp: Any, said: str, tmp_path: Path) -> None:
    g = np.random.default_rng(5)
    values = np.concatenate([g.normal(0.8, 0.3, (4, 4)), [[0.1, 0.5, 0.2], [0.9, 0.05, 0.05]] * 2], axis=1)
    values = values.astype(np.float32).astype(float)
    values[2, 5], values[3, 6], values[0, 2] = 0.7, 0.95, -0.2  # the last class wins once, a size is negative
    np.save(tmp_path / "priors.npy", PRIORS)
    outputs = {"loc": values[None, :, :4].astype(np.float32), "conf": values[None, :, 4:].astype(np.float32)}
    decoder = f"ssd,size=100x50,score=0.3,nms=none,clip=false,priors={tmp_path / 'priors.npy'}"
    found = difference(tmp_path, outputs, ssd_rows(values, first, exp), decoder, written="first_class=-1")
    assert found.equal if not said else found.mistakes == [said], found.mistakes


def test_shares_of_the_other_side(tmp_path: Path) -> None:
    g = np.random.default_rng(6)
    values = np.concatenate([g.uniform(0.1, 0.6, (40, 4)), g.uniform(0.1, 0.9, (40, 2))], axis=1).astype(np.float32)
    output = {"o": np.pad(values, [(0, 42 - 40), (0, 0)]).T[None]}  # 42 anchors of 64 x 32
    rows = []
    for v in values.astype(float):
        if v[4:].max() > 0.25:
            box = np.concatenate([v[:2] - v[2:4] / 2, v[:2] + v[2:4] / 2]) * [32, 64, 32, 64]
            rows.append({"box": box.tolist(), "score": v[4:].max(), "class": int(v[4:].argmax())})
    decoder = "yolov8,size=64x32,shares=true,clip=false,nms=none,top=0,classes=2"
    assert difference(tmp_path, output, rows, decoder).mistakes == [
        "extent: shares times height and width of the input"
    ]


def test_one_way_of_writing_is_one_mistake_and_stated_ones_are_none(tmp_path: Path) -> None:
    g = np.random.default_rng(7)
    values = np.concatenate([g.uniform(11, 20, (42, 4)), g.uniform(0.3, 0.9, (42, 2))], axis=1).astype(np.float32)
    output, decoder = {"o": values.T[None]}, "yolov8,size=64x32,clip=false,nms=none,top=0,classes=2"

    def rows(write: Any, more: float = 0.0) -> list[dict[str, Any]]:
        made = []
        for v in values.astype(float):
            box = np.concatenate([v[:2] - v[2:4] / 2, v[:2] + v[2:4] / 2]) + more
            made.append({"box": [write(x) for x in box], "score": write(v[4:].max()), "class": int(v[4:].argmax())})
        return made

    one = difference(tmp_path, output, rows(lambda x: float(f"{x:.3g}")), decoder)
    assert one.mistakes == ["coordinates and scores written with 3 significant digits"]
    cut = rows(float)
    for row in cut:
        row["box"] = [int(x) for x in row["box"]]
    assert difference(tmp_path, output, cut, decoder).mistakes == ["coordinates truncated to whole numbers"]
    assert difference(tmp_path, output, cut, decoder, written="digits=0,cut=true").equal
    assert not difference(tmp_path, output, cut, decoder, written="digits=0").equal


def test_two_mistakes_and_fewer_digits_are_not_named(tmp_path: Path) -> None:
    """Three mistakes at once: too much is possible."""
    g = np.random.default_rng(8)
    values = np.concatenate([g.uniform(11, 20, (42, 4)), g.uniform(0.3, 0.9, (42, 2))], axis=1).astype(np.float32)
    rows = []
    for v in values.astype(float):
        box = np.concatenate([v[:2] - v[2:4] / 2, v[:2] + v[2:4] / 2]) + 1
        rows.append({"box": [round(x, 2) for x in box], "score": v[4:].max(), "class": int(v[4:].argmax()) + 1})
    decoder = "yolov8,size=64x32,clip=false,nms=none,top=0,classes=2"
    found = difference(tmp_path, {"o": values.T[None]}, rows, decoder)
    assert not found.equal and not found.mistakes
    stated = difference(tmp_path, {"o": values.T[None]}, rows, decoder, written="digits=2")
    assert "class number: +1 + units: one pixel added" in stated.mistakes
    assert "units: one pixel added + class number: +1" not in stated.mistakes  # the same two


def test_no_peaks_and_another_mistake(tmp_path: Path) -> None:
    """CenterNet without the search for peaks: scores of cells that are no peak are written, too."""
    g = np.random.default_rng(13)
    heat, wh, reg = g.uniform(0.1, 0.6, (2, 8, 8)), g.uniform(1, 3, (2, 8, 8)), g.uniform(0, 1, (2, 8, 8))
    heat, wh, reg = (v.astype(np.float32).astype(float) for v in (heat, wh, reg))
    rows = []
    for y in range(8):
        for x in range(8):
            label = int(heat[:, y, x].argmax())
            centre, half = (np.array([x, y]) + reg[:, y, x]) * 4, wh[:, y, x] * 2
            box = [float(v) + 1 for v in (*(centre - half), *(centre + half))]
            if heat[label, y, x] > 0.4:
                rows.append({"box": box, "score": heat[label, y, x], "class": label})
    outputs = {n: v[None].astype(np.float32) for n, v in (("hm", heat), ("wh", wh), ("reg", reg))}
    found = difference(tmp_path, outputs, rows, "centernet,size=32x32,score=0.4,multi_label=false,clip=false")
    assert found.mistakes == ["peaks: cells that are no peak of 3 x 3 count + units: one pixel added"]


@pytest.mark.parametrize("seconds", [0.001, 20])
def test_every_single_mistake_that_fits_is_listed_whatever_the_time(tmp_path: Path, seconds: float) -> None:
    """CenterNet whose offsets are not added: offsets that are padded away give the same boxes, and are found earlier."""
    g = np.random.default_rng(15)
    heat, wh = g.uniform(0.1, 0.6, (2, 8, 8)), g.uniform(1, 3, (2, 8, 8))
    reg = np.zeros((2, 8, 8))
    reg[:, 0, 0] = heat[0, 0, 0] = 0.9
    heat, wh, reg = (v.astype(np.float32).astype(float) for v in (heat, wh, reg))
    rows = []
    for y in range(8):
        for x in range(8):
            around = heat[:, max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2]
            for label in (0, 1):
                if heat[label, y, x] > 0.4 and heat[label, y, x] == around[label].max():
                    centre, half = np.array([x, y]) * 4.0, wh[:, y, x] * 2
                    box = [float(v) for v in (*(centre - half), *(centre + half))]
                    rows.append({"box": box, "score": heat[label, y, x], "class": label})
    outputs = {n: v[None].astype(np.float32) for n, v in (("hm", heat), ("wh", wh), ("reg", reg))}
    np.savez(tmp_path / "r.npz", **outputs)
    (tmp_path / "d.json").write_text(json.dumps(rows))
    decoder = "centernet,size=32x32,score=0.4,clip=false"
    found = qverify.outputs_diff(tmp_path / "r.npz", tmp_path / "d.json", decoder=decoder, seconds=seconds)
    assert "grid: centre 0 (the values left out)" in found.mistakes
    assert found.to_json()["parts"][0]["not_searched"] == []


def test_rows_that_differ_are_not_said_to_be_equal() -> None:
    assert describe_rest(Rest(3, 4, 4, 0.5, 1.0)).startswith("3 of 4 equal, 4 made; differences: mean 0.5")
    near = describe_rest(Rest(4, 4, 4, 0.1439, 0.5))  # of float16, each is within the steps of the numbers written
    assert near.startswith("4 of 4 within the digits that were written, 4 made; differences: mean 0.1439")


def test_classes_by_rising_score_and_fewer_of_them(tmp_path: Path) -> None:
    chances = np.random.default_rng(14).dirichlet(np.ones(12)).astype(np.float32)
    lowest = [{"class": int(c), "score": float(chances[c])} for c in np.argsort(chances)[:3]]
    decoder, outputs = "softmax,top=3,activation=none", {"o": chances[None]}
    rising = "order: the lowest results, the lowest first"
    assert difference(tmp_path, outputs, lowest, decoder).mistakes == [rising]
    two = difference(tmp_path, outputs, lowest[:2], decoder).mistakes
    assert f"{rising} + top: only the best 2 results are written" in two


ODD: list[tuple[Any, str]] = [
    (lambda o, c: sigmoid(o) * c, "activation: sigmoid of the class scores missing"),
    (lambda o, c: o * sigmoid(c), "activation: sigmoid of the objectness missing"),
    (lambda o, c: sigmoid(o) * sigmoid(sigmoid(c)), "activation: sigmoid of the class scores once too often"),
    (lambda o, c: sigmoid(sigmoid(o)) * sigmoid(c), "activation: sigmoid of the objectness once too often"),
    (lambda o, c: sigmoid(sigmoid(o)) * sigmoid(sigmoid(c)), "activation: sigmoid applied twice"),
]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


@pytest.mark.parametrize(("score", "said"), ODD)
def test_activations_of_class_scores_and_objectness(score: Any, said: str, tmp_path: Path) -> None:
    g = np.random.default_rng(15)
    values = np.concatenate([g.normal(0, 0.5, (42, 4)), g.normal(0, 2, (42, 3))], axis=1).astype(np.float32)
    v = values.astype(float)
    cells = [(x, y, s) for s in (8, 16, 32) for y in range(32 // s) for x in range(64 // s)]
    rows = []
    for at, (x, y, stride) in enumerate(cells):
        scores = score(v[at, 4:5], v[at, 5:])
        centre, extent = (v[at, :2] + [x, y]) * stride, np.exp(v[at, 2:4]) * stride
        box = np.concatenate([centre - extent / 2, centre + extent / 2]).tolist()
        if scores.max() > 0.25:
            rows.append({"box": box, "score": scores.max(), "class": int(scores.argmax())})
    decoder = "yolox,size=64x32,clip=false,nms=none,top=0,classes=2,activation=sigmoid"
    assert said in difference(tmp_path, {"o": values[None]}, rows, decoder).mistakes


def test_the_first_anchors_only(tmp_path: Path) -> None:
    g = np.random.default_rng(16)
    values = np.concatenate([g.uniform(4, 9, (42, 4)), g.uniform(0.1, 0.9, (42, 2))], axis=1).astype(np.float32)
    values[:, :2] += np.arange(42)[:, None] * 20  # none overlaps another
    first = [v for v in values.astype(float) if v[4:].max() > 0.25][:10]
    rows = [
        {
            "box": [v[0] - v[2] / 2, v[1] - v[3] / 2, v[0] + v[2] / 2, v[1] + v[3] / 2],
            "score": v[4:].max(),
            "class": int(v[4:].argmax()),
        }
        for v in first
    ]
    decoder = "yolov8,size=64x32,clip=false,top=0,classes=2"
    said = "top: only the first 10 anchors above the threshold go into NMS"
    assert said in difference(tmp_path, {"o": values.T[None]}, rows, decoder).mistakes


@pytest.mark.parametrize("of_centre", [True, False])
def test_centre_or_size_in_cells(of_centre: bool, tmp_path: Path) -> None:
    g = np.random.default_rng(17)
    values = np.concatenate([g.normal(0, 0.5, (42, 4)), g.uniform(0, 1, (42, 3))], axis=1).astype(np.float32)
    v = values.astype(float)
    cells = [(x, y, s) for s in (8, 16, 32) for y in range(32 // s) for x in range(64 // s)]
    rows = []
    for at, (x, y, stride) in enumerate(cells):
        scores = v[at, 4] * v[at, 5:]
        centre = (v[at, :2] + [x, y]) * (1 if of_centre else stride)
        half = np.exp(v[at, 2:4]) * (stride if of_centre else 1) / 2
        if scores.max() > 0.25:
            box = [*(centre - half).tolist(), *(centre + half).tolist()]
            rows.append({"box": box, "score": scores.max(), "class": int(scores.argmax())})
    decoder = "yolox,size=64x32,clip=false,nms=none,top=0,classes=2,activation=none"
    said = f"strides: the {'centre' if of_centre else 'size'} is not multiplied by the stride"
    assert difference(tmp_path, {"o": values[None]}, rows, decoder).mistakes == [said]


def test_two_mistakes_of_one_family(tmp_path: Path) -> None:
    """y before x, and a peak that is moved by half a cell."""
    maps = np.random.default_rng(18).uniform(0, 1, (1, 5, 12, 16)).astype(np.float32)
    rows = []
    for at in range(5):
        y, x = (int(n) for n in np.unravel_index(maps[0, at].argmax(), (12, 16)))
        moved = [float(x), float(y)]
        if 0 < x < 15 and 0 < y < 11:
            moved[0] += 0.5 * np.sign(maps[0, at, y, x + 1] - maps[0, at, y, x - 1])
            moved[1] += 0.5 * np.sign(maps[0, at, y + 1, x] - maps[0, at, y - 1, x])
        rows.append({"id": at, "x": float(moved[1]) * 4, "y": float(moved[0]) * 4, "score": float(maps[0, at, y, x])})
    (said,) = difference(tmp_path, {"o": maps}, rows, "heatmaps").mistakes
    assert said.startswith("keypoints: ") and said.count("keypoints: ") == 2


def test_levels_of_one_cell_are_apart() -> None:
    from qverify.outputs.hypotheses.priors import _split

    grid = [(x, y) for y in (0.25, 0.75) for x in (0.25, 0.75) for _ in range(3)]
    values = np.array([(*place, 0.1, 0.1) for place in [*grid, *[(0.5, 0.5)] * 6]])
    assert [len(level) for level in _split(values)] == [12, 3, 3]


def test_classes_with_negative_values(tmp_path: Path) -> None:
    """Without a threshold, the best classes are written whatever their values are: here without the zero point."""
    q = np.random.default_rng(19).permutation(np.arange(-128, 0, dtype=np.int8))
    rows = [{"class": int(c), "score": float(q[c]) / 256} for c in np.argsort(-q.astype(int), kind="stable")[:4]]
    options = {"output": {"o": "0.00390625,-128"}}
    found = difference(tmp_path, {"o": q[None]}, rows, "softmax,top=4,activation=none", **options)
    assert "zero point: left out" in found.mistakes
