"""Reads the external data files of an ONNX model, checks them, and embeds them, so that the model is complete in
itself."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator

import onnx

from qverify.errors import BadFileError
from qverify.onnx_model.widen_constants import PER_BYTE

MAX_BYTES = 2**31 - 1
KEYS = {"location", "offset", "length", "checksum"}


def has_external_data(model: onnx.ModelProto) -> bool:
    """Returns whether a tensor of the model is external in another file."""
    return any(_external(t) for t in _tensors(model))


def embed_external_data(model: onnx.ModelProto, name: str, folder: str) -> None:
    """Reads every external tensor into the model, in place.

    folder: the folder of the model's file, or "" if it has none. Raises BadFileError for a location outside the folder,
    a symbolic link, a size that differs from the tensor's, and more than 2 GiB in all."""
    external = list(filter(_external, _tensors(model)))
    left = MAX_BYTES - model.ByteSize() if external else 0
    for tensor in external:
        where = f"{name}: external data of {tensor.name!r}"
        if not folder:
            raise BadFileError(f"{where}: the model was not read from a folder")
        entries = {e.key: e.value for e in tensor.external_data}
        if unknown := sorted(entries.keys() - KEYS):
            raise BadFileError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(KEYS))}")
        size = _size_bytes(tensor, where)
        left -= size
        if left < 0:
            raise BadFileError(f"{where}: with its data the model has above 2 GiB, which is not supported")
        if _number(entries.get("length"), size, where) != size:
            raise BadFileError(f"{where}: length {entries['length']}, its type and dims need {size} bytes")
        data = _read(folder, entries.get("location", ""), _number(entries.get("offset"), 0, where), size, where)
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
        tensor.raw_data = data


def _external(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yields the tensors of the model, of its functions and of every graph in an attribute."""
    nodes: list[onnx.NodeProto] = [n for f in model.functions for n in f.node]
    graphs = [model.graph]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            yield from (part for s in graph.sparse_initializer for part in (s.values, s.indices))
            nodes += graph.node
            continue
        for attribute in nodes.pop().attribute:
            yield from [attribute.t] if attribute.HasField("t") else []
            yield from attribute.tensors
            graphs += [attribute.g] if attribute.HasField("g") else []
            graphs += attribute.graphs


def _number(text: str | None, otherwise: int, where: str) -> int:
    """Returns the number of bytes in the text, or `otherwise` if there is no text. Raises BadFileError."""
    if not text:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadFileError(f"{where}: {text[:40]!r} is not a number of bytes")
    return int(text)


def _size_bytes(tensor: onnx.TensorProto, where: str) -> int:
    """Returns the size of the tensor's data according to its type and dims. Raises BadFileError."""
    kinds = onnx.TensorProto
    if tensor.data_type in PER_BYTE:
        return -(-_elements(tensor, where) // PER_BYTE[tensor.data_type])
    try:
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except KeyError:
        kind = None
    if kind is None or kind.hasobject or tensor.data_type not in kinds.DataType.values():
        raise BadFileError(f"{where}: type {tensor.data_type} cannot be stored outside the model")
    return _elements(tensor, where) * int(kind.itemsize)


def _elements(tensor: onnx.TensorProto, where: str) -> int:
    if any(d < 0 for d in tensor.dims):
        raise BadFileError(f"{where}: dims {list(tensor.dims)} are not sizes")
    return math.prod(tensor.dims)


def _read(folder: str, location: str, offset: int, size: int, where: str) -> bytes:
    parts = location.replace("\\", "/").split("/")
    if not location or os.path.isabs(location) or ".." in parts or "\0" in location or ":" in location:
        raise BadFileError(f"{where}: its place {location[:200]!r} is outside the model's folder")
    path = folder
    for part in parts:
        path = os.path.join(path, part)
        if os.path.islink(path):
            raise BadFileError(f"{where}: {location!r} is or goes through a symbolic link; put the file itself there")
    if os.path.isdir(path):
        raise BadFileError(f"{where}: {location!r} is not a file")
    try:
        # do not follow a link, or wait for a pipe, that replaced the file since the checks above
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as file:
            state = os.fstat(handle)
            if not stat.S_ISREG(state.st_mode):
                raise BadFileError(f"{where}: {location!r} is not a file")
            if offset + size > state.st_size:
                raise BadFileError(
                    f"{where}: bytes {offset} to {offset + size} of {location!r}, which has {state.st_size}"
                )
            file.seek(offset)
            data = file.read(size)
    except OSError as error:
        missing = "is missing beside the model" if isinstance(error, FileNotFoundError) else error.strerror
        raise BadFileError(f"{where}: {location!r} {missing}") from error
    if len(data) != size:
        raise BadFileError(f"{where}: {location!r} ended while it was read")
    return data
