"""Makes the jobs of `qverify compile` and `qverify quantize`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qverify.compiler.compile_model import CompilerOptions
from qverify.errors import UsageError
from qverify.files import require_writable
from qverify.inputs.description_tables import parse_inputs, read_tables
from qverify.inputs.sources import InputRequest
from qverify.onnx_model.quantizer import QuantizeOptions
from qverify.options.given import Given
from qverify.session.models import parse_shapes
from qverify.session.other_jobs.compile_file import CompileJob
from qverify.session.other_jobs.quantize import QuantizedFile, quantize_as_stated, quantize_file
from qverify.session.requests.inputs import read_inputs
from qverify.session.stated_arithmetics import open_forms
from qverify.session.vendor_quantized import states_itself
from qverify.vendor_quantization import Quantized


def compile_job(given: Given) -> CompileJob:
    """Returns the job; its output is None if nothing is to be written. Raises UsageError for files that are the same."""
    model, output, integer_onnx, arithmetic = (given[n] for n in ("model", "output", "integer_onnx", "arithmetic"))
    if output is None and not given["only_list"]:
        raise UsageError("Missing option '-o' / '--output': where to write model.bin; --list writes nothing")
    _check_outputs(model, output, integer_onnx)
    options = CompilerOptions(
        given["rounding"],
        given["align"],
        given["check"],
        not given["no_fuse"],
        given["strip_io_quant"],
        parse_shapes(given["shapes"]),
        os.path.dirname(os.path.abspath(model)),
        _merge(read_tables(given["description"]), parse_inputs(given["inputs"])),
        not given["no_host"],
        None if arithmetic is None else open_forms(arithmetic),
    )
    return CompileJob(model, output, integer_onnx, options)


def _check_outputs(model: str, output: str | None, integer_onnx: str | None) -> None:
    """Raises UsageError if two of the files are the same, or a file could not be written."""
    for option, path in (("-o", output), ("--integer-onnx", integer_onnx)):
        if path is not None:
            require_writable(option, path)
    for path in filter(None, (output, integer_onnx)):
        _check_not_the_model(model, path)
    if integer_onnx and output and os.path.realpath(integer_onnx) == os.path.realpath(output):
        raise UsageError(f"-o and --integer-onnx both name {output}; give two files")


def _check_not_the_model(model: str, output: str) -> None:
    if os.path.exists(output) and os.path.exists(model) and os.path.samefile(output, model):
        raise UsageError(f"output {output} is the model itself, which would be overwritten; give another file")


def _merge(file: dict[str, dict[str, Any]], options: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the tables of the TOML file, overridden key by key by those of --input."""
    return file | {name: {**file.get(name, {}), **table} for name, table in options.items()}


@dataclass(slots=True)
class QuantizeJob:
    """A float ONNX that is quantized.

    Attributes:
        model, output: paths of the float ONNX and of the quantized one.
        inputs: the calibration inputs.
        stated, engine: values of --from and --with.
        options: how it is quantized without them.
        files: from what it is quantized; `run` adds the files that a toolkit wrote.
    """

    model: str
    output: str
    inputs: InputRequest
    stated: tuple[str, ...]
    engine: str
    options: QuantizeOptions
    files: list[str]

    def run(self, watch: Callable[[str, int, int], None] | None) -> QuantizedFile | Quantized:
        """Quantizes the model, writes the result, and returns it."""
        if self.stated or states_itself(self.model):
            return quantize_as_stated(self.model, self.stated, self.output)
        if self.engine:
            from qverify.session.other_jobs.quantize_with import quantize_with

            built = quantize_with(self.model, self.engine, self.inputs, self.output)
            self.files += built.files
            return built.quantized
        return quantize_file(self.model, self.inputs, self.output, self.options, watch)


def quantize_job(given: Given) -> QuantizeJob:
    """Returns the job. Raises UsageError for options that exclude each other, and for an output that cannot be written."""
    model, output, stated, engine = (given[name] for name in ("model", "output", "stated", "engine"))
    inputs = read_inputs(given)
    _check_not_the_model(model, output)
    require_writable("-o", output)
    if stated and engine:
        raise UsageError("--from and --with each say what quantizes; give one")
    if stated and inputs.files is not None:
        raise UsageError("--from states the ranges; leave out -i")
    kept, wide = _names(given["keep_float"]), _names(given["int16"])
    shapes = parse_shapes(given["shapes"])
    options = QuantizeOptions(given["scheme"], given["method"], not given["per_tensor"], kept, wide, shapes)
    return QuantizeJob(model, output, inputs, stated, engine, options, [*(stated or [model])])


def _names(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for value in values for name in value.split(",") if name)
