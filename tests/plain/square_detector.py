"""A small detector that really finds bright and dark squares, trained here by least squares, its frames and their labels.

Its one output (1, 6, 64) has the rows of YOLOv8 as decoded by the network: centre, width and height in pixels of the input
(1, 1, 64, 64), then the scores of the two classes, for the 64 cells of stride 8."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import qverify
from onnx import TensorProto, helper, numpy_helper

SIDE, STRIDE, WINDOW, BANDS = 64, 8, 24, 8
CELLS = SIDE // STRIDE
CATEGORIES = [{"id": 3, "name": "bright"}, {"id": 7, "name": "dark"}]
Array = npt.NDArray[Any]


def draw(rng: np.random.Generator) -> tuple[Array, list[tuple[int, int, int, int, int]]]:
    """Returns a picture (1, 1, 64, 64), 0..1, and its squares: x, y, width, height, class; at most one near each cell."""
    picture = 0.5 + rng.normal(size=(SIDE, SIDE)) * 0.02
    squares: list[tuple[int, int, int, int, int]] = []
    for _ in range(int(rng.integers(1, 4))):
        side = int(rng.integers(9, 19))
        x, y = (int(v) for v in rng.integers(1, SIDE - side - 1, 2))
        if any(abs(x - a) < 30 and abs(y - b) < 30 for a, b, *_ in squares):
            continue
        kind = int(rng.integers(0, 2))
        squares.append((x, y, side, side, kind))
        picture[y : y + side, x : x + side] += 0.45 if kind == 0 else -0.45
    return np.clip(picture, 0, 1).astype(np.float32)[None, None], squares


def _filters() -> tuple[Array, Array]:
    """Weights and biases of the first two layers: brightness above and below the background, and sums over the bands of rows
    and columns around a cell."""
    first = np.array([1.0, -1.0], np.float32).reshape(2, 1, 1, 1)
    bands = np.zeros((4 * BANDS, 2, WINDOW, WINDOW), np.float32)
    step = WINDOW // BANDS
    for polarity in range(2):
        for band in range(BANDS):
            at = slice(band * step, (band + 1) * step)
            bands[polarity * 2 * BANDS + band, polarity, at, :] = 1 / (step * WINDOW)
            bands[polarity * 2 * BANDS + BANDS + band, polarity, :, at] = 1 / (step * WINDOW)
    return first, bands


HIDDEN = 96


def _features(pictures: Array) -> Array:
    """Returns the values of the 32 bands at every cell, (N, 32, 8, 8), as the network computes them."""
    above = np.stack([np.maximum(pictures[:, 0] - 0.6, 0), np.maximum(0.4 - pictures[:, 0], 0)], axis=1)
    pad = (WINDOW - STRIDE) // 2
    padded = np.pad(above, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    _, bands = _filters()
    windows = np.lib.stride_tricks.sliding_window_view(padded, (WINDOW, WINDOW), axis=(2, 3))[:, :, ::STRIDE, ::STRIDE]
    return np.tensordot(windows, bands, axes=([1, 4, 5], [1, 2, 3])).transpose(0, 3, 1, 2)


@cache
def train() -> tuple[Array, Array, Array, Array]:
    """Returns the weights of the hidden layer, random, and of the last one, fitted: (96, 32), (96,), (6, 96), (6,)."""
    rng = np.random.default_rng(7)
    drawn = [draw(rng) for _ in range(600)]
    features = _features(np.concatenate([picture for picture, _ in drawn])).transpose(0, 2, 3, 1).reshape(-1, 4 * BANDS)
    weights, bias = rng.normal(size=(HIDDEN, 4 * BANDS)) * 2, rng.normal(size=HIDDEN) * 0.3
    hidden = np.maximum(features @ weights.T + bias, 0)
    targets, near = np.zeros((len(drawn), CELLS, CELLS, 6)), np.zeros((len(drawn), CELLS, CELLS))
    for at, (_, squares) in enumerate(drawn):
        for x, y, wide, high, kind in squares:
            cx, cy = x + wide / 2, y + high / 2
            for row in range(CELLS):
                for column in range(CELLS):
                    dx, dy = cx - (column + 0.5) * STRIDE, cy - (row + 0.5) * STRIDE
                    if max(abs(dx), abs(dy)) <= 5:
                        targets[at, row, column, :4] = dx, dy, wide, high
                        targets[at, row, column, 4 + kind] = max(0.0, 1 - max(abs(dx), abs(dy)) / 10)
                        near[at, row, column] = 1
    targets, near = targets.reshape(-1, 6), near.reshape(-1) > 0
    rows = np.concatenate([hidden, np.ones((len(hidden), 1))], axis=1)
    boxes = np.linalg.lstsq(rows[near], targets[near, :4], rcond=None)[0]
    weight = np.where(near, 3.0, 1.0)[:, None]
    scores = np.linalg.lstsq(rows * weight, targets[:, 4:] * weight, rcond=None)[0]
    last = np.concatenate([boxes, scores], axis=1).T
    return weights, bias, last[:, :-1], last[:, -1]


def float_model() -> onnx.ModelProto:
    """Returns the detector as a float ONNX: input `image`, output `boxes`."""
    first, bands = _filters()
    weights, bias, last, offset = train()
    pad = (WINDOW - STRIDE) // 2
    columns, rows = np.meshgrid(np.arange(CELLS), np.arange(CELLS))
    centres = np.stack([(columns + 0.5) * STRIDE, (rows + 0.5) * STRIDE]).reshape(1, 2, -1)
    shift = np.concatenate([centres, np.zeros((1, 2, CELLS * CELLS))], axis=1)
    constants: dict[str, Array] = {
        **{"w0": first, "b0": np.array([-0.6, 0.4]), "w1": bands},
        **{"w2": weights[:, :, None, None], "b2": bias},
        **{"w3": last[:4, :, None, None], "b3": offset[:4], "w4": last[4:, :, None, None], "b4": offset[4:]},
        **{"shift": shift},
    }
    nodes = [
        helper.make_node("Conv", ["image", "w0", "b0"], ["c0"], name="polarity"),
        helper.make_node("Relu", ["c0"], ["r0"], name="relu0"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], name="bands", strides=[STRIDE, STRIDE], pads=[pad] * 4),
        helper.make_node("Conv", ["c1", "w2", "b2"], ["c2"], name="hidden"),
        helper.make_node("Relu", ["c2"], ["r2"], name="relu2"),
        helper.make_node("Conv", ["r2", "w3", "b3"], ["offsets"], name="box"),
        helper.make_node("Conv", ["r2", "w4", "b4"], ["chances"], name="score"),
        helper.make_node("Relu", ["chances"], ["positive"], name="positive"),
        helper.make_node("Reshape", ["offsets", "rows4"], ["flat4"], name="flat4"),
        helper.make_node("Reshape", ["positive", "rows2"], ["flat2"], name="flat2"),
        helper.make_node("Add", ["flat4", "shift"], ["decoded"], name="grid"),
        helper.make_node("Concat", ["decoded", "flat2"], ["boxes"], name="join", axis=1),
    ]
    initializers = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in constants.items()]
    initializers += [
        numpy_helper.from_array(np.array([1, n, CELLS * CELLS]), k) for k, n in (("rows4", 4), ("rows2", 2))
    ]
    graph = helper.make_graph(
        nodes,
        "squares",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 1, SIDE, SIDE))],
        [helper.make_tensor_value_info("boxes", TensorProto.FLOAT, (1, 6, CELLS * CELLS))],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def make(folder: Path, frames: int = 12, seed: int = 3) -> dict[str, Path]:
    """Writes the float and the quantized detector, frames and labels. Returns their paths: float, quantized, frames, labels."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / name for name in ("frames", "calibration")}
    for path in paths.values():
        path.mkdir()
    rng = np.random.default_rng(seed)
    images, annotations = [], list[dict[str, Any]]()
    for at in range(frames):
        picture, squares = draw(rng)
        np.save(paths["frames"] / f"f{at:03}.npy", picture)
        images.append({"id": at + 10, "file_name": f"f{at:03}.jpg", "width": SIDE, "height": SIDE})
        for x, y, wide, high, kind in squares:
            box = {"bbox": [x, y, wide, high], "area": wide * high, "iscrowd": 0}
            row = {"id": len(annotations) + 1, "image_id": at + 10, "category_id": CATEGORIES[kind]["id"], **box}
            annotations.append(row)
    for at in range(16):
        np.save(paths["calibration"] / f"c{at:03}.npy", draw(rng)[0])
    paths["labels"] = folder / "labels.json"
    paths["labels"].write_text(json.dumps({"images": images, "annotations": annotations, "categories": CATEGORIES}))
    paths["float"], paths["quantized"] = folder / "squares.onnx", folder / "squares_q.onnx"
    onnx.save(float_model(), str(paths["float"]))
    qverify.quantize(paths["float"], paths["quantized"], inputs=paths["calibration"], float=["grid", "join"])
    return paths
