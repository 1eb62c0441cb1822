"""The integer ONNX as the pieces of its file: the constants are views of arrays, so that it exists whole only where
somebody needs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from qverify.onnx_model.light_model import LightModel, is_large, lent_tensor
from qverify.onnx_model.node_order import reads

Array = npt.NDArray[Any]
Piece = bytes | memoryview
VIEWED = ("float32", "uint8", "int8", "uint16", "int16", "int32", "int64")  # stored as raw data in their own order
LARGE = 1 << 12  # bytes of an array that is worth a view


@dataclass(frozen=True, slots=True)
class IntegerModel:
    """The integer ONNX in parts. before, after: the model's fields below and above `graph`. nodes, ends: the graph's
    fields below and above `initializer`. constants: the initializers in their order."""

    before: onnx.ModelProto
    nodes: onnx.GraphProto
    constants: dict[str, Array]
    ends: onnx.GraphProto
    after: onnx.ModelProto

    def pieces(self) -> list[Piece]:
        """Returns the pieces of the model as protobuf serializes it deterministically, which is by field number."""
        initializers = (p for n, v in self.constants.items() for p in _initializer(n, v))
        graph = [_bytes(self.nodes), *initializers, _bytes(self.ends)]
        return [_bytes(self.before) + _head(onnx.ModelProto.GRAPH_FIELD_NUMBER, graph), *graph, _bytes(self.after)]

    def light(self) -> LightModel:
        """Returns the model as light_model() makes it of the pieces, which never exist whole."""
        model, lent = onnx.ModelProto(), dict[str, Array]()
        model.CopyFrom(self.before)
        model.graph.CopyFrom(self.nodes)
        read = {name for node in self.nodes.node for name in reads(node)}
        for name, value in self.constants.items():
            if name in read and is_large(value) and name:
                lent[name] = value
                model.graph.initializer.append(lent_tensor(name, value))
            else:
                model.graph.initializer.append(numpy_helper.from_array(_dense(value), name))
        model.graph.MergeFrom(self.ends)
        model.MergeFrom(self.after)
        return LightModel(model, lent)

    def sharing(self, others: Mapping[int, Array]) -> IntegerModel:
        """Returns the same model with arrays of `others`, by the address of the constant's first element, for large
        constants of integers that are equal to them."""
        constants = {
            n: _shared(v, others[address(v)]) if address(v) in others else v for n, v in self.constants.items()
        }
        return replace(self, constants=constants)


def _shared(value: Array, other: Array) -> Array:
    """Returns other in value's shape where both have the same bytes, else value."""
    alike = other.dtype == value.dtype and other.size == value.size and value.flags.c_contiguous
    if not alike or not is_large(value) or not other.flags.aligned or not other.flags.c_contiguous:
        return value
    other = other.reshape(value.shape)
    return other if np.array_equal(other, value) else value


def address(value: Array) -> int:
    """Returns where an array's first element is in memory."""
    return int(value.__array_interface__["data"][0])


def _dense(value: Array) -> Array:
    return np.ascontiguousarray(value).reshape(np.shape(value))


def _initializer(name: str, value: Array) -> Iterator[Piece]:
    """Yields the pieces of one initializer of a graph."""
    tensor = [*_tensor(name, value)]
    yield _head(onnx.GraphProto.INITIALIZER_FIELD_NUMBER, tensor)
    yield from tensor


def _tensor(name: str, value: Array) -> Iterator[Piece]:
    dense = _dense(value)
    if value.nbytes < LARGE or str(value.dtype) not in VIEWED or sys.byteorder != "little" or not name:
        yield _bytes(numpy_helper.from_array(dense, name))
        return
    data = dense.reshape(-1).view(np.uint8).data
    kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    fields = _bytes(onnx.TensorProto(dims=value.shape, data_type=kind, name=name))
    yield fields + _head(onnx.TensorProto.RAW_DATA_FIELD_NUMBER, [data])
    yield data


def _bytes(message: Any) -> bytes:
    return bytes(message.SerializeToString(deterministic=True))


def _head(field: int, pieces: list[Piece]) -> bytes:
    """Returns what stands before a field of these bytes: its number with wire type 2, and its size."""
    return _varint(field << 3 | 2) + _varint(sum(map(len, pieces)))


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])
