"""A folder or an .npz as a side: tensors by name, read when asked for."""

from __future__ import annotations

import json
import os
from functools import partial

import numpy as np

from qverify.errors import BadFileError
from qverify.tensors.recording import Array, Recording, State, Tensors
from qverify.tensors.spec import TensorSpec


def little_endian(value: Array) -> Array:
    return value.astype(value.dtype.newbyteorder("<"), copy=False)


def _read(path: str) -> Array:
    try:
        return little_endian(np.asarray(np.load(path, allow_pickle=False)))
    except (OSError, ValueError, EOFError) as error:
        raise BadFileError(f"{path}: not a readable .npy: {error}") from error


def _files(path: str) -> tuple[dict[str, str], State]:
    """Tensor name to file, and whether they are all: by manifest.json (qverify infer), otherwise the file's own name."""
    manifest = os.path.join(path, "manifest.json")
    if not os.path.isfile(manifest):
        return {f[:-4]: os.path.join(path, f) for f in sorted(os.listdir(path)) if f.endswith(".npy")}, "complete"
    try:
        with open(manifest, encoding="utf-8") as file:
            held = json.load(file)
        listed, state = held["tensors"], held.get("state", "complete")
        found = {str(n): os.path.join(path, f) for f, n in listed.items() if os.path.basename(f) == f}
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise BadFileError(f"{manifest}: not a manifest of qverify infer") from error
    if len(found) != len(listed):
        raise BadFileError(f"{manifest}: two files for one tensor, or a file outside the folder")
    return found, "complete" if state == "complete" else "partial"


def _told(path: str) -> dict[str, list[str]]:
    """Of qverify infer's manifest: inputs, their SHA-256; outputs, names of the final ones. Empty where it is not known."""
    try:
        with open(os.path.join(path, "manifest.json"), encoding="utf-8") as file:
            held = json.load(file)
        return {key: [str(item) for item in held.get(key, [])] for key in ("inputs", "outputs")}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def dump(path: str, side: str) -> Recording:
    """Every tensor is final: all of them are judged."""
    state: State = "complete"
    if os.path.isdir(path):
        files, state = _files(path)
        loaders = {n: partial(_read, f) for n, f in files.items()}
        tensors: Tensors | dict[str, Array] = Tensors(loaders)
    else:
        try:
            with np.load(path, allow_pickle=False) as held:
                tensors = {n: little_endian(held[n]) for n in held.files}
        except (OSError, ValueError, EOFError, AttributeError) as error:
            raise BadFileError(f"{path}: neither a folder of .npy files nor a readable .npz: {error}") from error
    specs = {}
    for name in tensors:
        value = tensors[name]
        if value.dtype.kind not in "fiub" or value.dtype.itemsize > 8:
            raise BadFileError(f"{path}: {name} is {value.dtype}; only numbers of at most 64 bits can be compared")
        specs[name] = TensorSpec(name, str(value.dtype), value.shape)
    return Recording(
        side,
        f"dump {os.path.basename(os.path.normpath(path))}",
        specs=specs,
        finals=tuple(specs),
        tensors=tensors,
        state=state,
        settings=dict(_told(path)) if os.path.isdir(path) else {},
        why="" if state == "complete" else f"{path}: its manifest says the run was not complete",
    )
