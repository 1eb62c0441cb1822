"""LiteRT's reference kernels on this host, in a child process: a file on which LiteRT ends its process ends no other."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qverify.errors import BadFileError
from qverify.extras import import_extra
from qverify.printable import printable
from qverify.sides.engine_child import EngineChild
from qverify.tensors.recording import Array
from qverify.tflite_model import read_tflite

PROGRAM = Path(read_tflite.__file__).with_name("run_litert.py")


class LiteRtEngine:
    """Runs .tflite files. file: name of the model, for messages. Raises MissingExtraError if LiteRT is not installed.

    version: LiteRT's version."""

    def __init__(self, file: str):
        self.version = str(import_extra("ai_edge_litert", f"{file}: a .tflite by itself").__version__)
        self._child, self._kept = EngineChild(PROGRAM), dict[str, Path]()

    def run(
        self, data: bytes, file: str, values: Mapping[int, Array], wanted: Sequence[int], keep: bool = False
    ) -> dict[int, Array]:
        """Returns the wanted tensors by index, in the file's layout. data: the .tflite. values: its inputs by index.
        keep: whether the same file will run again. Raises BadFileError if LiteRT refuses the file or fails, EngineEnded
        if it ends its process or takes too long."""
        folder = self._child.folder
        sha256 = hashlib.sha256(data).hexdigest()
        path = self._kept.get(sha256) or folder / (f"{sha256}.tflite" if keep else "part.tflite")
        if sha256 not in self._kept:
            path.write_bytes(data)
        if keep:
            self._kept[sha256] = path
        arrays: dict[str, Any] = {str(i): value for i, value in values.items()}
        np.savez(folder / "feed.npz", **arrays)
        request = {"model": str(path), "keep": keep, "wanted": [*wanted]}
        files = {"feed": str(folder / "feed.npz"), "result": str(folder / "result")}
        answer = self._child.request({**request, **files})
        if "why" in answer:
            how = "refuses it" if answer.get("refused") else "fails"
            raise BadFileError(f"{file}: LiteRT {how}: {printable(str(answer['why']))}")
        return dict(zip(wanted, self._child.read_arrays(answer, "result"), strict=True))
