"""Finds the float model among the files of -m, which only the task numbers use."""

from __future__ import annotations

from qverify.errors import BadFileError
from qverify.onnx_model.load import read_model
from qverify.session.model_file import kind_of


def split_float(paths: list[str]) -> tuple[list[str], str | None]:
    """Returns the paths without that of the first float ONNX, and the latter; None if there is no float ONNX, or no
    other file. Other files, readable or not, are left to the main job."""
    for at, path in enumerate(paths):
        try:
            kind = kind_of(path, read_model(path))
        except BadFileError:
            continue
        if kind == "float.onnx" and len(paths) > 1:
            return [*paths[:at], *paths[at + 1 :]], path
    return paths, None
