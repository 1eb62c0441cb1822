"""The dims of an ONNX file's inputs, with those that it leaves open."""

from __future__ import annotations

from typing import Any

from qverify.onnx_model.load import parse, read_file, remove_initializers_from_inputs

Dims = tuple[int | None, ...]


def read_input_dims(path: str) -> dict[str, Dims]:
    """Returns the dims of each input, None for a dim that the file leaves open; {} for a file that is no ONNX. Raises BadFileError
    if it cannot be read."""
    return {
        value.name: tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in dims)
        for value in _read_inputs(path)
        if (dims := value.type.tensor_type.shape.dim) is not None
    }


def read_dim_names(path: str) -> dict[str, list[str]]:
    """Returns the names of the dims of each input, "" for a dim without one: open dims of one name are one size. {} for a file
    that is no ONNX. Raises BadFileError if it cannot be read."""
    return {value.name: [d.dim_param for d in value.type.tensor_type.shape.dim] for value in _read_inputs(path)}


def _read_inputs(path: str) -> list[Any]:
    data = read_file(path)
    if data[:1] not in (b"\x08", b"\x3a", b"\x12", b"\x42"):  # fields of a ModelProto
        return []
    model = parse(data, path)
    remove_initializers_from_inputs(model)
    return [*model.graph.input]
