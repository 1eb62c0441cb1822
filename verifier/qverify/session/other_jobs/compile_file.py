"""Compiles a quantized ONNX or a .tflite to model.bin, checks it, and writes it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from qverify.compiler.check_units import CANCELLING
from qverify.compiler.compile_model import CompiledModel, CompilerOptions, compile_model
from qverify.compiler.match import Watch
from qverify.errors import UnsupportedError, UsageError
from qverify.files import write_pieces
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode_pieces
from qverify.onnx_model.load import open_model
from qverify.onnx_model.mapped_model import MappedModel
from qverify.session.check_readable import check_readable
from qverify.session.models import with_next_step
from qverify.session.stated_arithmetics import open_arithmetic
from qverify.session.vendor_quantized import ESPDL, espdl_files, quantize_as_vendor


@dataclass(frozen=True, slots=True)
class CompileJob:
    """A request to compile a model. model: path of the quantized ONNX or the .tflite. output, integer_onnx: paths of
    the files to write, None for no such file."""

    model: str
    output: str | None
    integer_onnx: str | None = None
    options: CompilerOptions = field(default_factory=CompilerOptions)


@dataclass(slots=True)
class CompiledFile:
    """The result of compiling a model. size_bytes: size of model.bin. failed: why the check against the original
    failed, so that nothing was written; "" if it did not fail. saturated: as in CompiledModel."""

    graph: Graph
    size_bytes: int = 0
    failed: str = ""
    saturated: list[tuple[str, str]] = field(default_factory=list)


def compile_file(job: CompileJob, watch: Watch | None = None) -> CompiledFile:
    """Compiles the model, and writes the files unless the check failed. Raises QVerifyError if the model cannot be
    compiled or a file cannot be read or written."""
    source: list[Any] = [*open_model(job.model)]
    mapped = source[0] if isinstance(source[0], MappedModel) else None
    compiled = _compile(source, job, watch)
    if failed := _describe_failure(compiled.graph):
        return CompiledFile(compiled.graph, failed=failed, saturated=compiled.saturated)
    pieces = encode_pieces(compiled.graph)
    if job.integer_onnx:
        write_pieces(compiled.integer, job.integer_onnx)
    if job.output is not None:
        write_pieces(pieces, job.output, partial(_check_written, mapped))
    return CompiledFile(compiled.graph, sum(map(len, pieces)), saturated=compiled.saturated)


def _check_written(mapped: MappedModel | None, path: str) -> None:
    """Checks a written model.bin, as check_readable() does."""
    if mapped is not None:
        mapped.release()  # every constant was read to write it
    check_readable(path)


def _compile(source: list[Any], job: CompileJob, watch: Watch | None) -> CompiledModel:
    """Returns the compiled model. source: what open_model() returned, taken out of the list: the compiler then has the only
    reference to the bytes and frees them when it has parsed them."""
    name = os.path.basename(job.model)
    if isinstance(source[0], bytes) and source[0][:4] == ESPDL:
        return _compile_espdl(job, watch)
    if not isinstance(source[0], bytes) or not is_tflite(source[0]):
        return compile_model(source.pop(0), name, job.options, watch, source.pop())
    if job.integer_onnx:
        raise UsageError(
            f"--integer-onnx: {name} is compiled in LiteRT's arithmetic, which no integer ONNX has; leave it out"
        )
    return compile_tflite(name, source[0], job.options)


def _compile_espdl(job: CompileJob, watch: Watch | None) -> CompiledModel:
    """Returns the network of an .espdl, compiled in the arithmetic of its chip unless the options state one."""
    from qverify.compare.identify.arithmetic_file import forms_of_ops

    made = quantize_as_vendor(job.model, b"", espdl_files(job.model))
    options = job.options
    if made.arithmetic and options.arithmetic is None and options.rounding == CompilerOptions().rounding:
        options = replace(options, arithmetic=forms_of_ops(open_arithmetic(made.arithmetic)))
    return compile_model(made.onnx, os.path.basename(job.model), options, watch)


def is_tflite(data: bytes) -> bool:
    """Returns whether the data are those of a .tflite file."""
    return data[4:8] == b"TFL3"


def compile_tflite(name: str, data: bytes, options: CompilerOptions) -> CompiledModel:
    """Returns a .tflite compiled in LiteRT's arithmetic, or in that of the options. Raises UsageError for options that do not apply to a .tflite,
    and the errors of open_tflite."""
    from qverify.session.tflite_alone import open_tflite

    allowed = CompilerOptions(
        check=options.check, folder=options.folder, host=options.host, arithmetic=options.arithmetic
    )
    if refused := [f.name for f in fields(options) if getattr(options, f.name) != getattr(allowed, f.name)]:
        flag = {"fuse": "no-fuse", "shapes": "shape", "inputs": "input"}.get(refused[0], refused[0].replace("_", "-"))
        raise UsageError(f"--{flag}: {name} is compiled as it is, in LiteRT's arithmetic; leave it out")
    try:
        return open_tflite(name, data, options.arithmetic, options.host)[0]
    except UnsupportedError as error:
        raise with_next_step(error, name, "qverify ") from error


def _describe_failure(graph: Graph) -> str:
    """Returns why the compiler's check of this graph failed; "" if it passed or was not made."""
    result = graph.meta.get("check")
    if result is None or (result["units"] and not result["over"]):
        return ""
    beyond = (
        f"beyond 1 LSB of the original: {', '.join(result['over'][:5])}"
        if result["over"]
        else "no node could be checked"
    )
    return beyond + (f" ({result['cancelling'][0]} is {CANCELLING})" if "cancelling" in result else "")
