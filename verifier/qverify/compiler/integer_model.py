"""The integer ONNX as the pieces of its file: the constants are views of arrays, so that it exists whole only where
somebody needs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

Array = npt.NDArray[Any]
Piece = bytes | memoryview
VIEWED = ("float32", "uint8", "int8", "uint16", "int16", "int32", "int64")  # stored as raw data in their own order
LARGE = 1 << 12  # bytes of an array that is worth a view


def model_pieces(
    before: onnx.ModelProto,
    nodes: onnx.GraphProto,
    constants: Mapping[str, Array],
    ends: onnx.GraphProto,
    after: onnx.ModelProto,
) -> list[Piece]:
    """Returns the pieces of the model as protobuf serializes it deterministically, which is by field number.

    before, after: the model's fields below and above `graph`. nodes, ends: the graph's fields below and above
    `initializer`. constants: the initializers in their order."""
    graph = [_bytes(nodes), *(p for n, v in constants.items() for p in _initializer(n, v)), _bytes(ends)]
    return [_bytes(before) + _head(onnx.ModelProto.GRAPH_FIELD_NUMBER, graph), *graph, _bytes(after)]


def _initializer(name: str, value: Array) -> Iterator[Piece]:
    """Yields the pieces of one initializer of a graph."""
    tensor = [*_tensor(name, value)]
    yield _head(onnx.GraphProto.INITIALIZER_FIELD_NUMBER, tensor)
    yield from tensor


def _tensor(name: str, value: Array) -> Iterator[Piece]:
    dense = np.ascontiguousarray(value).reshape(np.shape(value))
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
