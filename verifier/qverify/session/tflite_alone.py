"""-m model.tflite alone: the file as model.bin in LiteRT's arithmetic (NUMERICS.md section 1)."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qverify.arithmetic.multipliers import parameters
from qverify.arithmetic.requantize import requantize
from qverify.compiler.compile_model import Compiled, CompileOptions, compile_model
from qverify.errors import BadFileError, UnsupportedError
from qverify.model_bin.graph import Graph
from qverify.tensors.spec import TensorSpec
from qverify.tflite_model.convert import Converted, convert
from qverify.tflite_model.read import read_tflite

ROUNDING = "gemmlowp"  # of LiteRT's convolutions
SINGLE = ("fully_connected", "global_average_pool")  # these round once, as tflite-single
OWN_ID = 1  # of tflite-single in FORMAT.md


@dataclass(frozen=True, slots=True)
class TfliteAlone:
    """A .tflite that was converted. data: of the file."""

    data: bytes
    converted: Converted


def open_tflite(path: str, data: bytes) -> tuple[Compiled, TfliteAlone]:
    """Returns the compiled model, whose check against the QDQ ONNX has passed, and what its reference needs. BadFileError
    for a damaged file, UnsupportedError for operators that are not converted, MissingExtraError without LiteRT."""
    name = os.path.basename(path)
    converted = convert(read_tflite(data, name))
    try:
        compiled = compile_model(converted.onnx, name, CompileOptions(rounding=ROUNDING))
    except (BadFileError, UnsupportedError) as error:
        if name in str(error):
            raise
        kind = BadFileError if isinstance(error, BadFileError) else UnsupportedError
        raise kind(f"{name}: {error}") from error
    _check_shapes(converted, compiled.graph)
    compiled.graph = in_litert_arithmetic(compiled.graph, converted)
    return compiled, TfliteAlone(data, converted)


def _check_shapes(converted: Converted, graph: Graph) -> None:
    """Raises BadFileError where the file gives a tensor other dims than its operators make, and UnsupportedError for a
    tensor that is none of the file's."""
    file = converted.model.file
    for name in (*graph.inputs, *graph.observable()):
        entry: dict[str, Any] | None = converted.tensors.get(name)
        if entry is None:
            raise UnsupportedError(f"{file}: {name} is no tensor of the file")
        if tuple(entry["dims"]) != graph.spec(name).shape:
            made = converted.model.made_by.get(entry["tfl"])
            raise BadFileError(
                f"{file}: tensor {entry['tfl']} ({name}) has the dims {entry['shape']}, and {made} makes another shape"
            )


def in_litert_arithmetic(graph: Graph, converted: Converted) -> Graph:
    """Returns the graph with LiteRT's own multipliers: those that it computes from a product in float32, and those of
    ops that round once."""
    constants = dict(graph.constants)
    tensors = dict(graph.tensors)
    for node in graph.nodes:
        real, rq = converted.multipliers.get(node.outputs[0]), node.inputs[-1] or ""
        if real is not None:
            constants[rq] = parameters(ROUNDING, real)
        if node.op == "lookup" and _maker(converted, node.outputs[0]) == "QUANTIZE":
            table = node.inputs[1] or ""
            constants[table] = _requantized(graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0]))
        if node.op in SINGLE:
            multiplier, exponent = constants[rq]
            constants[rq] = np.stack([multiplier, 31 - exponent, np.full_like(multiplier, OWN_ID)])
            tensors[rq] = replace(tensors[rq], shape=constants[rq].shape, aligned_shape=())
    return replace(graph, constants=constants, tensors=tensors)


def _maker(converted: Converted, name: str) -> str:
    """Returns the kind of the operator that makes a tensor, "" for none."""
    entry = converted.tensors.get(name)
    maker = converted.model.made_by.get(entry["tfl"]) if entry is not None else None
    return "" if maker is None else maker.kind


def _requantized(x: TensorSpec, y: TensorSpec) -> Any:
    """Returns LiteRT's change of quantization of every value of x, from the lowest one on."""
    low, limits = int(np.iinfo(x.dtype).min), np.iinfo(y.dtype)
    acc = np.arange(low, low + 256, dtype=np.int64) - x.zero_point[0]
    rq = parameters(ROUNDING, float(x.scale[0]) / float(y.scale[0]))
    return requantize(acc, rq, y.zero_point[0], int(limits.min), int(limits.max), y.dtype, ROUNDING, False, 0)
