"""Models without the data of their large constants, which are most of their bytes: what only looks at nodes, names and
types needs no copy of them, and onnxruntime reads them where they are."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy.typing as npt
import onnx
from onnx import numpy_helper

from qverify.onnx_model.node_order import reads

Array = npt.NDArray[Any]
LARGE = 1 << 14  # bytes of a constant that is worth it
INTEGERS: dict[int, int] = {
    onnx.TensorProto.UINT8: 1,
    onnx.TensorProto.INT8: 1,
    onnx.TensorProto.UINT16: 2,
    onnx.TensorProto.INT16: 2,
    onnx.TensorProto.INT32: 4,
    onnx.TensorProto.INT64: 8,
}  # their bytes; what kernels compute from them does not depend on where they are
FLOATS: dict[int, int] = {onnx.TensorProto.FLOAT: 4, onnx.TensorProto.DOUBLE: 8, onnx.TensorProto.FLOAT16: 2}
OTHER_DATA = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data", "external_data")


@dataclass(slots=True)
class LightModel:
    """A model without the data of its large constants of integers. constants: these, by name."""

    model: onnx.ModelProto
    constants: dict[str, Array]


def light_copy(
    model: onnx.ModelProto, item_bytes: Mapping[int, int] = INTEGERS, but: tuple[str, ...] = ()
) -> tuple[onnx.ModelProto, dict[str, onnx.TensorProto]]:
    """Returns a copy of the model whose large constants have no data, and the model's own tensors of these by name.
    item_bytes: the types of constants that are left out. but: fields of the graph that are left out, too."""
    light, large = onnx.ModelProto(), dict[str, onnx.TensorProto]()
    _copy_fields(model, light, ("graph",))
    _copy_fields(model.graph, light.graph, ("initializer", *but))
    light.graph.SetInParent()
    for tensor in model.graph.initializer:
        if _is_large(tensor, item_bytes) and tensor.name not in large:
            large[tensor.name] = tensor
            light.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        else:
            light.graph.initializer.append(tensor)
    return light, large


def light_model(model: onnx.ModelProto, constants: Mapping[str, Array] | None = None) -> LightModel:
    """Returns the model as a LightModel. constants: values of its initializers, as far as the caller has them already."""
    light, large = light_copy(model)
    known, arrays = constants or {}, dict[str, Array]()
    read = {name for node in light.graph.node for name in reads(node)}
    for tensor in light.graph.initializer:
        name = tensor.name
        if name not in large or tensor.HasField("raw_data"):
            continue
        if name not in read:  # onnxruntime takes it out, and would then miss it
            tensor.CopyFrom(large[name])
            continue
        arrays[name] = known[name] if name in known else numpy_helper.to_array(large[name])
        _lend(tensor)
    return LightModel(light, arrays)


def is_large(value: Array) -> bool:
    """Returns whether the data of a constant would be left out of a light_model()."""
    if value.nbytes < LARGE or sys.byteorder != "little" or value.dtype.kind not in "iu":
        return False
    return onnx.helper.np_dtype_to_tensor_dtype(value.dtype) in INTEGERS


def lent_tensor(name: str, value: Array) -> onnx.TensorProto:
    """Returns the initializer of a light_model() for a constant whose data is left out."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    tensor = onnx.TensorProto(name=name, data_type=kind, dims=value.shape)
    _lend(tensor)
    return tensor


def _lend(tensor: onnx.TensorProto) -> None:
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="lent")


def with_data(model: onnx.ModelProto, constants: Mapping[str, Array]) -> onnx.ModelProto:
    """Returns the model of a LightModel, or a part of it, after giving it the data of its constants."""
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(constants[tensor.name], tensor.name))
    return model


def _is_large(tensor: onnx.TensorProto, item_bytes: Mapping[int, int]) -> bool:
    """Returns whether the tensor has LARGE bytes or more, as raw data of a type that numpy has and nothing else."""
    size = prod(tensor.dims) * item_bytes.get(tensor.data_type, 0)
    if size < LARGE or sys.byteorder != "little" or tensor.HasField("segment") or not tensor.name:
        return False
    plain = tensor.data_location == onnx.TensorProto.DEFAULT and not any(getattr(tensor, f) for f in OTHER_DATA)
    return plain and tensor.HasField("raw_data")


def _copy_fields(source: Any, target: Any, but: tuple[str, ...]) -> None:
    """Copies the fields that are set in a message to an empty one, without those named in `but`."""
    for field, value in source.ListFields():
        if field.name in but:
            continue
        if isinstance(value, (str, bytes, int, float)):
            setattr(target, field.name, value)
        elif hasattr(value, "CopyFrom"):
            getattr(target, field.name).CopyFrom(value)
        else:
            getattr(target, field.name).extend(value)
