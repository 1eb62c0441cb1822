"""The dims of an ONNX file's inputs, with those that it leaves open."""

from __future__ import annotations

from qverify.onnx_model.load import parse, read_file, remove_initializers_from_inputs

Dims = tuple[int | None, ...]


def read_input_dims(path: str) -> dict[str, Dims]:
    """Returns the dims of each input, None for a dim that the file leaves open; {} for a file that is no ONNX. Raises BadFileError
    if it cannot be read."""
    data = read_file(path)
    if data[:1] not in (b"\x08", b"\x3a", b"\x12", b"\x42"):  # fields of a ModelProto
        return {}
    model = parse(data, path)
    remove_initializers_from_inputs(model)
    return {
        value.name: tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in dims)
        for value in model.graph.input
        if (dims := value.type.tensor_type.shape.dim) is not None
    }
