"""A folder or an .npz as a side: tensors by name, read when asked for."""

from __future__ import annotations

import os
from typing import Any

from qverify.errors import BadFileError
from qverify.files import json_of, read_regular
from qverify.tensors.recording import Array, Recording, State, Tensors
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.array_files import HeldArray, npy, npz
from qverify.vendor_files.untrusted_files import UntrustedFile, unfinished

MOST_TEXT = 1 << 26
MOST_HELD = 1 << 28  # bytes of an .npz that are unpacked once; of a larger one, tensor by tensor as often as asked


def find_arrays(path: str) -> list[str]:
    """The .npy files of a folder, by name; those a cut-off qverify infer left unfinished are none."""
    try:
        return sorted(f for f in os.listdir(path) if f.endswith(".npy") and not unfinished(f))
    except OSError as error:
        raise BadFileError(f"{path}: {error.strerror}") from error


def _manifest(path: str) -> dict[str, Any] | None:
    """manifest.json of qverify infer; None where there is none. BadFileError for anything else of that name."""
    manifest = os.path.join(path, "manifest.json")
    if not os.path.lexists(manifest):
        return None
    held = json_of(read_regular(manifest, MOST_TEXT, follow=True), manifest)
    tensors, inputs = (held.get("tensors"), held.get("inputs", [])) if isinstance(held, dict) else (None, None)
    if not isinstance(tensors, dict) or not isinstance(inputs, list):
        raise BadFileError(f"{manifest}: not a manifest of qverify infer")
    for file in tensors:
        if os.path.basename(file) != file or not file.endswith(".npy") or "\0" in file:
            raise BadFileError(f"{manifest}: {file[:80]!r} is no .npy file of its folder")
    names = [str(name) for name in tensors.values()]
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        files = [f for f, n in tensors.items() if str(n) == twice]
        raise BadFileError(f"{manifest}: two files for one tensor: {' and '.join(files[:2])} for {twice[:80]!r}")
    return held


def manifest_files(path: str) -> list[str]:
    """The files that the folder's manifest lists; none where there is no manifest of qverify infer."""
    try:
        return [*(_manifest(path) or {"tensors": {}})["tensors"]]
    except BadFileError:
        return []


def _held(path: str, manifest: dict[str, Any] | None) -> list[HeldArray]:
    """Of a folder by manifest.json, otherwise by the files' own names; or of an .npz."""
    if not os.path.isdir(path):
        return npz(_file(path))
    there = find_arrays(path)
    named = {f: f[:-4] for f in there} if manifest is None else manifest["tensors"]
    found = [npy(_file(os.path.join(path, f)), str(name)) for f, name in named.items()]
    stray = [f for f in there if f not in named]
    if stray and (manifest or {}).get("state", "complete") == "complete":
        raise BadFileError(
            f"{os.path.join(path, stray[0])}: not listed in {path}/manifest.json, so nobody knows whose tensor it is; remove it"
        )
    return found


def _file(path: str) -> UntrustedFile:
    """Wherever its link leads: the user named the folder."""
    return UntrustedFile(os.path.realpath(path))


def open_array_dump(path: str, side: str) -> Recording:
    """Every tensor is final: all of them are judged. BadFileError for a file that is no array, or not whole."""
    manifest = _manifest(path) if os.path.isdir(path) else None
    held = _held(path, manifest)
    state: State = "complete" if manifest is None or manifest.get("state", "complete") == "complete" else "partial"
    tensors: Tensors | dict[str, Array] = Tensors({one.name: one.array for one in held})
    if not os.path.isdir(path) and sum(one.size_bytes for one in held) <= MOST_HELD:
        tensors = dict(tensors)
    specs = {one.name: TensorSpec(one.name, one.dtype, one.shape) for one in held}
    return Recording(
        side,
        f"dump {os.path.basename(os.path.normpath(path))}",
        specs=specs,
        finals=tuple(specs),
        tensors=tensors,
        state=state,
        settings=_told(manifest),
        why="" if state == "complete" else f"{path}: its manifest says the run was not complete",
        notes=_left(path),
    )


def _told(manifest: dict[str, Any] | None) -> dict[str, Any]:
    """Of qverify infer's manifest: inputs, their SHA-256; outputs, names of the final ones."""
    held = manifest or {}
    lists = {key: held.get(key, []) for key in ("inputs", "outputs")}
    return {key: [str(item) for item in names] for key, names in lists.items() if isinstance(names, list)}


def _left(path: str) -> list[str]:
    """What was not read there, for the report."""
    left = sorted(filter(unfinished, os.listdir(path))) if os.path.isdir(path) else []
    return (
        [f"{os.path.join(path, left[0])}: left unfinished by a qverify infer that was cut off; not read"]
        if left
        else []
    )
