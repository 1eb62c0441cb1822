"""Hints for error messages: how to make a file fit an input that it does not fit."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.tensors.spec import TensorSpec

TRANSPOSITIONS = {"": None, ".transpose(0, 3, 1, 2)": (0, 3, 1, 2), ".transpose(0, 2, 3, 1)": (0, 2, 3, 1)}
HINTS_BY_ENDING = {
    ".onnx": "; a model: -m takes it",
    ".tflite": "; a model: -m takes it",
    ".toml": "; a description of inputs: --description takes it",
    ".json": "; a description of inputs: --description takes it",
}


def hint_for_array(array: npt.NDArray[Any], spec: TensorSpec) -> str:
    """Returns a numpy expression to save instead of the array, which has the input's shape and float type, or what to
    do with several items of it; "" if neither a batch dim, nor another order of height, width and channels, nor another
    float type, nor one of the items is sufficient."""
    cast = "" if array.dtype == spec.numpy_dtype else f".astype({spec.dtype!r})"
    if cast and not (array.dtype.kind == "f" and np.dtype(spec.numpy_dtype).kind == "f"):
        return ""
    items = array.shape[0] // spec.shape[0] if array.ndim and spec.shape and spec.shape[0] else 0
    if items > 1 and (items * spec.shape[0], *spec.shape[1:]) == array.shape:
        dims = "x".join(map(str, array.shape))
        return (
            f"; {items} inputs of it in one array: save each one by itself (array[0:{spec.shape[0]}]{cast} ...), or export the "
            f"ONNX with a dynamic first dim and give --shape {spec.name}={dims}, which verifies them as one"
        )
    for batch, shape in (("", array.shape), ("[None]", (1, *array.shape))):
        for transposition, axes in TRANSPOSITIONS.items():
            transposed = shape if axes is None else tuple(shape[a] for a in axes) if len(shape) == len(axes) else None
            if transposed == spec.shape:
                return f"; save array{batch}{transposition}{cast}"
    return ""


def hint_for_missing_file(path: str) -> str:
    """Returns a hint for a name that is a pattern, or "" for any other name."""
    return "; give the folder, or a list of files (.txt), not a pattern" if set(path) & set("*?") else ""


def hint_for_file(path: str) -> str:
    """Returns the option that takes a file with this ending, or "" for endings of inputs."""
    return HINTS_BY_ENDING.get(os.path.splitext(path)[1].lower(), "")
