"""Super resolution: PSNR and SSIM beside the true picture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.errors import TaskError
from qverify.extras import import_extra
from qverify.printable import printable
from qverify.session.task.kinds import Outputs, TaskContext
from qverify.session.task.label_pictures import find_label_files, read_label_array
from qverify.session.task.metrics import Means, Score

NAME = "super-resolution"
LABELS = "a folder with the true picture as .png or .npy, named as the frames"
SUMMARY = "PSNR in dB (100 for an equal picture) and SSIM, means over the frames"
DEFAULTS = {"peak": "0", "border": "0"}
MOST_DB = 100.0
OF_WANG = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}  # SSIM as it was published
SMALLEST = 11  # pixels of a side, which SSIM's window needs


class Evaluator(Means):
    step = 0.1  # dB
    name, names = NAME, ("psnr", "ssim")

    def __init__(self, context: TaskContext):
        super().__init__(context.labels)
        self._context, self._border = context, int(context.number("border", 0, 1 << 12))
        self._peak = context.number("peak", 0, 65535)
        pictures = [n for n in context.names if len(context.graph.spec(n).shape) in (3, 4)]
        if len(pictures) != 1:
            raise TaskError(f"--task {NAME}: the outputs are {context.say_shapes()}; wanted one that is a picture")
        self.output = pictures[0]
        self._similarity = import_extra("skimage.metrics", f"--task {NAME}").structural_similarity

    def labels(self, frames: list[str]) -> list[Any]:
        paths, self.labelled = find_label_files(self._path, frames)
        return list(paths)

    def score(self, outputs: Outputs, label: Any, frame: str, side: str) -> Score:
        truth, peak = self._truth(label)
        made = self._picture(outputs[self.output])
        if made.shape != truth.shape:
            raise TaskError(
                f"--labels {printable(label)}: {list(truth.shape)}, but the output is {list(made.shape)} (height, width, channels)"
            )
        if not np.isfinite(made).all():
            return Score({"psnr": 0.0, "ssim": -1.0}, None, "NaN", 0.0)
        error = float(((made - truth) * (made - truth)).mean())
        psnr = MOST_DB if error == 0 else min(MOST_DB, 10 * functions64.log10_of(peak * peak / error))
        ssim = float(self._similarity(truth, made, data_range=peak, channel_axis=2, **OF_WANG))
        return Score({"psnr": psnr, "ssim": ssim}, None, f"PSNR {psnr:.2f} dB, SSIM {ssim:.4f}", psnr)

    def _picture(self, value: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Returns a picture as (height, width, channels), without its border."""
        value = np.asarray(value, np.float64)
        value = value[0] if value.ndim == 4 and value.shape[0] == 1 else value
        value = value[:, :, None] if value.ndim == 2 else value
        if value.ndim != 3:
            raise TaskError(f"--task {NAME}: a picture of {list(value.shape)}; wanted one of one or three channels")
        if value.shape[2] not in (1, 3) and value.shape[0] in (1, 3):
            value = np.moveaxis(value, 0, 2)
        inside = slice(self._border, -self._border or None)
        value = value[inside, inside]
        if min(value.shape[:2]) < SMALLEST:
            raise TaskError(
                f"--task {NAME}: {value.shape[1]}x{value.shape[0]} pixels; wanted at least {SMALLEST}x{SMALLEST}"
            )
        return value

    def _truth(self, path: str) -> tuple[npt.NDArray[np.float64], float]:
        """Returns the true picture in the output's values, and the largest of these. Integers go from 0 to the largest of
        their type, which is `peak` of the output (1 without it, if the values are floats)."""
        value = read_label_array(path, is_mask=False)
        picture = self._picture(value)
        if value.dtype.kind == "f":
            peak = self._peak or 1.0
            if not math.isfinite(float(np.abs(picture).max())):
                raise TaskError(f"--labels {printable(path)}: values that are not finite")
            return picture, peak
        full = 255.0 if value.dtype.itemsize == 1 else 65535.0
        peak = self._peak or full
        return picture * (peak / full), peak
