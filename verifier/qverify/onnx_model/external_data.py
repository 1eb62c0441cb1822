"""Reads the external data files of an ONNX model, checks them, and embeds them, so that the model is complete in
itself."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator

import onnx

from qverify.errors import BadFileError
from qverify.onnx_model.held_data import hold, is_held
from qverify.onnx_model.light_model import holdable_bytes
from qverify.onnx_model.mapped_file import MappedFile
from qverify.onnx_model.widen_constants import PER_BYTE

MAX_BYTES = 2**31 - 1
OTHER_THAN_INTEGERS = " of other constants than integers of 8 to 64 bits, which is not supported"
KEYS = {"location", "offset", "length", "checksum"}


def has_external_data(model: onnx.ModelProto) -> bool:
    """Returns whether a tensor of the model is external in another file."""
    return any(_external(t) for t in _tensors(model))


def external_bytes(model: onnx.ModelProto) -> int:
    """Returns the bytes of all external tensors by their types and dims, those of unknown types left out."""
    return sum(size for t in _tensors(model) if _external(t) and (size := _bytes_or_none(t)) is not None)


def embed_external_data(model: onnx.ModelProto, name: str, folder: str, maps: list[MappedFile] | None = None) -> None:
    """Reads every external tensor into the model, in place.

    folder: the folder of the model's file, or "" if it has none. maps: a list, to hold large integer constants
    (held_data.py) as views of mapped files, which are added to it. Raises BadFileError for a location outside the folder,
    a symbolic link, a size that differs from the tensor's, and more than 2 GiB that are read."""
    external = list(filter(_external, _tensors(model)))
    left = MAX_BYTES - model.ByteSize() if external else 0
    opened = dict[tuple[int, int], MappedFile]()
    for tensor in external:
        where = f"{name}: external data of {tensor.name!r}"
        if not folder:
            raise BadFileError(f"{where}: the model was not read from a folder")
        entries = {e.key: e.value for e in tensor.external_data}
        if unknown := sorted(entries.keys() - KEYS):
            raise BadFileError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(KEYS))}")
        size = _size_bytes(tensor, where)
        if _number(entries.get("length"), size, where) != size:
            raise BadFileError(f"{where}: length {entries['length']}, its type and dims need {size} bytes")
        held = maps is not None and _can_be_held(tensor, size)
        left -= 0 if held else size
        if left < 0:
            raise BadFileError(f"{where}: with its data the model has above 2 GiB{OTHER_THAN_INTEGERS}")
        location, offset = entries.get("location", ""), _number(entries.get("offset"), 0, where)
        handle = _open(folder, location, offset, size, where)
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
        if held:
            _hold(tensor, _map_once(handle, os.path.join(folder, location), opened), offset)
            continue
        tensor.raw_data = _read(handle, location, offset, size, where)
    if maps is not None:
        maps += opened.values()


def _can_be_held(tensor: onnx.TensorProto, size: int) -> bool:
    """Returns whether an external tensor of this many bytes is a large constant of integers."""
    return holdable_bytes(onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)) == size


def _map_once(handle: int, path: str, opened: dict[tuple[int, int], MappedFile]) -> MappedFile:
    """Returns the open file, mapped, once for all tensors in it. handle: is closed."""
    state = os.fstat(handle)
    key = state.st_dev, state.st_ino
    if key in opened:
        os.close(handle)
    else:
        opened[key] = MappedFile(path, handle)
    return opened[key]


def _hold(tensor: onnx.TensorProto, file: MappedFile, offset: int) -> None:
    """Holds the tensor's data, which the file has at this offset."""
    kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    hold(tensor, file.array(kind, tuple(tensor.dims), offset))


def _external(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == onnx.TensorProto.EXTERNAL and not is_held(tensor)


def _bytes_or_none(tensor: onnx.TensorProto) -> int | None:
    """Returns the size of the tensor's data; None if its type or dims are none that can be stored outside."""
    try:
        return _size_bytes(tensor, "")
    except BadFileError:
        return None


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


def _open(folder: str, location: str, offset: int, size: int, where: str) -> int:
    """Opens the file of a tensor's data, which is the caller's to close."""
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
    except OSError as error:
        raise BadFileError(f"{where}: {location!r} {_reason(error)}") from error
    state = os.fstat(handle)
    if not stat.S_ISREG(state.st_mode):
        os.close(handle)
        raise BadFileError(f"{where}: {location!r} is not a file")
    if offset + size > state.st_size:
        os.close(handle)
        raise BadFileError(f"{where}: bytes {offset} to {offset + size} of {location!r}, which has {state.st_size}")
    return handle


def _reason(error: OSError) -> str:
    return "is missing beside the model" if isinstance(error, FileNotFoundError) else str(error.strerror)


def _read(handle: int, location: str, offset: int, size: int, where: str) -> bytes:
    """Returns the bytes of a tensor's data. handle: the open file, which is closed."""
    try:
        with os.fdopen(handle, "rb") as file:
            file.seek(offset)
            data = file.read(size)
    except OSError as error:
        raise BadFileError(f"{where}: {location!r} {_reason(error)}") from error
    if len(data) != size:
        raise BadFileError(f"{where}: {location!r} ended while it was read")
    return data
