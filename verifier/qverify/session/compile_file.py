"""Compiles a quantized ONNX file to model.bin, checks it, and writes it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from qverify.compiler.check_units import CANCELLING
from qverify.compiler.compile_model import CompileOptions, compile_model
from qverify.compiler.match import Watch
from qverify.files import write_pieces
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode_pieces
from qverify.onnx_model.load import read_model
from qverify.session.check_readable import check_readable


@dataclass(frozen=True, slots=True)
class CompileJob:
    """What to compile. model: path of the quantized ONNX. output, integer_onnx: paths to write, None for none."""

    model: str
    output: str | None
    integer_onnx: str | None = None
    options: CompileOptions = field(default_factory=CompileOptions)


@dataclass(slots=True)
class CompiledFile:
    """The result. size_bytes: of model.bin. failed: why the check failed, so that nothing was written; "" where it did
    not."""

    graph: Graph
    size_bytes: int = 0
    failed: str = ""


def compile_file(job: CompileJob, watch: Watch | None = None) -> CompiledFile:
    """Compiles, and writes the files unless the check failed. QVerifyError for a model that cannot be compiled, and for
    files that cannot be read or written."""
    compiled = compile_model(read_model(job.model), os.path.basename(job.model), job.options, watch)
    if failed := _describe_failure(compiled.graph):
        return CompiledFile(compiled.graph, failed=failed)
    pieces = encode_pieces(compiled.graph)
    if job.integer_onnx:
        write_pieces(compiled.integer, job.integer_onnx)
    if job.output is not None:
        write_pieces(pieces, job.output, check_readable)
    return CompiledFile(compiled.graph, sum(map(len, pieces)))


def _describe_failure(graph: Graph) -> str:
    result = graph.meta.get("check")
    if result is None or (result["units"] and not result["over"]):
        return ""
    beyond = (
        f"beyond 1 LSB of the original: {', '.join(result['over'][:5])}"
        if result["over"]
        else "no node could be checked"
    )
    return beyond + (f" ({result['cancelling'][0]} is {CANCELLING})" if "cancelling" in result else "")
