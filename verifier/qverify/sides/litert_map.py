"""Checks a map of tensors against both files, since errors of a wrong map would be blamed on the board."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit, units
from qverify.tensors.spec import TensorSpec
from qverify.tflite_model.interpreter import operators_between
from qverify.tflite_model.read_tflite import TfliteModel, TfliteTensor

SCALE_TOLERANCE = 1e-6  # relative: converters round scales differently
NEXT = "the map is wrong, or of another model. Next: convert the .tflite again, with its map"


def check_map(tensors: Mapping[str, Mapping[str, Any]], model: TfliteModel, graph: Graph) -> None:
    """Raises BadFileError if a tensor of the map has another type, size or quantization in the .tflite than in the
    ONNX, or is computed from other tensors. graph: the part of the network that the .tflite computes."""
    for name in (n for n in dict.fromkeys((*graph.inputs, *graph.observable())) if n in tensors):
        index = int(tensors[name]["tfl"])
        if index >= len(model.tensors):
            raise BadFileError(f"{name} is mapped to tensor {index}, and {model.file} has {len(model.tensors)}; {NEXT}")
        if difference := _difference(graph.spec(name), model.tensors[index]):
            raise BadFileError(f"{name} is mapped to tensor {index} of {model.file}: {difference}; {NEXT}")
    for unit in units(graph):
        if why := _other_makers(unit, tensors, model, graph):
            raise BadFileError(f"{why}; {NEXT}")


def _difference(spec: TensorSpec, tensor: TfliteTensor) -> str:
    """Returns the first difference in words, or "" if dtype, size, scale and zero point are equal."""
    if spec.dtype != tensor.dtype:
        return f"it is {tensor.dtype} there, and {spec.dtype} in the ONNX"
    if spec.elements != int(np.prod(tensor.shape, dtype=np.int64)):
        return f"its dims are {list(tensor.shape)} there, and {list(spec.shape)} in the ONNX"
    if not spec.scale or not tensor.scale.size:
        return ""
    for property_name, expected, actual, tolerance in (
        ("scale", spec.scale, tensor.scale, SCALE_TOLERANCE),
        ("zero point", spec.zero_point, tensor.zero, 0),
    ):
        if len(expected) != len(actual) or not np.allclose(expected, actual, rtol=tolerance, atol=0):
            return f"its {property_name} is {actual[0]:g} there, and {expected[0]:g} in the ONNX"
    return ""


def _other_makers(unit: Unit, tensors: Mapping[str, Mapping[str, Any]], model: TfliteModel, graph: Graph) -> str:
    """Returns why the unit's outputs are not computed from its inputs in the .tflite, or "" if they are. Units with a
    tensor that the map lacks are not checked."""
    if any(n not in tensors for n in (*unit.inputs, *unit.outputs)):
        return ""
    inputs = {int(tensors[n]["tfl"]): n for n in unit.inputs}
    outputs = [int(tensors[n]["tfl"]) for n in unit.outputs]
    operators = operators_between(model, inputs, outputs)
    read = {i for o in operators for i in o.inputs if i >= 0 and model.tensors[i].data is None}
    computed = {i for o in operators for i in o.outputs}
    where = f"{unit.outputs[0]} is mapped to tensor {outputs[0]} of {model.file}, which is not made from"
    if unread := [n for i, n in inputs.items() if i not in read]:
        return f"{where} that of {unread[0]} (tensor {tensors[unread[0]]['tfl']}), as in the ONNX"
    return f"{where} the ONNX's inputs of {unit.name} alone" if read - computed - set(inputs) else ""
