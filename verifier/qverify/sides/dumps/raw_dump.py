"""Reads a folder of raw .bin files without a description: types and shapes come from --dtype and -m."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial

from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.sides.dumps.vendor_axes import describe_blocks
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import ITEM, ReadingOptions, VendorDump, VendorTensor, spelled_loosely

ENDING = ".bin"


def is_raw_dump(path: str) -> bool:
    """Returns True if the folder itself contains raw files."""
    return os.path.isdir(path) and any(n.endswith(ENDING) for n in UntrustedFolder(path).names())


def read_raw_dump(path: str, options: ReadingOptions, graph: Graph | None) -> VendorDump:
    """Returns one tensor per NAME.bin. It gets the name of the graph's tensor if exactly one is spelled so. Its type
    comes from options.dtypes, or else from the graph. A tensor without a type, or of a size that does not fit, is
    missing, with the reason. Raises BadFileError for pipes, devices, and links that lead out of the folder."""
    folder = UntrustedFolder(path)
    names = folder.names()
    raw = [n for n in names if n.endswith(ENDING)]
    specs = _compared(graph) if graph is not None else {}
    names_by_spelling = _names_by_spelling(specs)
    dump = VendorDump("raw", [])
    for file in raw:
        stem = file.removesuffix(ENDING)
        name = stem if stem in specs else names_by_spelling.get(spelled_loosely(stem), stem)
        dtype = options.dtypes.get(name) or options.dtypes.get(stem) or options.dtypes.get("", "")
        described = _describe(
            folder.file(file), name, dtype, specs.get(name), graph is not None and name in graph.inputs
        )
        if isinstance(described, VendorTensor):
            dump.tensors.append(described)
        else:
            dump.missing[name] = f"{file}: {described}"
    if unread := [n for n in names if n not in raw]:
        dump.notes.append(f"{path}: {count(len(unread), 'file', 'is', 'are')} not read, first {unread[0]}")
    return dump


def _compared(graph: Graph) -> dict[str, TensorSpec]:
    """Returns the specs of the graph's inputs and of every tensor that a side can offer."""
    return {name: graph.spec(name) for name in (*graph.inputs, *graph.observable())}


def _names_by_spelling(names: Iterable[str]) -> dict[str, str]:
    """Returns the names by their spelling in a file name, without names that share a spelling."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(spelled_loosely(name), []).append(name)
    return {spelling: group[0] for spelling, group in groups.items() if len(group) == 1}


def _describe(file: UntrustedFile, name: str, dtype: str, model: TensorSpec | None, fed: bool) -> VendorTensor | str:
    """Returns the tensor of a file, or why it cannot be read. Its shape is that of the model's tensor, with or without
    padding, or one dimension if the model is not known."""
    size = file.size_bytes
    dtype = dtype or (model.dtype if model is not None else "")
    if not dtype:
        return "nothing states its type: give --dtype DTYPE, or -m with a tensor of this name"
    if size == 0 or size % ITEM[dtype]:
        return f"{count(size, 'byte')}, which are no whole number of {dtype}"
    shape: tuple[int, ...] = (size // ITEM[dtype],)
    stored: tuple[int, ...] = ()
    if model is not None and size == model.elements * ITEM[dtype]:
        shape = model.shape
    elif model is not None and (dtype, size) == (model.dtype, model.size_bytes):
        shape, stored = model.shape, model.aligned_shape
    elif model is not None:
        hint = describe_blocks(size // ITEM[dtype], model.shape)
        return f"{size} bytes do not fit {dtype}{list(model.shape)} of the model{hint}"
    return VendorTensor(
        name, file.path, (dtype,), size, partial(file.read, 0, size), shape, stored, flat=model is None, is_input=fed
    )
