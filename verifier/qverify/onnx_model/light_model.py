"""Models without the data of their large constants, which make up most of their bytes.

Code that only looks at nodes, names and types then copies little, and onnxruntime reads the constants in place."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy.typing as npt
import onnx
from onnx import numpy_helper

from qverify.onnx_model.held_data import is_held, place_outside, value_of
from qverify.onnx_model.node_order import reads

Array = npt.NDArray[Any]
LARGE = 1 << 14  # bytes; smaller constants keep their data in the model
INTEGERS: dict[int, int] = {
    onnx.TensorProto.UINT8: 1,
    onnx.TensorProto.INT8: 1,
    onnx.TensorProto.UINT16: 2,
    onnx.TensorProto.INT16: 2,
    onnx.TensorProto.INT32: 4,
    onnx.TensorProto.INT64: 8,
}  # bytes of an element; results of integer kernels do not depend on the alignment of constants in memory
FLOATS: dict[int, int] = {onnx.TensorProto.FLOAT: 4, onnx.TensorProto.DOUBLE: 8, onnx.TensorProto.FLOAT16: 2}
OTHER_DATA = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data", "external_data")


@dataclass(slots=True)
class LightModel:
    """A model without the data of its large integer constants.

    constants: these constants, by name."""

    model: onnx.ModelProto
    constants: dict[str, Array]


def light_copy(
    model: onnx.ModelProto, item_bytes: Mapping[int, int] = INTEGERS, omit: tuple[str, ...] = ()
) -> tuple[onnx.ModelProto, dict[str, onnx.TensorProto]]:
    """Returns a copy of the model whose large constants have no data, and the original tensors of these constants, by
    name.

    item_bytes: the element types of the constants whose data is left out, with the bytes of an element. omit: fields of
    the graph that are left out of the copy altogether."""
    light, large = onnx.ModelProto(), dict[str, onnx.TensorProto]()
    _copy_fields(model, light, ("graph",))
    _copy_fields(model.graph, light.graph, ("initializer", *omit))
    light.graph.SetInParent()
    for tensor in model.graph.initializer:
        if _is_large(tensor, item_bytes) and tensor.name not in large:
            large[tensor.name] = tensor
            light.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        else:
            light.graph.initializer.append(tensor)
    return light, large


def light_model(model: onnx.ModelProto, constants: Mapping[str, Array] | None = None) -> LightModel:
    """Returns the model as a LightModel.

    constants: values of initializers that the caller already has as arrays; they are used instead of new copies."""
    light, large = light_copy(model)
    existing, arrays = constants or {}, dict[str, Array]()
    read = {name for node in light.graph.node for name in reads(node)}
    for tensor in light.graph.initializer:
        name = tensor.name
        if name not in large or tensor.HasField("raw_data"):
            continue
        if name not in read:  # onnxruntime removes unread constants and would fail to find it
            tensor.CopyFrom(large[name])
            continue
        arrays[name] = existing[name] if name in existing else value_of(large[name])
        place_outside(tensor)
    return LightModel(light, arrays)


def is_large(value: Array) -> bool:
    """Returns whether light_model() leaves out the data of this constant."""
    if value.nbytes < LARGE or sys.byteorder != "little" or value.dtype.kind not in "iu":
        return False
    return onnx.helper.np_dtype_to_tensor_dtype(value.dtype) in INTEGERS


def lent_tensor(name: str, value: Array) -> onnx.TensorProto:
    """Returns the initializer, without data, that stands for a large constant in a LightModel."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    tensor = onnx.TensorProto(name=name, data_type=kind, dims=value.shape)
    place_outside(tensor)
    return tensor


def with_data(model: onnx.ModelProto, constants: Mapping[str, Array]) -> onnx.ModelProto:
    """Puts the data of its constants into the model of a LightModel, or a part of it, in place, and returns it."""
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL and tensor.name in constants:
            tensor.CopyFrom(numpy_helper.from_array(constants[tensor.name], tensor.name))
    return model


def _is_large(tensor: onnx.TensorProto, item_bytes: Mapping[int, int]) -> bool:
    """Returns whether the tensor has LARGE bytes or more, stored only as raw data of one of these types."""
    return is_held(tensor) or (_stored_bytes(tensor, item_bytes) > 0 and tensor.HasField("raw_data"))


def holdable_bytes(tensor: onnx.TensorProto) -> int:
    """Returns the bytes of a large integer constant that can be held, by its type and dims; 0 for any other."""
    return _stored_bytes(tensor, INTEGERS)


def _stored_bytes(tensor: onnx.TensorProto, item_bytes: Mapping[int, int]) -> int:
    """Returns the bytes of the raw data that type and dims of the tensor require, 0 if they are fewer than LARGE, of
    another type, or stored otherwise than as raw data."""
    size = prod(tensor.dims) * item_bytes.get(tensor.data_type, 0)
    if size < LARGE or sys.byteorder != "little" or tensor.HasField("segment") or not tensor.name:
        return 0
    plain = tensor.data_location == onnx.TensorProto.DEFAULT and not any(getattr(tensor, f) for f in OTHER_DATA)
    return size if plain and min(tensor.dims, default=1) > 0 else 0


def _copy_fields(source: Any, target: Any, omit: tuple[str, ...]) -> None:
    """Copies the fields that are set in a message to an empty one, except those named in `omit`."""
    for field, value in source.ListFields():
        if field.name in omit:
            continue
        if isinstance(value, (str, bytes, int, float)):
            setattr(target, field.name, value)
        elif hasattr(value, "CopyFrom"):
            getattr(target, field.name).CopyFrom(value)
        else:
            getattr(target, field.name).extend(value)
