"""The integer ONNX as pieces of its serialized form. Constants are views of arrays, so that the whole file is in memory
only if a caller joins the pieces."""

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
from qverify.onnx_model.wire import header

Array = npt.NDArray[Any]
Piece = bytes | memoryview
VIEWED = ("float32", "uint8", "int8", "uint16", "int16", "int32", "int64")  # dtypes whose memory equals ONNX's raw data
LARGE = 1 << 12  # bytes; smaller arrays are copied


@dataclass(frozen=True, slots=True)
class IntegerModel:
    """The integer ONNX, split by protobuf field number.

    Attributes:
        before, after: the model's fields with lower and with higher numbers than `graph`.
        nodes, ends: the graph's fields with lower and with higher numbers than `initializer`.
        constants: the initializers, in the order of the file.
    """

    before: onnx.ModelProto
    nodes: onnx.GraphProto
    constants: dict[str, Array]
    ends: onnx.GraphProto
    after: onnx.ModelProto

    def pieces(self) -> list[Piece]:
        """Returns the pieces of the serialized model, in the order of protobuf's deterministic serialization."""
        initializers = (p for n, v in self.constants.items() for p in _initializer(n, v))
        graph = [_bytes(self.nodes), *initializers, _bytes(self.ends)]
        return [
            _bytes(self.before) + _field_header(onnx.ModelProto.GRAPH_FIELD_NUMBER, graph),
            *graph,
            _bytes(self.after),
        ]

    def light(self) -> LightModel:
        """Returns what light_model() would return for the joined pieces, without joining them."""
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
        """Returns the same model in which large integer constants are replaced by equal arrays of `others`.

        others: the address of a constant's first element to the array that may replace it."""
        constants = {
            n: _shared(v, others[address(v)]) if address(v) in others else v for n, v in self.constants.items()
        }
        return replace(self, constants=constants)


def _shared(value: Array, candidate: Array) -> Array:
    """Returns `candidate` in the shape of `value` if both have the same dtype and bytes, else `value`."""
    comparable = candidate.dtype == value.dtype and candidate.size == value.size and value.flags.c_contiguous
    if not comparable or not is_large(value) or not candidate.flags.aligned or not candidate.flags.c_contiguous:
        return value
    candidate = candidate.reshape(value.shape)
    return candidate if np.array_equal(candidate, value) else value


def address(value: Array) -> int:
    """Returns the memory address of an array's first element."""
    return int(value.__array_interface__["data"][0])


def _dense(value: Array) -> Array:
    """Returns the array in C order, with its rank kept."""
    return np.ascontiguousarray(value).reshape(np.shape(value))


def _initializer(name: str, value: Array) -> Iterator[Piece]:
    """Yields the pieces of one initializer, with its field header."""
    tensor = [*_tensor(name, value)]
    yield _field_header(onnx.GraphProto.INITIALIZER_FIELD_NUMBER, tensor)
    yield from tensor


def _tensor(name: str, value: Array) -> Iterator[Piece]:
    """Yields the pieces of a TensorProto; the data of a large array is a view."""
    dense = _dense(value)
    if value.nbytes < LARGE or str(value.dtype) not in VIEWED or sys.byteorder != "little" or not name:
        yield _bytes(numpy_helper.from_array(dense, name))
        return
    data = dense.reshape(-1).view(np.uint8).data
    kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    fields = _bytes(onnx.TensorProto(dims=value.shape, data_type=kind, name=name))
    yield fields + _field_header(onnx.TensorProto.RAW_DATA_FIELD_NUMBER, [data])
    yield data


def _bytes(message: Any) -> bytes:
    return bytes(message.SerializeToString(deterministic=True))


def _field_header(field: int, pieces: list[Piece]) -> bytes:
    """Returns the header of a field of bytes that consists of these pieces."""
    return header(field, sum(map(len, pieces)))
