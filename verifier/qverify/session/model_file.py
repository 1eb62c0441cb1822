"""A file of -m: its kind is recognised by content, never by extension."""

from __future__ import annotations

import os
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from qverify.arithmetic.workers import submit
from qverify.errors import BadFileError, UsageError
from qverify.model_bin.container import MAGIC
from qverify.onnx_model.load import check_parsed, digest_of, is_quantized, open_model, parse
from qverify.onnx_model.mapped_model import MappedModel
from qverify.onnx_model.other_files import describe_other
from qverify.plural import count
from qverify.session.vendor_quantized import ESPDL

ModelData = bytes | MappedModel


@dataclass(slots=True)
class ModelFile:
    """A file of -m. kind: as kind_of() returns it. digest: SHA-256 of its bytes, computed by a worker thread. parsed:
    the parsed ONNX; None for other kinds, and after take()."""

    path: str
    data: Any
    kind: str
    digest: Future[str]
    parsed: Any | None

    @staticmethod
    def read(path: str) -> ModelFile:
        """Reads a file and recognises its kind. Raises BadFileError if it cannot be read or is not a model."""
        data, parsed = open_model(path)
        try:
            kind = kind_of(path, data, parsed)
        except BadFileError as error:
            if not path.endswith(".tflite"):
                raise
            raise BadFileError(
                f"{path}: not a .tflite ({count(os.path.getsize(path), 'byte')}, no TFL3 at byte 4)"
            ) from error
        return ModelFile(path, data, kind, submit(lambda: digest_of(data)), parsed)

    def take(self) -> Any | None:
        """Returns the parsed ONNX and drops it here, so that its memory can be freed."""
        parsed, self.parsed = self.parsed, None
        return parsed

    def row(self) -> dict[str, str]:
        """Returns the file's row of the report."""
        return {"path": os.path.basename(self.path), "sha256": self.digest.result(), "kind": self.kind}


def check_first(before: ModelFile | None, file: ModelFile) -> ModelFile:
    """Returns the file. Raises UsageError if `before` is an earlier file of the same kind."""
    if before is not None:
        raise UsageError(f"-m names two files of kind {file.kind}: {before.path} and {file.path}")
    return file


def kind_of(path: str, data: ModelData | memoryview, parsed: Any | None = None) -> str:
    """Returns the kind of a model file by its content: float.onnx, quant.onnx, model.bin, tflite or espdl. parsed: the ONNX,
    if it was parsed before. Raises BadFileError for anything else."""
    if isinstance(data, memoryview) or (isinstance(data, bytes) and data[:8] == MAGIC):  # a large model.bin is mapped
        return "model.bin"
    if not isinstance(data, MappedModel):
        if data[4:8] == b"TFL3":
            return "tflite"
        if data[:4] == ESPDL:
            return "espdl"
        if other := describe_other(data, path):
            raise BadFileError(f"{path}: {other}")
    name = os.path.basename(path)
    model = parse(data, name) if parsed is None else check_parsed(parsed, name)
    return "quant.onnx" if is_quantized(model) else "float.onnx"
