"""Photos through `inputs prepare` to what the networks see in them: goldens of the models' own evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

from tests.conftest import MODELS, need_models

pytestmark = need_models()
IMAGES = MODELS / "inputs" / "images"
FACES = {  # score above 0.6 and boxes (x1, y1, x2, y2), overlapping ones taken once: MODELS.md
    "face.jpg": [(439, 118, 489, 184), (7, 102, 51, 161), (256, 50, 348, 168), (131, 84, 219, 201)],
    "grace_hopper.jpg": [(177, 117, 350, 339)],
    "parrot.jpg": [],
}
LABELS = {
    "parrot.jpg": "macaw",
    "cat.jpg": "tabby, tabby cat|cat|tiger cat|Egyptian cat",
    "hot_dog.jpg": "hotdog, hot dog, red hot",
}
YUNET = "--format featuremap --train bgr --layout NCHW --fit letterbox-top-left --library pillow --size 320x320"
MBV1 = "--format featuremap --train rgb --layout NCHW --fit crop --library pillow --size 224x224 --mean 127.5 --scale 0.00784313725490196"


def simulated(model: Path, given: str, folder: Path, *more: str) -> dict[str, np.ndarray]:
    assert main(["infer", "-m", str(model), "-i", given, "-o", str(folder), *more]) == 0
    held = json.loads((folder / "manifest.json").read_text())
    return {name: np.load(folder / file) for file, name in held["tensors"].items()}


def boxes(out: dict[str, np.ndarray], ratio: float) -> list[tuple[float, ...]]:
    """Returns the boxes with scores above 0.6, best first, without those that cover a better one by more than 0.3."""
    found = []
    for step in (8, 16, 32):
        score = np.sqrt(out[f"cls_{step}"][0, :, 0].clip(0, 1) * out[f"obj_{step}"][0, :, 0].clip(0, 1))
        for at in np.flatnonzero(score > 0.6):
            centre = (np.array([at % (320 // step), at // (320 // step)]) + out[f"bbox_{step}"][0, at, :2]) * step
            half = np.exp(out[f"bbox_{step}"][0, at, 2:]) * step / 2
            found.append((float(score[at]), *((centre - half) / ratio), *((centre + half) / ratio)))
    kept: list[tuple[float, ...]] = []
    for one in sorted(found, key=lambda row: -row[0]):  # equal scores in their own order
        if all(overlap(one[1:], other[1:]) <= 0.3 for other in kept):
            kept.append(one)
    return [one[1:] for one in kept]


def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    wide, high = (min(a[2 + k], b[2 + k]) - max(a[k], b[k]) for k in (0, 1))
    shared = max(wide, 0.0) * max(high, 0.0)
    return shared / (sum((x[2] - x[0]) * (x[3] - x[1]) for x in (a, b)) - shared)


@pytest.mark.parametrize("name", FACES)
def test_yunet_finds_its_faces(name: str, tmp_path: Path) -> None:
    from PIL import Image

    words = ["inputs", "prepare", str(IMAGES / name), "-o", str(tmp_path / "in"), *YUNET.split()]
    assert main(words) == 0
    model = MODELS / "yunet_n_320" / "yunet_n_320_u8s8_qdq.onnx"
    out = simulated(model, str(tmp_path / "in" / "0000.bin"), tmp_path / "out")
    with Image.open(IMAGES / name) as picture:
        ratio = 320 / max(picture.size)
    got = sorted(boxes(out, ratio))
    assert len(got) == len(FACES[name])
    for mine, golden in zip(got, sorted(FACES[name]), strict=True):
        assert np.abs(np.array(mine) - golden).max() <= 1


def labels() -> list[str]:
    lines = (MODELS / "inputs" / "imagenet_labels_1001.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines][1:]


@pytest.mark.parametrize("name", LABELS)
def test_mobilenet_finds_its_labels(name: str, tmp_path: Path) -> None:
    assert main(["inputs", "prepare", str(IMAGES / name), "-o", str(tmp_path / "in"), *MBV1.split()]) == 0
    model = MODELS / "mbv1_025_224" / "mbv1_025_224_u8s8_qdq.onnx"
    out = simulated(model, str(tmp_path / "in" / "0000.bin"), tmp_path / "out")
    assert labels()[int(out["prob"].argmax())] in LABELS[name].split("|")


@pytest.mark.parametrize("format_", ["nv12", "bgr_128", "featuremap"])
def test_mobilenet_finds_the_parrot_in_the_bytes_of_a_chip(format_: str, tmp_path: Path) -> None:
    """The photo straight to -i: model.bin itself says what it is fed."""
    source, binary = MODELS / "mbv1_025_224" / "mbv1_025_224_u8s8_qdq.onnx", tmp_path / "m.bin"
    keys = "train=rgb,mean=127.5,scale=0.00784313725490196,fit=crop,width_align=32,mode=opencv"
    assert main(["compile", str(source), "-o", str(binary), "--no-check", "--input", f"input={format_},{keys}"]) == 0
    out = simulated(binary, str(IMAGES / "parrot.jpg"), tmp_path / "out")
    assert labels()[int(out["prob"].argmax())] == "macaw"
