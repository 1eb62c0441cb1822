"""Writes arrays with any names to one .npz file. The same arrays always give the same bytes."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from qverify.files import replacing, writing
from qverify.tensors.recording import Array

INDEX = "index.json"
FAST, SMALL = 1, 6  # levels of the deflate compression


def write_npz(path: str, arrays: Mapping[str, Array], index: Any = None, level: int = SMALL) -> None:
    """Writes the arrays by name, like np.savez, but also allows the name `file` and stores no time. The file is written
    completely or not at all, and only one array is in memory at a time. index: plain values for a member index.json,
    which follows the arrays; None for no such member."""
    with (
        writing(path),
        replacing(path) as part,
        zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, True, level) as target,
    ):
        for name in arrays:
            with target.open(_member(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(arrays[name]), allow_pickle=False)
        if index is not None:
            with target.open(_member(INDEX), "w") as file:
                file.write(json.dumps(index, indent=1, allow_nan=False).encode())


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    member.compress_type = zipfile.ZIP_DEFLATED
    return member
