"""Reads a folder of .npy files or an .npz file as a side: tensors by name, loaded on access."""

from __future__ import annotations

import os
from typing import Any

from qverify.errors import BadFileError
from qverify.files import parse_json, read_regular
from qverify.printable import printable
from qverify.tensors.recording import Array, Recording, State, Tensors
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.array_files import StoredArray, npy, npz
from qverify.vendor_files.untrusted_files import UntrustedFile, unfinished

MAX_MANIFEST_BYTES = 1 << 26
DESCRIPTION = "dump.json"
MAX_UNPACKED_BYTES = 1 << 28  # of an .npz that is unpacked at once; of a larger one, each tensor is unpacked on access


def find_arrays(path: str) -> list[str]:
    """Returns the names of a folder's .npy files, sorted, without those that an interrupted `qverify infer` left
    unfinished."""
    try:
        return sorted(f for f in os.listdir(path) if f.endswith(".npy") and not unfinished(f))
    except OSError as error:
        raise BadFileError(f"{path}: {error.strerror}") from error


def _manifest(path: str) -> dict[str, Any] | None:
    """Returns manifest.json of `qverify infer`, or None if there is none. Raises BadFileError for any other file of
    that name."""
    manifest = os.path.join(path, "manifest.json")
    if not os.path.lexists(manifest):
        return None
    content = parse_json(read_regular(manifest, MAX_MANIFEST_BYTES, follow=True), manifest)
    tensors, inputs = (content.get("tensors"), content.get("inputs", [])) if isinstance(content, dict) else (None, None)
    if not isinstance(tensors, dict) or not isinstance(inputs, list):
        raise BadFileError(f"{manifest}: not a manifest of qverify infer")
    for file in tensors:
        if os.path.basename(file) != file or not file.endswith(".npy") or "\0" in file:
            raise BadFileError(f"{manifest}: {file[:80]!r} is not a .npy file of its folder")
    names = [str(name) for name in tensors.values()]
    if len(set(names)) != len(names):
        duplicate = next(n for n in names if names.count(n) > 1)
        files = [f for f, n in tensors.items() if str(n) == duplicate]
        raise BadFileError(f"{manifest}: two files for one tensor: {' and '.join(files[:2])} for {duplicate[:80]!r}")
    return content


def manifest_files(path: str) -> list[str]:
    """Returns the files that the folder's manifest lists, or [] without a manifest of `qverify infer`."""
    try:
        return [*(_manifest(path) or {"tensors": {}})["tensors"]]
    except BadFileError:
        return []


def describes_itself(path: str) -> bool:
    """Returns True if `qverify infer` wrote the folder's dump.json, as its manifest states, and there is no
    dump.toml."""
    if os.path.lexists(os.path.join(path, "dump.toml")):
        return False
    try:
        return (_manifest(path) or {}).get("description") == DESCRIPTION
    except BadFileError:
        return False


def _open_arrays(path: str, manifest: dict[str, Any] | None) -> list[StoredArray]:
    """Opens the arrays of an .npz, or of a folder; there they are named by manifest.json, or else by their files."""
    if not os.path.isdir(path):
        return npz(_file(path))
    files = find_arrays(path)
    named = {f: f[:-4] for f in files} if manifest is None else manifest["tensors"]
    arrays = [npy(_file(os.path.join(path, f)), str(name)) for f, name in named.items()]
    stray = [f for f in files if f not in named]
    if stray and (manifest or {}).get("state", "complete") == "complete":
        raise BadFileError(
            f"{os.path.join(path, stray[0])}: not listed in {path}/manifest.json, so its tensor is not known; remove it"
        )
    return arrays


def _file(path: str) -> UntrustedFile:
    """Opens a file. Links are followed, since the user named the folder."""
    return UntrustedFile(os.path.realpath(path))


def open_array_dump(path: str, side: str) -> Recording:
    """Returns the arrays at `path` as a side. Every tensor counts as final, so all are judged. Raises BadFileError for
    a file that is not an array, or damaged."""
    manifest = _manifest(path) if os.path.isdir(path) else None
    arrays = _open_arrays(path, manifest)
    state: State = "complete" if manifest is None or manifest.get("state", "complete") == "complete" else "partial"
    tensors: Tensors | dict[str, Array] = Tensors({array.name: array.array for array in arrays})
    if not os.path.isdir(path) and sum(array.size_bytes for array in arrays) <= MAX_UNPACKED_BYTES:
        tensors = dict(tensors)
    specs = {array.name: TensorSpec(array.name, array.dtype, array.shape) for array in arrays}
    return Recording(
        side,
        f"dump {os.path.basename(os.path.normpath(path))}",
        specs=specs,
        finals=tuple(specs),
        tensors=tensors,
        state=state,
        settings=_manifest_settings(manifest),
        why="" if state == "complete" else f"{path}: its manifest says the run was not complete",
        notes=_note_unfinished(path),
    )


def _manifest_settings(manifest: dict[str, Any] | None) -> dict[str, Any]:
    """Returns facts that `qverify infer` wrote into the manifest: the SHA-256 of the inputs, the names of the final
    outputs, and the nodes that were left to the host if the tensors cover a part of the network only."""
    content = manifest or {}
    lists = {key: content.get(key, []) for key in ("inputs", "outputs", "part")}
    return {
        key: [printable(str(item)) if key == "part" else str(item) for item in names]
        for key, names in lists.items()
        if isinstance(names, list)
    }


def _note_unfinished(path: str) -> list[str]:
    """Returns a note if there are unfinished files at `path`, which are not read."""
    files = sorted(filter(unfinished, os.listdir(path))) if os.path.isdir(path) else []
    return (
        [f"{os.path.join(path, files[0])}: left unfinished by an interrupted qverify infer; not read"] if files else []
    )
