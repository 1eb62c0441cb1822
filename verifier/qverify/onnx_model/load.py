"""Opens the user's ONNX file, or refuses it with a one-line message."""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from qverify.errors import BadFileError
from qverify.onnx_model.complete_shapes import complete_shapes, numpy_type
from qverify.onnx_model.external_data import MAX_BYTES, embed_external_data, external_bytes, has_external_data
from qverify.onnx_model.file_checks import check_constants, check_names, check_operators, check_sizes, check_valid
from qverify.onnx_model.mapped_file import MappedFile, map_file
from qverify.onnx_model.mapped_model import MAPPED_FROM, MAPPED_TO, MappedModel, map_model
from qverify.onnx_model.model_functions import inline_functions
from qverify.onnx_model.node_order import inner_nodes, sort_nodes
from qverify.onnx_model.omitted_outputs import name_omitted_outputs
from qverify.onnx_model.opsets import lower_opset
from qverify.onnx_model.other_files import FOLDER, describe_other, describe_unknown
from qverify.onnx_model.plain_layout import write_plain_layout
from qverify.onnx_model.random_operators import check_draws_nothing
from qverify.onnx_model.split_dynamic_matmul import split_dynamic_matmul

MAGIC, TFLITE = b"QVMODEL\0", b"TFL3"  # at byte 0 of a model.bin, at byte 4 of a .tflite
QUANTIZED = {
    "QuantizeLinear", "DequantizeLinear", "QGemm", "MatMulInteger", "ConvInteger", "MatMulNBits", "MatMulBnb4", "QAttention", "MatMulIntegerToFloat",
    "QEmbedLayerNormalization",
}  # fmt: skip


def read_file(path: str) -> bytes:
    """Returns the file's bytes. Raises BadFileError for a file that is missing, unreadable or above 2 GiB."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise BadFileError(f"{path}: {FOLDER if os.path.isdir(path) else 'not a file'}")
        size = os.path.getsize(path)
        if size > MAX_BYTES:
            raise BadFileError(f"{path}: {size} bytes; models above 2 GiB are not supported")
        return Path(path).read_bytes()
    except OSError as error:
        blank = "" if path == path.strip() else "; its name begins or ends with a blank: none beside the commas"
        raise BadFileError(f"{path}: {error.strerror}{blank}") from error


def open_model(path: str) -> tuple[bytes | memoryview | MappedModel, onnx.ModelProto | None]:
    """Returns a model file and, if it is an ONNX, the parsed model, whose external data are embedded or held. A large ONNX
    or model.bin is mapped, any other file is read. Raises BadFileError."""
    start = _read_start(path)
    if start and start == MAGIC:
        return map_file(path).data, None
    if start and start[4:8] != TFLITE:
        if (mapped := map_model(path)) is not None and not has_external_data(model := mapped.parse()):
            return mapped, model
    data = read_file(path)
    if data[:8] == MAGIC or data[4:8] == TFLITE:
        return data, None
    parsed = onnx.ModelProto()
    try:
        parsed.ParseFromString(data)
    except DecodeError:
        return data, None
    if not MAPPED_FROM <= external_bytes(parsed) <= MAPPED_TO:
        return _embedded(data, parsed, path)
    maps = list[MappedFile]()
    embed_external_data(parsed, os.path.basename(path), os.path.dirname(os.path.abspath(path)), maps)
    return MappedModel(path, parsed, maps, None), parsed


def _read_start(path: str) -> bytes:
    """Returns the first bytes of a large file; b"" of a small one, and of what is no readable file, which read_file()
    tells."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) < MAPPED_FROM:
            return b""
        with open(path, "rb") as file:
            return file.read(8)
    except OSError:
        return b""


def digest_of(data: bytes | memoryview | MappedModel) -> str:
    """Returns the SHA-256 of what open_model() returned, in hexadecimal."""
    return data.sha256 if isinstance(data, MappedModel) else hashlib.sha256(data).hexdigest()


def read_model(path: str) -> bytes:
    """Returns the bytes of a model file. External data of an ONNX is embedded, so that the bytes are the whole model
    for every reader, hash, capture and bundle. Raises BadFileError."""
    data = read_file(path)
    return with_external_data(data, path)[0] if b"location" in data else data  # a key of every external tensor


def with_external_data(data: bytes, path: str) -> tuple[bytes, onnx.ModelProto | None]:
    """Returns the bytes with external data embedded, and the parsed model, or None if they are not an ONNX, which
    parse() reports later.

    data: the bytes of the file `path`, whose folder has the external data."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        return data, None
    return _embedded(data, model, path)


def _embedded(data: bytes, model: onnx.ModelProto, path: str) -> tuple[bytes, onnx.ModelProto]:
    """Returns the bytes and the model with external data embedded. model: the parsed bytes."""
    if not has_external_data(model):
        return data, model
    embed_external_data(model, os.path.basename(path), os.path.dirname(os.path.abspath(path)))
    return bytes(model.SerializeToString(deterministic=True)), model


def parse(data: bytes | MappedModel, name: str) -> onnx.ModelProto:
    """Parses the bytes as a model with at least one node, without further checks. Raises BadFileError."""
    if isinstance(data, MappedModel):
        return check_parsed(data.parse(), name)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise BadFileError(f"{name}: {describe_other(data, name) or describe_unknown(data, name)}") from None
    return check_parsed(model, name)


def check_parsed(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Returns the model. Raises BadFileError if it has no node or no opset: arbitrary bytes may parse as such a
    model."""
    if not model.graph.node or not model.opset_import:
        raise BadFileError(f"{name}: not an ONNX model (no nodes or no opset); give the whole .onnx")
    return model


def load(
    data: bytes | onnx.ModelProto, name: str, folder: str = "", shapes: dict[str, tuple[int, ...]] | None = None
) -> onnx.ModelProto:
    """Returns a checked model: nodes in running order, its functions inlined, static shapes of all tensors as
    value_info, and everything that depends on constants only already computed.

    Args:
        data: the bytes of a file, or the model that parse() returned for them, which is changed.
        name: the name of the model in messages.
        folder: the folder with the external data, or "" if there is none.
        shapes: input name to dims, for dynamic inputs.

    Raises BadFileError if the data is not an ONNX or has no node, an input's shape is dynamic and not in `shapes`,
    external data is missing or outside the folder, the graph has a cycle, or weights contain NaN. Raises
    UnsupportedError for an unknown operator and for one that draws random numbers."""
    model = parse(data, name) if isinstance(data, bytes) else data
    embed_external_data(model, name, folder)
    model = inline_functions(model, name)
    check_names(model, name)
    remove_initializers_from_inputs(model)
    write_plain_layout(model)
    check_operators(model, name)
    lower_opset(model)
    check_sizes(model, name)
    sort_nodes(model.graph, name)
    split_dynamic_matmul(model)
    name_omitted_outputs(model)
    make_negative_dims_dynamic(model.graph)
    fix_shapes(model, name, shapes or {}, allow_empty=True)
    make_empty_inputs_constant(model.graph)
    check_constants(model, name)
    check_valid(model, name)
    complete_shapes(model, name, shapes or {})
    check_draws_nothing(model, name)
    return model


def remove_initializers_from_inputs(model: onnx.ModelProto) -> None:
    """Removes initializers from the graph's inputs, where ir_version 3 had to list them, in place: they are
    constants."""
    constants = {i.name for i in model.graph.initializer}
    inputs = [onnx.ValueInfoProto.FromString(i.SerializeToString()) for i in model.graph.input]
    del model.graph.input[:]
    model.graph.input.extend(i for i in inputs if i.name not in constants)
    model.ir_version = max(model.ir_version, 4)


def make_negative_dims_dynamic(graph: onnx.GraphProto) -> None:
    """Removes negative sizes, which Paddle's exporter writes for dynamic dims and onnxruntime reads as such, in place."""
    for value in [*graph.input, *graph.output, *graph.value_info]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value < 0:
                dim.ClearField("dim_value")


def is_quantized(model: onnx.ModelProto) -> bool:
    """Returns whether the model or one of its functions contains an operator on quantized tensors, also
    inside a subgraph."""
    owners = (model.graph, *model.functions)
    nodes = (inner for owner in owners for node in owner.node for inner in inner_nodes(node))
    return any(node.op_type in QUANTIZED or node.op_type.startswith(("QLinear", "DynamicQuantize")) for node in nodes)


def fix_shapes(
    model: onnx.ModelProto, name: str, shapes: dict[str, tuple[int, ...]], allow_empty: bool = False
) -> None:
    """Sets the dims of dynamic inputs, in place. Raises BadFileError if an input's shape stays dynamic, contradicts
    `shapes`, or has a size of 0. allow_empty: accept sizes of 0, unless every input has one."""
    constants = {i.name for i in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in constants]
    unknown = shapes.keys() - {i.name for i in inputs}
    if unknown:
        raise BadFileError(
            f"{name}: --shape names {sorted(unknown)}, the model's inputs are {[i.name for i in inputs]}"
        )
    for value in inputs:
        if value.name in shapes:
            _set_dims(value.type.tensor_type, shapes[value.name], f"{name}: --shape {_option(value.name, shapes)}")
        dims = value.type.tensor_type.shape.dim
        if not value.type.tensor_type.HasField("shape"):
            raise BadFileError(
                f"{name}: input {value.name!r} has no shape; give its dims, for example --shape {value.name}=1,3,224,224"
            )
        if any(d.dim_value < 1 for d in dims):
            if _is_empty(value):
                others = math.prod(d.dim_value for d in dims if d.dim_value)
                if allow_empty and not all(map(_is_empty, inputs)) and others <= MAX_BYTES:
                    continue
                raise BadFileError(
                    f"{name}: input {value.name!r} has a dim of size 0, so there is nothing to compute; export the model with a larger dim"
                )
            shown = [d.dim_param or d.dim_value or "?" for d in dims]
            example = ",".join(str(d.dim_value) if d.dim_value > 0 else "N" if i else "1" for i, d in enumerate(dims))
            raise BadFileError(
                f"{name}: input {value.name!r} has dynamic shape {shown}; give --shape {value.name}={example}"
            )
        size = math.prod(d.dim_value for d in dims) * numpy_type(value).itemsize
        if value.name in shapes and size > MAX_BYTES:
            raise BadFileError(
                f"{name}: --shape {_option(value.name, shapes)}: {size} bytes, a tensor may have at most {MAX_BYTES}; give smaller dims"
            )


def make_empty_inputs_constant(graph: onnx.GraphProto) -> None:
    """Makes graph inputs without elements (a cache before the first token) constants, in place: they have one value."""
    empty = [i for i in graph.input if _is_empty(i)]
    for value in empty:
        dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
        graph.initializer.append(numpy_helper.from_array(np.zeros(dims, numpy_type(value)), value.name))
        graph.input.remove(value)


def _is_empty(value: onnx.ValueInfoProto) -> bool:
    """Returns whether all dims are known and one is 0."""
    dims = value.type.tensor_type.shape.dim
    return any(d.dim_value == 0 for d in dims) and all(d.HasField("dim_value") for d in dims)


def _option(name: str, shapes: dict[str, tuple[int, ...]]) -> str:
    """Returns the value of --shape for this input."""
    return f"{name}={','.join(map(str, shapes[name]))}"


def _set_dims(kind: onnx.TypeProto.Tensor, shape: tuple[int, ...], where: str) -> None:
    """Sets the sizes of an input's dynamic dims, in place. Raises BadFileError if the file states another size, because
    the original ONNX could not be run on such an input."""
    if not kind.HasField("shape"):
        kind.shape.dim.extend(onnx.TensorShapeProto.Dimension(dim_value=size) for size in shape)
        return
    dims = [d.dim_param or d.dim_value or "?" for d in kind.shape.dim]
    if len(shape) != len(dims):
        raise BadFileError(f"{where}: {len(shape)} dims, the model's input has {len(dims)}: {dims}")
    for dim, size in zip(kind.shape.dim, shape, strict=True):
        if dim.dim_value not in (0, size):
            raise BadFileError(
                f"{where}: the model's input is {dims}, got {size} where the model has {dim.dim_value}. "
                "Give it the model's dims, or export the model with that dim dynamic"
            )
        dim.Clear()
        dim.dim_value = size
