"""Converts tensors between the layout of the .tflite and that of the ONNX. An entry is a value of
ConvertedModel.tensors, with "axes", "shape" (in the file), "dims" (in the ONNX) and, if the ONNX has another type,
"dtype": wider integers, which are never given to the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def as_in_file(entry: Mapping[str, Any], value: Array) -> Array:
    """Returns a tensor of the ONNX in the file's layout."""
    axes, shape = entry["axes"], entry["shape"]
    return np.ascontiguousarray(value.reshape([shape[a] for a in axes]).transpose(np.argsort(axes)))


def as_in_onnx(entry: Mapping[str, Any], value: Array) -> Array:
    """Returns a tensor of the file in the ONNX's layout."""
    moved = np.ascontiguousarray(value.transpose(entry["axes"])).reshape(entry["dims"])
    return moved.astype(entry["dtype"]) if "dtype" in entry else moved
