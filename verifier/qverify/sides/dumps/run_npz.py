"""Reads one side of the .npz that `--npz` of the main job writes: the tensors of every side of a run, with an index."""

from __future__ import annotations

import os
from typing import Any

from qverify.errors import BadFileError, UsageError
from qverify.files import parse_json
from qverify.printable import printable
from qverify.tensors.recording import Recording, Tensors
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.array_files import StoredArray, npz, npz_text
from qverify.vendor_files.untrusted_files import UntrustedFile

INDEX, SCHEMA, INPUTS = "index.json", "qverify.npz/1", "inputs"
MAX_INDEX_BYTES = 1 << 26


def read_index(path: str) -> dict[str, Any] | None:
    """Returns the index of an .npz of `--npz`; None for any other file. Raises BadFileError for an index that is damaged."""
    if not path.endswith(".npz") or not os.path.isfile(path):
        return None
    text = npz_text(UntrustedFile(os.path.realpath(path)), INDEX, MAX_INDEX_BYTES)
    content = parse_json(text, f"{path}: {INDEX}") if text else None
    return content if isinstance(content, dict) and content.get("schema") == SCHEMA else None


def read_run_npz(path: str, index: dict[str, Any], chosen: str) -> Recording:
    """Returns one side of the file. chosen: its name; "" for the board, or else the reference, or the only one. Raises
    UsageError for a side that it does not have, BadFileError if its index is not that of its arrays."""
    arrays = {array.name: array for array in npz(UntrustedFile(os.path.realpath(path)), INDEX)}
    rows = [_row(path, row, arrays) for row in _rows(path, index, "arrays")]
    sides = list(dict.fromkeys(side for side, _, _ in rows if side != INPUTS))
    side = chosen or next((name for name in ("board", "reference", *sides) if name in sides), "")
    if side not in sides:
        raise UsageError(f"{path}: has {', '.join(map(printable, sides)) or 'no side'}; got --side {printable(side)}")
    own = [(spec, array) for owner, spec, array in rows if owner == side]
    specs = {spec.name: spec for spec, _ in own}
    if len(specs) != len(own):
        raise BadFileError(f"{path}: {INDEX} has two arrays of one tensor of {printable(side)}")
    missing = {
        str(row.get("tensor")): str(row.get("why"))
        for row in _rows(path, index, "missing")
        if row.get("side") == side and row.get("tensor") not in specs
    }
    specs |= {name: TensorSpec(name, "float32", ()) for name in missing}
    return Recording(
        "dump",
        f"{side} of {os.path.basename(path)}",
        specs=specs,
        finals=tuple(specs),
        tensors=Tensors({spec.name: array.array for spec, array in own}),
        missing=missing,
        capabilities=frozenset({"per_node"}),
        notes=[f"{path}: {printable(side)}, of {', '.join(map(printable, sides))}"]
        if not chosen and len(sides) > 1
        else [],
    )


def _rows(path: str, index: dict[str, Any], key: str) -> list[dict[str, Any]]:
    rows = index.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadFileError(f"{path}: {INDEX} has no list {key!r}")
    return rows


def _row(path: str, row: dict[str, Any], arrays: dict[str, StoredArray]) -> tuple[str, TensorSpec, StoredArray]:
    """Returns the side, spec and array of a row. A scale per channel is left out: the axis is not stated."""
    array = arrays.get(str(row.get("key")))
    if array is None or (array.dtype, list(array.shape)) != (row.get("dtype"), row.get("shape")):
        raise BadFileError(f"{path}: {INDEX}: {printable(str(row.get('key')))!r} is not the array that it describes")
    name, scale, zero = str(row.get("tensor")), row.get("scale"), row.get("zero_point")
    spec = TensorSpec(name, array.dtype, array.shape)
    if isinstance(scale, list) and isinstance(zero, list) and len(scale) == len(zero) == 1:
        if not isinstance(scale[0], float) or not 0 < scale[0] < float("inf") or not isinstance(zero[0], int):
            raise BadFileError(f"{path}: {INDEX}: {printable(name)!r} has a scale of {str(scale[0])[:40]}")
        spec = TensorSpec(name, array.dtype, array.shape, scale=(scale[0],), zero_point=(zero[0],))
    return str(row.get("side")), spec, array
