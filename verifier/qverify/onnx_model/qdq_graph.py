"""Builds a QDQ graph around the nodes of a float ONNX. Of each quantized tensor X, the integers are
X_QuantizeLinear_Output; their real values have the name X, except those of an input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, helper, numpy_helper

from qverify.onnx_model.dequantized_names import DEQUANTIZED, QUANTIZED
from qverify.onnx_model.held_data import value_of

Array = npt.NDArray[Any]
COMPUTED = "_QuantizeLinear_Input"  # the ending of real values before they are quantized


@dataclass(frozen=True, slots=True)
class Step:
    """Scale and zero point of a tensor of 8 bits."""

    scale: float
    zero: int
    dtype: str = "int8"


def attributes(node: NodeProto) -> dict[str, Any]:
    """Returns the attributes of a node, by name."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def constants(model: onnx.ModelProto) -> dict[str, Array]:
    """Returns the initializers and the values of Constant nodes, by name."""
    found = {i.name: value_of(i) for i in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and "value" in (values := attributes(node)):
            found[node.output[0]] = value_of(values["value"])
    return found


def quantize_weights(weights: Array, step: Array, zero: Array, axis: int) -> Array:
    """Returns weights as int8, with a step and a zero point for each channel of an axis."""
    shape = [-1 if k == axis else 1 for k in range(weights.ndim)]
    codes = np.rint(weights.astype(np.float64) / step.reshape(shape)) + zero.reshape(shape)
    return np.clip(codes, -128, 127).astype(np.int8)


@dataclass(slots=True)
class QdqGraph:
    """The nodes and constants written so far."""

    nodes: list[NodeProto] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)

    def add(self, op: str, inputs: list[str], output: str, **kwargs: Any) -> str:
        """Adds a node and returns its output."""
        self.nodes.append(helper.make_node(op, inputs, [output], f"{output}_{op}", **kwargs))
        return output

    def constant(self, name: str, value: Array) -> str:
        self.values[name] = value
        return name

    def quantize(self, name: str, computed: str, step: Step) -> str:
        """Adds the integers of tensor `name` and their real values, whose name is returned. computed: the values before."""
        scale = self.constant(f"{name}_scale", np.asarray(step.scale, np.float32))
        zero = self.constant(f"{name}_zero_point", np.asarray(step.zero, step.dtype))
        stored = self.add("QuantizeLinear", [computed, scale, zero], name + QUANTIZED)
        real = name + DEQUANTIZED if computed == name else name
        return self.add("DequantizeLinear", [stored, scale, zero], real)

    def stored(self, name: str, codes: Array, step: Array, zero: Array, axis: int | None) -> str:
        """Adds a constant of integers, whose real values are returned."""
        names = [f"{name}_quantized", f"{name}_scale", f"{name}_zero_point"]
        for key, value in zip(names, (codes, step.astype(np.float32), zero.astype(codes.dtype)), strict=True):
            self.values[key] = value
        return self.add("DequantizeLinear", names, name + DEQUANTIZED, **({} if axis is None else {"axis": axis}))

    def serialized(self, model: onnx.ModelProto, used: Mapping[str, Array]) -> bytes:
        """Returns the model with these nodes. used: constants of the float model, of which those that are read remain."""
        read = {name for node in self.nodes for name in node.input}
        kept = {name: value for name, value in used.items() if name in read} | self.values
        graph = model.graph
        made = helper.make_graph(
            self.nodes,
            graph.name or "quantized",
            [i for i in graph.input if i.name not in used],
            list(graph.output),
            [numpy_helper.from_array(np.asarray(value), name) for name, value in kept.items()],
        )
        new = helper.make_model(made, opset_imports=list(model.opset_import), ir_version=model.ir_version)
        return bytes(new.SerializeToString(deterministic=True))
