"""A large ONNX whose large integer constants are not read but mapped, from its own file or from its external data."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import onnx
from google.protobuf.message import DecodeError

from qverify.onnx_model.held_data import hold, is_held, value_of
from qverify.onnx_model.light_model import LARGE, holdable_bytes
from qverify.onnx_model.mapped_file import MappedFile, map_file
from qverify.onnx_model.wire import BYTES, Field, fields, header

MAPPED_FROM, MAPPED_TO = 1 << 26, 1 << 40  # bytes of a model; smaller ones are read, larger ones refused
HASHED_BYTES = 1 << 24  # bytes that are hashed at once
TENSOR, GRAPH, MODEL = onnx.TensorProto, onnx.GraphProto, onnx.ModelProto
OUTSIDE = (TENSOR.EXTERNAL_DATA_FIELD_NUMBER, TENSOR.DATA_LOCATION_FIELD_NUMBER)
INSIDE = TENSOR(data_location=TENSOR.DEFAULT).SerializeToString()  # embedding external data states this
Piece = bytes | memoryview


class MappedModel:
    """An ONNX of which only nodes and small constants are in memory.

    Attributes:
        path: the path of the ONNX.
        light: the serialized model, in which large integer constants are held (held_data.py).
        whole: the bytes of the ONNX if it is one file, None with external data.
    """

    def __init__(self, path: str, model: onnx.ModelProto, files: list[MappedFile], whole: memoryview | None):
        """model: its held constants are views of the files."""
        self.path = path
        self.light = bytes(model.SerializeToString(deterministic=True))
        self.whole, self._files = whole, files

    def parse(self) -> onnx.ModelProto:
        """Returns the model, with held constants, which is the caller's."""
        model = onnx.ModelProto()
        model.ParseFromString(self.light)
        return model

    def pieces(self) -> list[Piece]:
        """Returns the pieces of the whole ONNX, external data embedded."""
        return [self.whole] if self.whole is not None else list(_embedded(memoryview(self.light), self.parse()))

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces())

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the whole ONNX, external data embedded, in hexadecimal. Raises BadFileError if a file was
        changed."""
        digest = hashlib.sha256()
        for piece in self.pieces():
            for at in range(0, len(piece), HASHED_BYTES):
                digest.update(piece[at : at + HASHED_BYTES])
        self.check_unchanged()
        return digest.hexdigest()

    def check_unchanged(self) -> None:
        """Raises BadFileError if a file was changed since it was opened."""
        for file in self._files:
            file.check_unchanged()

    def release(self) -> None:
        """Lets the system take back the memory of constants that were read."""
        for file in self._files:
            file.release()


def map_model(path: str) -> MappedModel | None:
    """Returns the ONNX of one file, mapped; None if it is no ONNX with all its data, which has to be read to say why.
    Raises BadFileError if it cannot be read."""
    file = map_file(path)
    try:
        model, places = _without_data(file.data)
    except DecodeError:
        return None
    for tensor in model.graph.initializer:
        if tensor.name in places:
            kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
            hold(tensor, file.array(kind, tuple(tensor.dims), places[tensor.name]))
    return MappedModel(path, model, [file], file.data)


def _without_data(data: memoryview) -> tuple[onnx.ModelProto, dict[str, int]]:
    """Returns the model without the data of its large integer constants, and where these begin, by name. Raises
    DecodeError."""
    top = list(fields(data, 0, len(data)))
    graphs = [f for f in top if f.number == MODEL.GRAPH_FIELD_NUMBER]
    if len(graphs) != 1 or graphs[0].wire_type != BYTES:
        raise DecodeError("not one graph")
    parts, places, seen = list[Piece](), dict[str, int](), Counter[str]()
    for field in fields(data, graphs[0].at, graphs[0].end):
        found = None
        if field.number == GRAPH.INITIALIZER_FIELD_NUMBER and field.end - field.at >= LARGE:
            found = _find_data(data, field)
        if found is not None:
            name, raw = found
            seen[name] += 1
            places[name] = raw.at
            size = raw.start - field.at + field.end - raw.end
            parts += [header(field.number, size), data[field.at : raw.start], data[raw.end : field.end]]
        else:
            parts.append(data[field.start : field.end])
    if seen.total() != len(seen):
        raise DecodeError("two constants of one name")
    graph = b"".join(parts)
    before, after = data[: graphs[0].start], data[graphs[0].end :]
    model = onnx.ModelProto()
    model.ParseFromString(b"".join([before, header(MODEL.GRAPH_FIELD_NUMBER, len(graph)), graph, after]))
    return model, places


def _find_data(data: memoryview, initializer: Field) -> tuple[str, Field] | None:
    """Returns the name of a large integer constant and the field of its data; None for any other constant."""
    inner = list(fields(data, initializer.at, initializer.end))
    raw = [f for f in inner if f.number == TENSOR.RAW_DATA_FIELD_NUMBER and f.wire_type == BYTES]
    if len(raw) != 1 or raw[0].end - raw[0].at < LARGE:
        return None
    rest = onnx.TensorProto()
    rest.ParseFromString(bytes(data[initializer.at : raw[0].start]) + bytes(data[raw[0].end : initializer.end]))
    rest.raw_data = b""
    return (rest.name, raw[0]) if holdable_bytes(rest) == raw[0].end - raw[0].at else None


def _embedded(light: memoryview, model: onnx.ModelProto) -> Iterator[Piece]:
    """Yields the pieces of the model's deterministic serialization with the data of held constants in it.

    light: that of the model with held constants."""
    values = {t.name: value_of(t) for t in model.graph.initializer if is_held(t)}
    graph = next(f for f in fields(light, 0, len(light)) if f.number == MODEL.GRAPH_FIELD_NUMBER)
    inside = list[Piece]()
    for field in fields(light, graph.at, graph.end):
        tensor = onnx.TensorProto()
        if field.number == GRAPH.INITIALIZER_FIELD_NUMBER:
            tensor.ParseFromString(light[field.at : field.end])
        if tensor.name in values:
            inside += _initializer(light, field, values[tensor.name].reshape(-1).view("u1").data)
        else:
            inside.append(light[field.start : field.end])
    yield light[: graph.start]
    yield header(MODEL.GRAPH_FIELD_NUMBER, sum(map(len, inside)))
    yield from inside
    yield light[graph.end :]


def _initializer(light: memoryview, field: Field, data: memoryview) -> Sequence[Piece]:
    """Returns the pieces of a held constant's field with its data in it."""
    inner = [f for f in fields(light, field.at, field.end) if f.number not in OUTSIDE]
    before = [light[f.start : f.end] for f in inner if f.number < TENSOR.RAW_DATA_FIELD_NUMBER]
    after = [(f.number, light[f.start : f.end]) for f in inner if f.number > TENSOR.RAW_DATA_FIELD_NUMBER]
    after.append((TENSOR.DATA_LOCATION_FIELD_NUMBER, memoryview(INSIDE)))
    pieces: list[Piece] = [*before, header(TENSOR.RAW_DATA_FIELD_NUMBER, len(data)), data]
    pieces += [piece for _, piece in sorted(after, key=lambda field: field[0])]
    return [header(field.number, sum(map(len, pieces))), *pieces]
