"""Large constants of a model that stay where they were read, outside of the protobuf message, which then has a mark in
place of their data: passes that copy or serialize the model copy no weights."""

from __future__ import annotations

import os
import secrets
import weakref
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy.typing as npt
import onnx
from onnx import numpy_helper

Array = npt.NDArray[Any]
# onnxruntime wants an existing file for data outside of a model, and does not open it if it is given the array instead
FOLDER, LOCATION = os.path.split(os.path.abspath(__file__))
_MARK = f"held-{secrets.token_hex(16)}-"  # random, so that no file can have it
_NUMBERS = count()
_arrays: weakref.WeakValueDictionary[str, Array] = weakref.WeakValueDictionary()


def hold(tensor: onnx.TensorProto, value: Array) -> None:
    """Puts a mark for the array in place of the tensor's data, in place. The caller keeps the array as long as the
    tensor or a copy of it is used.

    value: the constant, of the tensor's type and dims."""
    mark = f"{_MARK}{next(_NUMBERS)}"
    _arrays[mark] = value
    tensor.ClearField("raw_data")
    place_outside(tensor)
    tensor.external_data.add(key="checksum", value=mark)


def place_outside(tensor: onnx.TensorProto) -> None:
    """States that the tensor's data lie outside of the model, in place, for onnxruntime, which is given the array."""
    del tensor.external_data[:]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=LOCATION)


def is_held(tensor: onnx.TensorProto) -> bool:
    """Returns whether the tensor's data are an array that hold() was given."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL and any(
        e.key == "checksum" and e.value.startswith(_MARK) for e in tensor.external_data
    )


def value_of(tensor: onnx.TensorProto) -> Array:
    """Returns the value of a constant, without a copy if it is held. Raises what onnx.numpy_helper.to_array() raises for
    a damaged one."""
    if not is_held(tensor):
        return numpy_helper.to_array(tensor)
    return _arrays[next(e.value for e in tensor.external_data if e.key == "checksum")]


def held_in(model: bytes) -> dict[str, Array]:
    """Returns the arrays of the held initializers of a serialized model, by name."""
    if _MARK.encode() not in model:
        return {}
    return {t.name: value_of(t) for t in onnx.load_from_string(model).graph.initializer if is_held(t)}


def embed_held(model: onnx.ModelProto) -> None:
    """Puts the data of held constants into the model, in place."""
    for tensor in _held(model):
        tensor.CopyFrom(numpy_helper.from_array(value_of(tensor), tensor.name))


def has_held(model: onnx.ModelProto) -> bool:
    """Returns whether an initializer of the model is held."""
    return next(_held(model), None) is not None


def _held(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    return (t for t in model.graph.initializer if is_held(t))
