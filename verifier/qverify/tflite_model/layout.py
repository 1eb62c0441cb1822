"""Converts tensors between the layout of the .tflite and that of the ONNX. An entry is a value of
ConvertedModel.tensors, with "axes", "shape" (in the file), "dims" (in the ONNX) and, if the types differ, "dtypes": that
of the file and that of the ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def as_in_file(entry: Mapping[str, Any], value: Array) -> Array:
    """Returns a tensor of the ONNX in the file's layout."""
    axes, shape = entry["axes"], entry["shape"]
    moved = np.ascontiguousarray(value.reshape([shape[a] for a in axes]).transpose(np.argsort(axes)))
    return moved.astype(entry["dtypes"][0]) if "dtypes" in entry else moved


def as_in_onnx(entry: Mapping[str, Any], value: Array) -> Array:
    """Returns a tensor of the file in the ONNX's layout."""
    moved = np.ascontiguousarray(value.transpose(entry["axes"])).reshape(entry["dims"])
    return moved.astype(entry["dtypes"][1]) if "dtypes" in entry else moved
