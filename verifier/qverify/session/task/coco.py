"""COCO JSON as labels: images, annotations and categories, read and checked; and the COCO evaluator on them."""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError, TaskError
from qverify.extras import import_extra
from qverify.files import parse_json, read_regular
from qverify.plural import count
from qverify.printable import printable
from qverify.session.task.label_pictures import stem_of

MAX_BYTES, MAX_ANNOTATIONS, MAX_KEYPOINTS = 1 << 28, 1 << 21, 256
EVALUATES = "the COCO evaluator"
SIGMA = 0.05  # of keypoints, where they are not the 17 of COCO


@dataclass(slots=True)
class LabelledImage:
    """An image of the labels. size: width and height of the picture, (0, 0) if they are not stated. objects: its annotations
    as they are."""

    number: int
    name: str
    size: tuple[int, int]
    objects: list[dict[str, Any]] = field(default_factory=list)

    def boxes(self, crowds: bool = False) -> npt.NDArray[np.float64]:
        """Returns x1, y1, x2, y2 of its objects that are no crowds (or of those that are), float64 (N, 4)."""
        rows = [a["bbox"] for a in self.objects if bool(a["iscrowd"]) == crowds]
        boxes = np.array(rows, np.float64).reshape(-1, 4)
        return np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)

    def classes(self, crowds: bool = False) -> npt.NDArray[np.int64]:
        """Returns the categories of the objects of boxes()."""
        return np.array([a["category_id"] for a in self.objects if bool(a["iscrowd"]) == crowds], np.int64)


@dataclass(frozen=True, slots=True)
class CocoLabels:
    """The labels of a run. images: of each frame, in order. categories: names by number, in rising order. labelled: number of
    images in the file."""

    images: list[LabelledImage]
    categories: dict[int, str]
    labelled: int = 0

    @property
    def numbers(self) -> list[int]:
        """The category of each class of the network, in rising order of the categories' numbers."""
        return sorted(self.categories)


def read_coco(path: str, frames: list[str]) -> CocoLabels:
    """Returns the labels of the frames. A frame is the image of its name, or of its last path component, with or without the
    ending. Raises BadFileError for a file of another form, TaskError if a frame is no image, or two are one, or no object is
    labelled in any of them; MissingExtraError without pycocotools, so that no frame runs in vain."""
    import_extra("pycocotools.cocoeval", EVALUATES)
    data = read_regular(path, MAX_BYTES, follow=True)
    if len(data) == MAX_BYTES:
        raise BadFileError(f"--labels {path}: at least {MAX_BYTES} bytes, wanted less")
    document = parse_json(data, f"--labels {path}")
    if not isinstance(document, dict) or not all(
        isinstance(document.get(k), list) for k in ("images", "annotations", "categories")
    ):
        raise BadFileError(
            f"--labels {path}: wanted COCO JSON: an object with the lists images, annotations and categories"
        )
    categories = {int(_whole(c, "id", path, "categories")): str(c.get("name", "")) for c in document["categories"]}
    images = [_read_image(row, path) for row in document["images"]]
    by_number = {image.number: image for image in images}
    if len(by_number) < len(images) or len(categories) < len(document["categories"]) or not categories:
        raise BadFileError(f"--labels {path}: two images or two categories of one id, or no category")
    if len(document["annotations"]) > MAX_ANNOTATIONS:
        raise BadFileError(
            f"--labels {path}: {len(document['annotations'])} annotations, wanted at most {MAX_ANNOTATIONS}"
        )
    given = [row["id"] for row in document["annotations"] if isinstance(row, dict) and isinstance(row.get("id"), int)]
    if len(set(given)) < len(given):
        raise BadFileError(f"--labels {path}: annotations: an id more than once; wanted each once")
    for at, row in enumerate(document["annotations"]):
        found = _read_annotation(row, at + 1, categories, path)
        if found["image_id"] not in by_number:
            raise BadFileError(f"--labels {path}: annotation {at}: no image {found['image_id']}")
        by_number[found["image_id"]].objects.append(found)
    chosen = _assign(images, frames, path)
    if not any(image.objects for image in chosen):
        raise TaskError(f"--labels {path}: no annotation of any of {count(len(frames), 'frame')}: nothing to measure")
    return CocoLabels(chosen, categories, len(images))


def _whole(row: Any, key: str, path: str, where: str) -> int:
    value = row.get(key) if isinstance(row, dict) else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 53:
        raise BadFileError(f"--labels {path}: {where}: {key} {printable(repr(value))[:40]}, wanted a whole number")
    return value


def _read_image(row: Any, path: str) -> LabelledImage:
    number = _whole(row, "id", path, "images")
    name = row.get("file_name")
    if not isinstance(name, str) or not name:
        raise BadFileError(f"--labels {path}: image {number}: no file_name")
    if ("width" in row) != ("height" in row):
        raise BadFileError(f"--labels {path}: image {number}: wanted width and height, or neither")
    size = (_whole(row, "width", path, name), _whole(row, "height", path, name)) if "width" in row else (0, 0)
    if size != (0, 0) and not all(0 < side <= 1 << 15 for side in size):
        raise BadFileError(f"--labels {path}: image {number}: {size[0]}x{size[1]} pixels")
    return LabelledImage(number, name, size)


def _read_annotation(row: Any, number: int, categories: Mapping[int, str], path: str) -> dict[str, Any]:
    where = f"annotation {number - 1}"
    image, category = _whole(row, "image_id", path, where), _whole(row, "category_id", path, where)
    box = _numbers(row.get("bbox"), path, f"{where}: bbox")
    if len(box) != 4 or min(box[2:]) < 0:
        raise BadFileError(f"--labels {path}: {where}: wanted bbox [x, y, width, height]")
    if category not in categories:
        raise BadFileError(f"--labels {path}: {where}: category_id {category} is none of the categories")
    area = row.get("area", box[2] * box[3])
    found = {
        "id": number,
        "image_id": image,
        "category_id": category,
        "bbox": box,
        "area": _numbers([area], path, f"{where}: area")[0],
        "iscrowd": 1 if row.get("iscrowd") else 0,
    }
    if (points := row.get("keypoints")) is not None:
        places = _numbers(points, path, f"{where}: keypoints")
        if len(places) % 3 or not 3 <= len(places) <= 3 * MAX_KEYPOINTS:
            raise BadFileError(f"--labels {path}: {where}: wanted keypoints [x, y, visibility, ...]")
        found |= {"keypoints": places, "num_keypoints": sum(v > 0 for v in places[2::3])}
    return found


def _numbers(values: Any, path: str, where: str) -> list[float]:
    fits = isinstance(values, list) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
    if not fits or not all(math.isfinite(v) and abs(v) < 1e9 for v in values):
        raise BadFileError(f"--labels {path}: {where}: wanted finite numbers")
    return [float(v) for v in values]


def _assign(images: Sequence[LabelledImage], frames: list[str], path: str) -> list[LabelledImage]:
    """Returns the image of each frame."""
    by_name: dict[str, list[LabelledImage]] = {}
    for image in images:
        for name in {image.name, os.path.basename(image.name), stem_of(image.name)}:
            by_name.setdefault(name, []).append(image)
    chosen, lacking = list[LabelledImage](), list[str]()
    for frame in frames:
        names = (frame, os.path.basename(frame), stem_of(frame))
        found = next((by_name[name] for name in names if name in by_name), [])
        if len(found) > 1:
            raise TaskError(f"--labels {path}: {printable(frame)} is {len(found)} images; give names that differ")
        lacking += [] if found else [frame]
        chosen += found
    if lacking:
        raise TaskError(
            f"--labels {path}: no image has the name of {printable(lacking[0])}, nor of {len(lacking) - 1} other frames of -i"
        )
    if len({image.number for image in chosen}) < len(chosen):
        raise TaskError(f"--labels {path}: two frames of -i are one image")
    return chosen


def evaluate(
    images: Iterable[LabelledImage], categories: Sequence[int], found: list[dict[str, Any]], kind: str
) -> list[float]:
    """Returns the numbers of the COCO evaluator (COCOeval.stats), NaN for those that are not defined. found: detections as its
    results: image_id, category_id, bbox [x, y, width, height], score, of keypoints also keypoints. kind: bbox or
    keypoints. Raises MissingExtraError without pycocotools."""
    coco, cocoeval = import_extra("pycocotools.coco", EVALUATES), import_extra("pycocotools.cocoeval", EVALUATES)
    chosen = list(images)
    annotations = [a for i in chosen for a in i.objects if kind == "bbox" or "keypoints" in a]
    dataset = {
        "info": {},
        "images": [{"id": i.number, "width": i.size[0], "height": i.size[1]} for i in chosen],
        "annotations": annotations,
        "categories": [{"id": number, "name": str(number)} for number in categories],
    }
    if not any(not a["iscrowd"] for a in annotations):
        return [math.nan] * (12 if kind == "bbox" else 10)
    if not found:
        return [0.0] * (12 if kind == "bbox" else 10)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints tables
        truth = coco.COCO()
        truth.dataset = dataset
        truth.createIndex()
        evaluation = cocoeval.COCOeval(truth, truth.loadRes(found), kind)
        if kind == "keypoints":
            points = max(len(a["keypoints"]) for a in annotations) // 3
            if points != len(evaluation.params.kpt_oks_sigmas):
                evaluation.params.kpt_oks_sigmas = np.full(points, SIGMA)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return [math.nan if value < 0 else float(value) for value in evaluation.stats]
