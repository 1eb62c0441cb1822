"""Writes arrays of any name to one .npz; the same arrays give the same bytes."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping

import numpy as np

from qverify.files import writing
from qverify.tensors.recording import Array


def write_npz(path: str, arrays: Mapping[str, Array]) -> None:
    """Writes arrays by name, like np.savez, but allows the name `file` and stores no time of day."""
    with writing(path), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name, value in arrays.items():
            with target.open(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(value), allow_pickle=False)
