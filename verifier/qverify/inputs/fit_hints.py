"""Says what makes a file fit the input that it does not fit."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.tensors.spec import TensorSpec

TURNS = {"": None, ".transpose(0, 3, 1, 2)": (0, 3, 1, 2), ".transpose(0, 2, 3, 1)": (0, 2, 3, 1)}
OTHERS = {
    ".onnx": "; a model: -m takes it",
    ".tflite": "; a model: -m takes it",
    ".toml": "; a description of inputs: --description takes it",
    ".json": "; a description of inputs: --description takes it",
}


def hint_for_array(array: npt.NDArray[Any], spec: TensorSpec) -> str:
    """Returns what to save in the place of an array, in numpy, so that it has the input's shape and float type; "" where
    no batch dim, no other order of height, width and channels and no other float type does it."""
    kind = "" if array.dtype == spec.numpy_dtype else f".astype({spec.dtype!r})"
    if kind and not (array.dtype.kind == "f" and np.dtype(spec.numpy_dtype).kind == "f"):
        return ""
    for batch, shape in (("", array.shape), ("[None]", (1, *array.shape))):
        for turn, axes in TURNS.items():
            turned = shape if axes is None else tuple(shape[a] for a in axes) if len(shape) == len(axes) else None
            if turned == spec.shape:
                return f"; save array{batch}{turn}{kind}"
    return ""


def hint_for_missing_file(path: str) -> str:
    """Returns what to give in the place of a pattern; "" for any other name."""
    return "; give the folder, or a list of files (.txt), not a pattern" if set(path) & set("*?") else ""


def hint_for_file(path: str) -> str:
    """Returns which option takes a file that is no input by its name; "" for any other."""
    return OTHERS.get(os.path.splitext(path)[1].lower(), "")
