"""The tensors of a .tflite that those of a graph are, by a map: with their axes, and with the nodes at the graph's ends that the
file does not have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from qverify.errors import BadFileError, QVerifyError, UsageError
from qverify.model_bin.graph import Graph, Node
from qverify.sides.litert_map import check_map
from qverify.tflite_model.read_tflite import CutOffError, TfliteModel, read_tflite

TensorMap = Mapping[str, Mapping[str, Any]]


def tensors_by_name(model: bytes, tensors: TensorMap, graph: Graph) -> dict[str, dict[str, Any]]:
    """Returns where each tensor of the graph lies in the .tflite: {"index", "axes", "shape"}, as the ONNX has it after a
    transposition; "real": True for real values that the file has as integers only, before a quantization at the network's
    start or behind its end. Raises BadFileError or UsageError if the map does not fit the files."""
    inner = covered_graph(tensors, read_operators(model), graph)
    entries = {n: _placed(n, tensors, inner) for n in (*inner.inputs, *inner.observable())}
    for node in input_quantizers(graph, set(tensors)):
        entries[node.inputs[0] or ""] = {**entries[node.outputs[0]], "real": True}
    for node in output_dequantizers(graph, set(tensors)):
        entries[node.outputs[0]] = {**entries[node.inputs[0] or ""], "real": True}
    return entries


def _placed(name: str, tensors: TensorMap, inner: Graph) -> dict[str, Any]:
    entry = entry_of(name, tensors, inner)
    return {key: entry[key] for key in ("index", "axes", "shape")}


def is_own_conversion(tensors: TensorMap) -> bool:
    """Returns True if the map belongs to the conversion of the .tflite itself, and no quantized ONNX was given."""
    return all("dims" in entry for entry in tensors.values())


def covered_graph(tensors: TensorMap, model: TfliteModel | None, graph: Graph) -> Graph:
    """Returns the part of the graph that the .tflite computes. Raises BadFileError or UsageError if the map does not
    fit."""
    mapped = set(tensors)
    inner = _without_nodes(graph, input_quantizers(graph, mapped), output_dequantizers(graph, mapped))
    if missing := next((n for n in inner.observable() if n not in mapped), None):
        raise UsageError(
            f"{missing}: the map names no tensor of the .tflite for it. Next: give a map with all {len(inner.observable())} "
            "tensors (FILE.map.json beside the quantized ONNX)"
        )
    if model is not None and not is_own_conversion(tensors):
        check_map(tensors, model, inner)
    return inner


def read_operators(model: bytes) -> TfliteModel | None:
    """Returns the file's tensors and operators, or None if this host cannot read it; then no operator can be cut out.
    Raises CutOffError if the end of the file is missing."""
    try:
        return read_tflite(model, "the board's .tflite")
    except CutOffError:
        raise
    except QVerifyError:
        return None


def input_quantizers(graph: Graph, mapped: set[str]) -> list[Node]:
    """Returns the nodes that quantize the graph's inputs to the inputs of the .tflite."""
    return [n for n in graph.nodes if n.op == "quantize" and n.inputs[0] in graph.inputs and n.inputs[0] not in mapped]


def output_dequantizers(graph: Graph, mapped: set[str]) -> list[Node]:
    """Returns the nodes that dequantize the .tflite's outputs."""
    finals = set(graph.outputs)
    return [n for n in graph.nodes if n.op == "dequantize" and n.outputs[0] in finals and n.outputs[0] not in mapped]


def _without_nodes(graph: Graph, before: list[Node], after: list[Node]) -> Graph:
    """Returns the graph without these nodes: the part that the .tflite computes."""
    removed = {id(n) for n in (*before, *after)}
    quantized = {n.inputs[0]: n.outputs[0] for n in before}
    dequantized = {n.outputs[0]: n.inputs[0] or "" for n in after}
    return replace(
        graph,
        nodes=[n for n in graph.nodes if id(n) not in removed],
        inputs=tuple(quantized.get(n, n) for n in graph.inputs),
        outputs=tuple(dict.fromkeys(dequantized.get(n, n) for n in graph.outputs)),
    )


def entry_of(name: str, tensors: TensorMap, inner: Graph) -> dict[str, Any]:
    """Returns the tensor's entry in tensors.json. In tensors of four axes the channels are last in a .tflite, and
    second in an ONNX."""
    if name not in tensors:
        raise UsageError(f"{name}: the map names no tensor of the .tflite for this input")
    dims, shape = tensors[name]["shape"], inner.spec(name).shape
    axes = tuple(tensors[name].get("axes", (0, 3, 1, 2) if len(dims) == 4 else range(len(dims))))
    if (
        "axes" not in tensors[name]
        and len(dims) == 4
        and tuple(dims[a] for a in axes) != shape
        and tuple(dims) == shape
    ):
        axes = (0, 1, 2, 3)
    if np.prod(dims, dtype=np.int64) != np.prod(shape, dtype=np.int64):
        raise BadFileError(f"{name}: the map says {dims} in the .tflite, and the ONNX has {list(shape)}")
    shown = {"dtype": tensors[name]["dtypes"][1]} if "dtypes" in tensors[name] else {}
    return {"index": tensors[name]["tfl"], "name": name, "axes": list(axes), "shape": list(shape), **shown}
