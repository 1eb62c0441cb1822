"""Opens a .tflite that is given without an ONNX: converts it and compiles it in LiteRT's arithmetic (NUMERICS.md
section 1)."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from qverify.arithmetic.forms import FormsOfOps
from qverify.compare.identify.arithmetic_file import forms_of_ops
from qverify.compiler.compile_model import CompiledModel, CompilerOptions, compile_model
from qverify.compiler.forms_of_nodes import REQUANTIZED, find_without_form
from qverify.compiler.stated_quantization import Quantization, Stated
from qverify.errors import BadFileError, UnsupportedError
from qverify.model_bin.graph import Graph
from qverify.session.stated_arithmetics import open_arithmetic
from qverify.tflite_model.convert import ConvertedModel, convert
from qverify.tflite_model.read_tflite import read_tflite

REFERENCE_KERNELS = "litert-reference"  # the shipped arithmetic of LiteRT's reference kernels
ROUNDING = "gemmlowp"  # of a model.bin from a .tflite alone: that of LiteRT's convolutions


@dataclass(frozen=True, slots=True)
class TfliteAlone:
    """A .tflite that was converted to ONNX. data: the bytes of the .tflite."""

    data: bytes
    converted: ConvertedModel


def open_tflite(path: str, data: bytes, arithmetic: FormsOfOps | None = None) -> tuple[CompiledModel, TfliteAlone]:
    """Returns the compiled model, whose check against the converted ONNX passed, and the converted file, which the
    reference needs. arithmetic: that of a board; None for that of LiteRT's reference kernels. Raises BadFileError for a
    damaged file, UnsupportedError for operators that cannot be converted or whose kernel is not computed,
    MissingExtraError if LiteRT is not installed."""
    name = os.path.basename(path)
    converted = convert(read_tflite(data, name))
    stated = arithmetic or forms_of_ops(open_arithmetic(REFERENCE_KERNELS))
    options = CompilerOptions(arithmetic=stated, quantization=_quantization(converted), floats=True)
    try:
        compiled = compile_model(converted.onnx, name, options)
    except (BadFileError, UnsupportedError) as error:
        if name in str(error):
            raise
        kind = BadFileError if isinstance(error, BadFileError) else UnsupportedError
        raise kind(f"{name}: {error}") from error
    _check_shapes(converted, compiled.graph)
    if arithmetic is None:
        compiled.graph = _as_reference(compiled.graph, name)
    return compiled, TfliteAlone(data, converted)


def _as_reference(graph: Graph, file: str) -> Graph:
    """Returns the graph as one that rounds as its own reference does, and not as a board is stated to. Raises
    UnsupportedError for a node of sums, or a resize, that LiteRT's reference kernels compute in another way."""
    for node in graph.nodes:
        why = find_without_form(graph).get(node.name)
        if why is not None and node.op in (*REQUANTIZED, "resize_linear"):
            raise UnsupportedError(
                f"{file}: {node.name} ({node.op}): {why}. Change the operator (a resize: to another size, in two steps, or with align_corners)"
            )
    options = {k: v for k, v in graph.meta["options"].items() if k != "arithmetic"}
    meta = {k: v for k, v in graph.meta.items() if k != "without_form"} | {"options": {**options, "rounding": ROUNDING}}
    return replace(graph, rounding=ROUNDING, meta=meta)


def compile_plainly(alone: TfliteAlone) -> Graph:
    """Returns the graph of a converted file whose nodes all compute as ref-exact does, so that this form means the same
    for every model."""
    options = CompilerOptions(check=False, quantization=_quantization(alone.converted), floats=True)
    return compile_model(alone.converted.onnx, alone.converted.model.file, options).graph


def _quantization(converted: ConvertedModel) -> Stated:
    """Returns scale and zero point of each tensor that has one scale in the file."""
    tensors = converted.model.tensors
    found = {name: tensors[entry["tfl"]] for name, entry in converted.tensors.items() if "dtypes" not in entry}
    return {
        name: Quantization((float(t.scale[0]),), (int(t.zero[0]),)) for name, t in found.items() if t.scale.size == 1
    }


def _check_shapes(converted: ConvertedModel, graph: Graph) -> None:
    """Raises BadFileError if the file states other dims for a tensor than its operators compute, UnsupportedError for a
    tensor of the graph that the file does not have."""
    file = converted.model.file
    for name in (*graph.inputs, *graph.observable()):
        entry: dict[str, Any] | None = converted.tensors.get(name)
        if entry is None:
            raise UnsupportedError(f"{file}: {name} is no tensor of the file")
        if tuple(entry["dims"]) != graph.spec(name).shape:
            operator = converted.model.made_by.get(entry["tfl"])
            raise BadFileError(
                f"{file}: tensor {entry['tfl']} ({name}) has the dims {entry['shape']}, and {operator} makes another shape"
            )
