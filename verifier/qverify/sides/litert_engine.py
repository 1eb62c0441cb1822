"""LiteRT's kernels on this host, in a child process: a file on which LiteRT ends its process ends no other."""

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
NO_KERNEL = "Didn't find op for builtin opcode"  # LiteRT's words for an operator that a set of kernels lacks
DEFAULT_KERNELS = "the reference is LiteRT's default kernels, since its reference kernels refuse the file: {}"


class RefusedFileError(BadFileError):
    """Raised for a file that LiteRT does not open."""


class LiteRtEngine:
    """Runs .tflite files. file: name of the model, for messages. Raises MissingExtraError if LiteRT is not installed.

    version: LiteRT's version."""

    def __init__(self, file: str):
        self.version = str(import_extra("ai_edge_litert", f"{file}: a .tflite by itself").__version__)
        self._child, self._kept = EngineChild(PROGRAM), dict[str, Path]()

    def run(
        self,
        data: bytes,
        file: str,
        values: Mapping[int, Array],
        wanted: Sequence[int],
        keep: bool = False,
        kernels: str = "reference",
    ) -> dict[int, Array]:
        """Returns the wanted tensors by index, in the file's layout. data: the .tflite. values: its inputs by index.
        keep: whether the same file will run again. kernels: reference, optimized (LiteRT's default ones) or xnnpack.
        Raises BadFileError if LiteRT refuses the file or fails, EngineEnded if it ends its process or takes too long."""
        answer = self._request(data, file, values, wanted, keep, kernels, "result")
        return dict(zip(wanted, self._child.read_arrays(answer, "result"), strict=True))

    def describe(
        self, data: bytes, file: str, values: Mapping[int, Array], wanted: Sequence[int], kernels: str
    ) -> dict[int, tuple[str, tuple[int, ...], str]]:
        """Returns type, shape and SHA-256 of those of these tensors that have values after a run. Arguments and errors are those of
        run()."""
        answer = self._request(data, file, values, wanted, False, kernels, None)
        pairs = zip(wanted, answer["arrays"], strict=True)
        return {i: (np.dtype(found[0]).name, tuple(found[1]), str(found[2])) for i, found in pairs if found is not None}

    def _request(
        self,
        data: bytes,
        file: str,
        values: Mapping[int, Array],
        wanted: Sequence[int],
        keep: bool,
        kernels: str,
        result: str | None,
    ) -> dict[str, Any]:
        folder = self._child.folder
        sha256 = hashlib.sha256(data).hexdigest()
        path = self._kept.get(sha256) or folder / (f"{sha256}.tflite" if keep else "part.tflite")
        if sha256 not in self._kept:
            path.write_bytes(data)
        if keep:
            self._kept[sha256] = path
        arrays: dict[str, Any] = {str(i): value for i, value in values.items()}
        np.savez(folder / "feed.npz", **arrays)
        request = {"model": str(path), "kernels": kernels, "keep": keep, "wanted": [*wanted]}
        files = {"feed": str(folder / "feed.npz"), "result": result and str(folder / result)}
        answer = self._child.request({**request, **files})
        if "why" in answer:
            refused = bool(answer.get("refused"))
            kind = RefusedFileError if refused else BadFileError
            raise kind(f"{file}: LiteRT {'refuses it' if refused else 'fails'}: {printable(str(answer['why']))}")
        return answer
