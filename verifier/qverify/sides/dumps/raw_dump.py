"""Reads a folder of raw .bin files without any description: types and shapes are those of --dtype and -m."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial

from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import ITEM, ReadingOptions, VendorDump, VendorTensor, spelled_loosely

ENDING = ".bin"


def is_raw_dump(path: str) -> bool:
    """Tells whether the folder has raw files of its own."""
    return os.path.isdir(path) and any(n.endswith(ENDING) for n in UntrustedFolder(path).names())


def read_raw_dump(path: str, asked: ReadingOptions, graph: Graph | None) -> VendorDump:
    """Returns one tensor per NAME.bin. Its name is the graph's where exactly one tensor is spelled so. Its type is that of
    asked.dtypes, else the graph's. A tensor without a type, or of a size that does not fit, is missing with the reason.
    Raises BadFileError for pipes, devices, and links out of the folder."""
    folder = UntrustedFolder(path)
    names = folder.names()
    raw = [n for n in names if n.endswith(ENDING)]
    known = _compared(graph) if graph is not None else {}
    spelled = _names_by_spelling(known)
    dump = VendorDump("raw", [])
    for file in raw:
        stem = file.removesuffix(ENDING)
        name = stem if stem in known else spelled.get(spelled_loosely(stem), stem)
        dtype = asked.dtypes.get(name) or asked.dtypes.get(stem) or asked.dtypes.get("", "")
        found = _describe(folder.file(file), name, dtype, known.get(name), graph is not None and name in graph.inputs)
        if isinstance(found, VendorTensor):
            dump.tensors.append(found)
        else:
            dump.missing[name] = f"{file}: {found}"
    if others := [n for n in names if n not in raw]:
        dump.notes.append(f"{path}: {count(len(others), 'file', 'is', 'are')} not read, first {others[0]}")
    return dump


def _compared(graph: Graph) -> dict[str, TensorSpec]:
    """Returns the specs of the graph's inputs and of every tensor that a side can offer."""
    return {name: graph.spec(name) for name in (*graph.inputs, *graph.observable())}


def _names_by_spelling(names: Iterable[str]) -> dict[str, str]:
    """Returns the names by how they may be spelled in a file name; without those that are spelled like another one."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(spelled_loosely(name), []).append(name)
    return {spelling: group[0] for spelling, group in groups.items() if len(group) == 1}


def _describe(file: UntrustedFile, name: str, dtype: str, model: TensorSpec | None, fed: bool) -> VendorTensor | str:
    """Returns the tensor of a file, or why it cannot be read. Its shape is that of the model, which may have padding, or
    else one dim of all its elements."""
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
        return f"{size} bytes do not fit {dtype}{list(model.shape)} of the model"
    return VendorTensor(
        name, file.path, (dtype,), size, partial(file.read, 0, size), shape, stored, flat=model is None, fed=fed
    )
