"""Inserting QuantizeLinear and DequantizeLinear into a float graph by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .builder import Array
from .subject import NotApplicable, affine, quantize, symmetric_scale

Range = tuple[float, float]
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
NUMPY_TYPES: dict[int, Any] = {
    TensorProto.INT8: np.int8, TensorProto.UINT8: np.uint8, TensorProto.INT32: np.int32, TensorProto.FLOAT: np.float32,
}  # fmt: skip


class Rewriter:
    """The nodes of a model as a list to which pairs are added; `finish` sorts them and writes the model."""

    def __init__(self, model: onnx.ModelProto, ranges: dict[str, Range]) -> None:
        self.model = model
        self.ranges = ranges
        self.nodes = list(model.graph.node)
        self.original = list(self.nodes)
        self.weights = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
        for node in self.nodes:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.weights[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        self.outputs = {value.name for value in model.graph.output}
        self.pairs: dict[Any, str] = {}
        self.count = 0

    def consumers(self, name: str) -> list[onnx.NodeProto]:
        return [node for node in self.original if name in node.input]

    def constant(self, value: Any, dtype: Any, stem: str) -> str:
        self.count += 1
        name = f"{stem}_{self.count}"
        self.weights[name] = np.asarray(value, dtype)
        return name

    def node(self, op_type: str, inputs: list[str], stem: str, **attributes: Any) -> str:
        self.count += 1
        name = f"{stem}_{op_type}_{self.count}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def is_activation(self, name: str) -> bool:
        """A float tensor that the calibration has seen and that is no constant."""
        return name in self.ranges and name not in self.weights

    def pair(self, name: str, scale: float, zero_point: int, dtype: int, shared: bool = True) -> str:
        """QuantizeLinear and DequantizeLinear after a tensor, once for all consumers when `shared`."""
        key = (name, scale, zero_point, dtype)
        if not shared or key not in self.pairs:
            parameters = [
                self.constant(scale, np.float32, f"{name}_scale"),
                self.constant(zero_point, NUMPY_TYPES[dtype], f"{name}_zero_point"),
            ]
            stored = self.node("QuantizeLinear", [name, *parameters], name)
            self.pairs[key] = self.node("DequantizeLinear", [stored, *parameters], name)
        return self.pairs[key]

    def symmetric_pair(self, name: str, shared: bool = True) -> str:
        return self.pair(name, symmetric_scale(self.ranges[name], 127), 0, TensorProto.INT8, shared)

    def unsigned_pair(self, name: str) -> str:
        return self.pair(name, *affine(self.ranges[name], 0, 255), TensorProto.UINT8)

    def signed_pair(self, name: str) -> str:
        return self.pair(name, *affine(self.ranges[name], -128, 127), TensorProto.INT8)

    def channel_axis(self, node: onnx.NodeProto) -> int | None:
        """The axis of output channels of the weight, or None when one scale must do."""
        weight = self.weights[node.input[1]]
        if node.op_type == "Gemm":
            return 0 if any(a.name == "transB" and a.i for a in node.attribute) else 1
        if node.op_type == "MatMul":
            return weight.ndim - 1 if weight.ndim == 2 else None
        return 1 if node.op_type == "ConvTranspose" else 0

    def weight_scale(self, node: onnx.NodeProto, limit: int, per_channel: bool = True) -> tuple[Array, int | None]:
        weight = self.weights[node.input[1]]
        axis = self.channel_axis(node) if per_channel else None
        others = None if axis is None else tuple(i for i in range(weight.ndim) if i != axis)
        return (np.maximum(np.abs(weight).max(axis=others), 1e-6) / limit).astype(np.float32), axis

    def weighted(self) -> list[onnx.NodeProto]:
        """Convolutions and products with an activation in front and a constant or an activation behind."""
        found = [
            node
            for node in self.original
            if node.op_type in WEIGHTED
            and self.is_activation(node.input[0])
            and (node.input[1] in self.weights or self.is_activation(node.input[1]))
        ]
        if not found:
            raise NotApplicable("no convolution and no product to quantize")
        return found

    def stored_weight(self, node: onnx.NodeProto, limit: int = 127, per_channel: bool = True, **options: Any) -> Array:
        """Replaces the weight by int8 and DequantizeLinear; returns its scale. `clip` adds a Clip between."""
        name = node.input[1]
        scale, axis = self.weight_scale(node, limit, per_channel)
        integers = self.constant(quantize(self.weights[name], scale, axis, limit), np.int8, f"{name}_int8")
        if options.get("clip"):
            bounds = [self.constant(value, np.int8, f"{name}_bound") for value in (-limit, limit)]
            integers = self.node("Clip", [integers, *bounds], name)
        zero = self.constant(np.zeros_like(scale), np.int8, f"{name}_zero_point")
        attributes = {} if axis is None else {"axis": axis}
        parameters = [self.constant(scale, np.float32, f"{name}_scale"), zero]
        node.input[1] = self.node("DequantizeLinear", [integers, *parameters], name, **attributes)
        return scale

    def stored_bias(self, node: onnx.NodeProto, input_scale: float, weight_scale: Array) -> None:
        """Replaces the bias by int32 with the scale of input times weight, behind DequantizeLinear."""
        if len(node.input) < 3 or node.input[2] not in self.weights or self.weights[node.input[2]].ndim != 1:
            return
        bias = self.weights[node.input[2]]
        scale = np.float32(input_scale) * np.asarray(weight_scale, np.float32)
        if scale.ndim and scale.shape != bias.shape:
            return
        limit = 2.0**31 - 129
        integers = np.clip(np.rint(bias.astype(np.float64) / scale), -limit, limit)
        inputs = [
            self.constant(integers, np.int32, "bias_int32"),
            self.constant(scale, np.float32, "bias_scale"),
            self.constant(np.zeros_like(scale), np.int32, "bias_zero_point"),
        ]
        node.input[2] = self.node("DequantizeLinear", inputs, "bias", **({"axis": 0} if scale.ndim else {}))

    def pair_outputs(self, pair: Callable[[str], str]) -> None:
        """Quantizes the float outputs of the graph too; their names stay on the dequantized tensors."""
        for name in sorted(self.outputs):
            if self.is_activation(name):
                self.rename(name, f"{name}_float")
                self.ranges[f"{name}_float"] = self.ranges[name]
                result = pair(f"{name}_float")
                self.nodes.append(helper.make_node("Identity", [result], [name], name=f"{name}_out"))

    def rename(self, old: str, new: str) -> None:
        """A new name for a tensor, for its producer and all consumers."""
        for node in self.nodes:
            node.input[:] = [new if name == old else name for name in node.input]
            node.output[:] = [new if name == old else name for name in node.output]

    def finish(self, producer: str, version: str, constants_as_nodes: bool = False) -> onnx.ModelProto:
        """The model with its nodes sorted, constants in use written as initializers or Constant nodes."""
        used = {name for node in self.nodes for name in node.input}
        made = {name for node in self.nodes for name in node.output} | {i.name for i in self.model.graph.input}
        constants = {name: value for name, value in self.weights.items() if name in used and name not in made}
        graph = self.model.graph
        del graph.initializer[:], graph.node[:], graph.value_info[:]
        if constants_as_nodes:
            tensors = [(name, numpy_helper.from_array(value, name)) for name, value in constants.items()]
            graph.node.extend(
                helper.make_node("Constant", [], [name], name=f"{name}/Constant", value=tensor)
                for name, tensor in tensors
            )
        else:
            graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
        graph.node.extend(sort(self.nodes, set(constants) | {i.name for i in graph.input}))
        self.model.producer_name, self.model.producer_version = producer, version
        return self.model


def sort(nodes: list[onnx.NodeProto], known: set[str]) -> list[onnx.NodeProto]:
    """The nodes in topological order, otherwise as they were."""
    ordered: list[onnx.NodeProto] = []
    known, waiting = set(known) | {""}, nodes
    while waiting:
        later = []
        for node in waiting:
            if all(name in known for name in node.input):
                ordered.append(node)
                known.update(node.output)
            else:
                later.append(node)
        if len(later) == len(waiting):
            raise ValueError(f"tensors without a producer: {sorted(set(later[0].input) - known)}")
        waiting = later
    return ordered
