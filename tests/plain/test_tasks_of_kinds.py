"""The numbers of each task beside plain numpy or the library's own call, and values that are no numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jiwer
import numpy as np
import pytest
from PIL import Image
from qverify.errors import TaskError
from qverify.model_bin.graph import Graph
from qverify.session.task.boxes import iou_table, pair_boxes
from qverify.session.task.kinds import TaskContext, parse_task
from qverify.session.task.labels import read_labels
from qverify.tensors.spec import TensorSpec
from skimage.metrics import structural_similarity

RANDOM = np.random.Generator(np.random.PCG64(11))


def context(task: str, labels: Path | str, decoder: str = "", dtype: str = "float32", **outputs: tuple[int, ...]):
    specs = {name: TensorSpec(name, dtype, shape) for name, shape in outputs.items()}
    specs["image"] = TensorSpec("image", "float32", (1, 3, 32, 48))
    graph = Graph([], specs, {}, ("image",), tuple(outputs))
    page, options = parse_task(task)
    return page.Evaluator(TaskContext(graph, list(outputs), str(labels), options, decoder))


def measured(metric, frames: list[str], results: list[dict[str, np.ndarray]]) -> dict[str, float]:
    labels = metric.labels(frames)
    for label, frame in zip(labels, frames, strict=True):
        metric.check(label, frame)
    scores = [metric.score(r, label, f, "board") for r, label, f in zip(results, labels, frames, strict=True)]
    return metric.summarize(scores, list(scores))


def test_segmentation(tmp_path):
    """mIoU over the classes that labels or results have, a class of the result alone included; 255 does not count."""
    frames, results, truths = ["a.jpg", "b.jpg"], [], []
    for name in "ab":
        truth = RANDOM.integers(0, 3, (20, 30)).astype(np.uint8)
        truth[:2] = 255
        Image.fromarray(truth).save(tmp_path / f"{name}.png")
        truths.append(truth)
        results.append({"y": RANDOM.normal(size=(1, 4, 20, 30))})
    got = measured(context("segmentation", tmp_path, y=(1, 4, 20, 30)), frames, results)
    truth = np.concatenate([t[t != 255] for t in truths])
    shown = np.concatenate([r["y"][0].argmax(axis=0)[t != 255] for r, t in zip(results, truths, strict=True)])
    shares = [((truth == c) & (shown == c)).sum() / ((truth == c) | (shown == c)).sum() for c in range(4)]
    assert got["miou"] == pytest.approx(np.mean(shares)) and got["accuracy"] == pytest.approx((truth == shown).mean())
    same = [{"y": np.eye(4)[np.where(t == 255, 3, t)][None].transpose(0, 3, 1, 2)} for t in truths]
    assert measured(context("segmentation", tmp_path, y=(1, 4, 20, 30)), frames, same)["miou"] == 1.0


@pytest.mark.parametrize(
    ("truth", "said"),
    [
        (np.zeros((10, 15), np.uint8), "10x15; wanted 20x30, the size of the result"),
        (np.zeros((40, 30), np.uint8), "40x30; wanted 20x30"),
        (np.full((20, 30), 4, np.uint8), "class 4, the network has 4"),
    ],
)
def test_masks_that_do_not_fit_the_network_are_refused(tmp_path, truth, said):
    np.save(tmp_path / "f.npy", truth)
    with pytest.raises(TaskError, match=said):
        measured(context("segmentation", tmp_path, y=(1, 4, 20, 30)), ["f.npy"], [{"y": np.zeros((1, 4, 20, 30))}])


def test_a_mask_of_integers_and_of_another_size(tmp_path):
    truth = np.repeat(np.repeat(RANDOM.integers(0, 5, (10, 8)), 3, axis=0), 3, axis=1).astype(np.uint8)
    np.save(tmp_path / "f.npy", truth)
    metric = context("segmentation", tmp_path, dtype="int64", y=(1, 10, 8))
    assert measured(metric, ["f.npy"], [{"y": truth[None, 1::3, 1::3].astype(np.float64)}])["miou"] == 1.0


def test_super_resolution(tmp_path):
    truth = RANDOM.integers(0, 256, (40, 50)).astype(np.uint8)
    Image.fromarray(truth).save(tmp_path / "f.png")
    real = truth / 255.0
    made = np.clip(real + RANDOM.normal(size=real.shape) * 0.05, 0, 1)
    metric = context("super-resolution,peak=1", tmp_path, y=(1, 1, 40, 50))
    got = measured(metric, ["f.npy"], [{"y": made[None, None]}])
    assert got["psnr"] == pytest.approx(10 * math.log10(1 / ((made - real) ** 2).mean()), abs=1e-9)
    options = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "data_range": 1.0}
    assert got["ssim"] == pytest.approx(structural_similarity(real, made, **options), abs=1e-9)
    assert measured(metric, ["f.npy"], [{"y": real[None, None]}]) == {"psnr": 100.0, "ssim": pytest.approx(1.0)}
    spoilt = made.copy()
    spoilt[3, 4] = np.nan
    assert measured(metric, ["f.npy"], [{"y": spoilt[None, None]}])["psnr"] == 0.0
    with pytest.raises(TaskError, match="but the output is"):
        measured(context("super-resolution", tmp_path, y=(1, 1, 20, 50)), ["f.npy"], [{"y": made[None, None, :20]}])


def test_texts(tmp_path):
    (tmp_path / "l.txt").write_text("a.wav\tab ba\nb.wav\tbab\n")
    characters = "ab "

    def steps(text: str) -> np.ndarray:
        rows = np.zeros((1, 24, 4))
        for at, letter in enumerate(text):
            rows[0, 2 * at, characters.index(letter) + 1] = 1
            rows[0, 2 * at + 1, 0] = 1
        rows[0, 2 * len(text) :, 0] = 1
        return rows

    for task in ("speech", "ocr"):
        metric = context(task, tmp_path / "l.txt", f"ctc,characters={characters}", y=(1, 24, 4))
        got = measured(metric, ["a.wav", "b.wav"], [{"y": steps("ab bb")}, {"y": steps("bab")}])
        assert got["accuracy"] == 0.5 and metric.smaller == {"wer", "cer"}
        assert got["wer"] == jiwer.wer(["ab ba", "bab"], ["ab bb", "bab"]) == pytest.approx(1 / 3)
        assert got["cer"] == jiwer.cer(["ab ba", "bab"], ["ab bb", "bab"])


def test_embeddings(tmp_path):
    """Recall beside a plain search; a frame whose label is alone is not asked, one without a vector finds nothing."""
    labels = [0, 0, 1, 1, 2, 2, 3]
    frames = [f"f{n}.npy" for n in range(7)]
    (tmp_path / "l.csv").write_text(
        "file,identity\n" + "".join(f"{f},{n}\n" for f, n in zip(frames, labels, strict=True))
    )
    vectors = RANDOM.normal(size=(7, 16))
    vectors[1] = vectors[0] + 0.1
    got = measured(context("embedding", tmp_path / "l.csv", y=(1, 16)), frames, [{"y": v[None]} for v in vectors])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for k in (1, 5):
        found = 0
        for at in range(6):
            order = sorted((n for n in range(7) if n != at), key=lambda n: -float(unit[at] @ unit[n]))[:k]
            found += any(labels[n] == labels[at] for n in order)
        assert got[f"recall@{k}"] == pytest.approx(found / 6)
    vectors[:] = np.nan
    got = measured(context("embedding", tmp_path / "l.csv", y=(1, 16)), frames, [{"y": v[None]} for v in vectors])
    assert got == {"recall@1": 0.0, "recall@5": 0.0}
    (tmp_path / "l.csv").write_text("".join(f"{n}\n" for n in range(7)))
    got = measured(context("embedding", tmp_path / "l.csv", y=(1, 16)), frames, [{"y": v[None]} for v in vectors])
    assert all(math.isnan(value) for value in got.values())


def test_keywords_by_name(tmp_path):
    (tmp_path / "l.csv").write_text("file,label\na.wav,go\nb.wav,1\n")
    metric = context("keyword,names=stop;go;left", tmp_path / "l.csv", y=(1, 3))
    rows = [{"y": np.array([[0.1, 0.9, 0.0]])}, {"y": np.array([[0.5, 0.1, 0.2]])}]
    assert measured(metric, ["a.wav", "b.wav"], rows) == {"accuracy": 0.5}
    with pytest.raises(TaskError, match="2 names, wanted one for each of 3 classes"):
        context("keyword,names=stop;go", tmp_path / "l.csv", y=(1, 3))


def test_keypoints(tmp_path):
    """A point of each map at the true place, one far away; the similarity is COCO's formula."""
    points = np.array([[8, 8], [24, 12], [40, 28]])
    row = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 40, 30], "area": 1200.0}
    row["keypoints"] = [v for x, y in points.tolist() for v in (x, y, 2)]
    image = {"id": 1, "file_name": "f.png", "width": 48, "height": 32}
    (tmp_path / "l.json").write_text(json.dumps({"images": [image], "annotations": [row], "categories": [{"id": 1}]}))
    maps = np.zeros((1, 3, 8, 12))
    for at, (x, y) in enumerate([(8, 8), (24, 12), (20, 28)]):  # the last is 20 pixels away
        maps[0, at, y // 4, x // 4] = 1
    metric = context("keypoints,pck=0.1", tmp_path / "l.json", "heatmaps,refine=0", y=(1, 3, 8, 12))
    got = measured(metric, ["f.npy"], [{"y": maps}])
    far = math.exp(-(20**2) / (2 * 1200.0 * (2 * 0.05) ** 2))
    assert got["pck"] == pytest.approx(2 / 3) and got["oks"] == pytest.approx((2 + far) / 3)
    maps[:] = np.nan
    assert measured(metric, ["f.npy"], [{"y": maps}])["pck"] < 1


def test_boxes_beside_boxes():
    a = np.array([[0, 0, 10, 10], [20, 20, 30, 30], [5, 5, 5, 5]], float)
    b = np.array([[0, 0, 10, 5], [20, 20, 30, 30], [5, 5, 5, 5]], float)
    table = iou_table(a, b)
    assert table[0, 0] == pytest.approx(0.5) and table[1, 1] == table[2, 2] == 1 and table[0, 1] == 0
    classes = np.array([0, 0, 1])
    assert [(i, j) for i, j, _ in pair_boxes(a, b, classes, classes, 0.5)] == [(1, 1), (2, 2), (0, 0)]
    assert pair_boxes(a, b, classes, classes + 2, 0.5) == [] and pair_boxes(a[:0], b, classes[:0], classes, 0.5) == []


def test_labels_with_tabs_and_headings(tmp_path):
    (tmp_path / "l").write_text("file\ttext\na.wav\tone, two\nb.wav\tthree\n")
    assert read_labels(str(tmp_path / "l"), ["x/a.wav", "x/b.wav"]) == ["one, two", "three"]
    (tmp_path / "l").write_text("image,class\na.wav,1\nb.wav,2\n")
    assert read_labels(str(tmp_path / "l"), ["a.wav", "b.wav"]) == ["1", "2"]


@pytest.mark.parametrize("wrong", ["missing", "twice", "colour", "floats"])
def test_mistakes_in_folders_of_labels(tmp_path, wrong):
    if wrong != "missing":
        Image.fromarray(np.zeros((4, 4, 3) if wrong == "colour" else (4, 4), np.uint8)).save(tmp_path / "f.png")
    if wrong in ("twice", "floats"):
        np.save(tmp_path / "f.npy", np.zeros((4, 4), np.float32))
    if wrong == "floats":
        (tmp_path / "f.png").unlink()
    said = {
        "missing": "no file for f.npy",
        "twice": "2 files for frame",
        "colour": "mode RGB",
        "floats": "wanted the class",
    }
    with pytest.raises(Exception, match=said[wrong]):
        measured(context("segmentation", tmp_path, y=(1, 2, 4, 4)), ["f.npy"], [{"y": np.zeros((1, 2, 4, 4))}])
