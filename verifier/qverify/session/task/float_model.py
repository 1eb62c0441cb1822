"""Finds the float model among the files of -m, which the task numbers alone read."""

from __future__ import annotations

from qverify.errors import BadFileError
from qverify.onnx_model.load import read_model
from qverify.session.models import kind_of


def split_float(paths: list[str]) -> tuple[list[str], str | None]:
    """Returns the paths without that of the first float ONNX, and that one, None without any. Everything else is left for
    the main job to read or to refuse."""
    for at, path in enumerate(paths):
        try:
            kind = kind_of(path, read_model(path))
        except BadFileError:
            continue
        if kind == "float.onnx" and len(paths) > 1:
            return [*paths[:at], *paths[at + 1 :]], path
    return paths, None
