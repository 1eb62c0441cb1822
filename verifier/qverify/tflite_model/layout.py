"""A tensor in the file's layout and in the ONNX's. An entry is that of ConvertedModel.tensors: axes, shape (of the file), dims (of the
ONNX)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def as_in_file(entry: Mapping[str, Any], value: Array) -> Array:
    """Returns the ONNX's tensor as the file has it."""
    axes, shape = entry["axes"], entry["shape"]
    return np.ascontiguousarray(value.reshape([shape[a] for a in axes]).transpose(np.argsort(axes)))


def as_in_onnx(entry: Mapping[str, Any], value: Array) -> Array:
    """Returns the file's tensor as the ONNX has it."""
    return np.ascontiguousarray(value.transpose(entry["axes"])).reshape(entry["dims"])
