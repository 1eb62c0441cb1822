"""msprobe (Ascend): a folder stepN/rankN with dump.json, which describes every tensor, and dump_tensor_data/, which has them:
.npy of MindSpore. Tensors that torch saved (.pt) are not read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from qverify.errors import BadFileError
from qverify.files import parse_json
from qverify.vendor_files.array_files import npy
from qverify.vendor_files.untrusted_files import UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump, VendorTensor

WANTED = "a folder with dump.json, stack.json and dump_tensor_data/, or stepN, or the folder with step0, step1 ..."
CHECKED = "reads the documented format; not checked with a dump of the vendor's tool"
MANIFEST, DATA = "dump.json", "dump_tensor_data"
PARTS = ("input_args", "input_kwargs", "input", "output", "parameters")
MAX_MANIFEST_BYTES = 1 << 28
_STEP, _RANK = re.compile(r"step(\d{1,9})"), re.compile(r"(rank|proc)\d{0,9}")


def recognised(folder: UntrustedFolder) -> bool:
    """Returns True for a folder of one rank, and for those above it."""
    return _rank(folder, 0) is not None


def read(folder: UntrustedFolder, options: ReadingOptions) -> VendorDump:
    """Reads one rank. options.frame: the step, if the user named the folder with step0, step1 .... A tensor is named as its
    file, without the ending."""
    place = _rank(folder, options.frame)
    if place is None:
        raise BadFileError(f"{folder.path}: no such dump, or none of step {options.frame}; wanted {WANTED}")
    file = place.file(MANIFEST)
    content = parse_json(file.whole(MAX_MANIFEST_BYTES), file.path)
    entries = content.get("data") if isinstance(content, dict) else None
    if not isinstance(entries, dict):
        raise BadFileError(f"{file.path}: no object called data; wanted {WANTED}")
    dump, here = VendorDump("msprobe", []), UntrustedFolder(os.path.join(place.path, DATA))
    held = set(here.names())
    for name, is_input in _files(entries):
        stem = name.rpartition(".")[0]
        if name not in held:
            dump.missing[stem] = f"{MANIFEST} names {name}, which is not in {DATA}"
        elif not name.endswith(".npy"):
            dump.missing[stem] = f"{name} was saved by torch; save it as .npy"
        else:
            array = npy(here.file(name), stem)
            dump.tensors.append(
                VendorTensor(
                    stem, array.where, (array.dtype,), array.size_bytes, array.read, array.shape, is_input=is_input
                )
            )
    if not dump.tensors and not dump.missing:
        raise BadFileError(f'{file.path}: names no file of a tensor; wanted a dump with "task": "tensor"')
    return dump


def _rank(folder: UntrustedFolder, step: int) -> UntrustedFolder | None:
    """Returns the folder of one rank: the given one, or the only one below it, of this step."""
    for _ in range(3):
        if folder.is_file:
            return None
        if {MANIFEST, "stack.json"} <= set(folder.names()) and DATA in folder.folders():
            return folder
        inner = folder.folders()
        steps = [name for name in inner if (m := _STEP.fullmatch(name)) and int(m[1]) == step]
        ranks = [name for name in inner if _RANK.fullmatch(name)]
        if len(steps or ranks) != 1:
            return None
        folder = UntrustedFolder(os.path.join(folder.path, (steps or ranks)[0]))
    return None


def _files(entries: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yields the names of the files, each once, and whether it is a layer's input."""
    seen = set[str]()
    for entry in entries.values():
        for part in PARTS if isinstance(entry, dict) else ():
            for name in _names(entry.get(part), 0):
                if name not in seen:
                    seen.add(name)
                    yield name, part != "output"


def _names(value: Any, depth: int) -> Iterator[str]:
    """Yields the names of the files of one argument, which may be a list or a table of tensors."""
    if isinstance(value, dict) and isinstance(value.get("data_name"), str):
        yield value["data_name"]
    elif isinstance(value, (dict, list)) and depth < 8:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _names(inner, depth + 1)
