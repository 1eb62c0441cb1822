"""Segmentation: mean intersection over union, and the share of right pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders import Mask
from qverify.decoders.parts.levels import find_channels
from qverify.errors import TaskError
from qverify.printable import printable
from qverify.session.task.kinds import Outputs, TaskContext
from qverify.session.task.label_pictures import find_label_files, read_label_array
from qverify.session.task.metrics import Means, Score

NAME = "segmentation"
LABELS = "a folder with the class of each pixel as .png (indexed or gray) or .npy, named as the frames"
SUMMARY = "mIoU over the classes that labels or results have, right pixels"
DEFAULTS = {"ignore": "255"}
MAX_CLASSES = 4096


class Evaluator(Means):
    step = 0.005
    name, names = NAME, ("miou", "accuracy")

    def __init__(self, context: TaskContext):
        super().__init__(context.labels)
        self._context, self._ignore = context, int(context.number("ignore", -1, 1 << 31))
        self._decoder = context.find_decoder("segmentation", ("mask",))
        context.check_decoder(self._decoder)
        self.decoder = self._decoder.name

    def labels(self, frames: list[str]) -> list[Any]:
        paths, self.labelled = find_label_files(self._path, frames)
        return list(paths)

    def score(self, outputs: Outputs, label: Any, frame: str, side: str) -> Score:
        found = self._context.decode(self._decoder, outputs, frame, side)
        if not isinstance(found, Mask):
            raise TaskError(f"--decoder {self.decoder}: gives {type(found).__name__}, wanted a Mask")
        truth = self._truth(label, frame)
        self._check_size(truth.shape, found.labels.shape, label, frame)
        self._check_classes(int(truth[truth != self._ignore].max(initial=0)), outputs, label)
        shown = resize_nearest(found.labels, truth.shape)
        counted = truth != self._ignore
        kept = count_classes(truth[counted], shown[counted])
        right, total = int(kept[0].sum()), int(counted.sum())
        accuracy = right / total if total else float("nan")
        return Score({"accuracy": accuracy}, None, f"{accuracy:.1%} of the pixels", accuracy, kept)

    def _check_size(self, size: tuple[int, ...], shown: tuple[int, ...], path: str, frame: str) -> None:
        """Raises TaskError for labels of a frame of numbers that have another size than the result, the network's input, or the
        result enlarged: a picture may have any size, since it is fitted into the input."""
        times = size[0] // max(shown[0], 1)
        known = {shown, self._context.input_size[::-1], tuple(times * side for side in shown)}
        if frame.endswith((".npy", ".npz", ".bin")) and size not in known:
            raise TaskError(
                f"--labels {printable(path)}: {size[0]}x{size[1]}; wanted {shown[0]}x{shown[1]}, the size of the result"
            )

    def _check_classes(self, highest: int, outputs: Outputs, path: str) -> None:
        """Raises TaskError for a class that the network's scores do not have."""
        value = next(iter(outputs.values()))
        if len(outputs) != 1 or value.ndim != 4 or value.dtype.kind != "f":
            return
        classes = value.shape[1 + find_channels(value[0], self._decoder.settings)]
        if 1 < classes <= highest:
            raise TaskError(
                f"--labels {printable(path)}: class {highest}, the network has {classes}; ignore=CLASS leaves one out"
            )

    def _truth(self, path: str, frame: str) -> npt.NDArray[np.int64]:
        value = np.squeeze(read_label_array(path, is_mask=True))
        if value.ndim != 2 or value.dtype.kind not in "iub" or int(value.max()) >= 1 << 31:
            raise TaskError(
                f"--labels {printable(path)}: {value.dtype}{list(value.shape)}; wanted the class of each pixel, (H, W)"
            )
        truth = value.astype(np.int64)
        if truth[truth != self._ignore].max(initial=0) >= MAX_CLASSES or truth.min() < 0:
            raise TaskError(
                f"--labels {printable(path)}: a class beyond 0 to {MAX_CLASSES - 1}; ignore=CLASS leaves one out"
            )
        return truth

    def summarize(self, scores: Sequence[Score], base: Sequence[Score | None]) -> dict[str, float]:
        """Returns the mean over classes of intersection by union of all frames, and the share of right pixels of all."""
        kept = np.zeros((3, MAX_CLASSES), np.int64)
        for score in scores:
            kept[:, : score.kept.shape[1]] += score.kept
        inside, truth, shown = kept
        union = truth + shown - inside
        some, total = union > 0, int(truth.sum())
        miou = float((inside[some] / union[some]).mean()) if total else float("nan")
        return {"miou": miou, "accuracy": float(inside.sum() / total) if total else float("nan")}


def count_classes(truth: npt.NDArray[np.int64], shown: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns, for each class, the number of pixels that have it in both, in the label and in the result: (3, classes).
    A result beyond the classes counts as wrong."""
    within = np.where((shown >= 0) & (shown < MAX_CLASSES), shown, MAX_CLASSES - 1)
    classes = int(max(truth.max(initial=0), within.max(initial=0))) + 1
    rows = (truth[truth == shown], truth, within)
    return np.stack([np.bincount(row, minlength=classes) for row in rows]).astype(np.int64)


def resize_nearest(mask: npt.NDArray[np.int64], shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Returns the mask in another size: of each pixel the one at the same place."""
    rows, columns = ((np.arange(new) * 2 + 1) * old // (2 * new) for new, old in zip(shape, mask.shape, strict=True))
    return mask[rows][:, columns]
