"""Writes probes of single operators as a QDQ ONNX: each with inputs and an output of its own, beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from qverify.tensors.one_op import OneOp, Operand

OPSET = 17


def write_probes(probes: Sequence[OneOp]) -> bytes:
    """Returns the ONNX, with inputs and outputs of real values between QuantizeLinear and DequantizeLinear."""
    writer = _Writer()
    for probe in probes:
        writer.add(probe)
    return writer.model().SerializeToString(deterministic=True)


class _Writer:
    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def add(self, probe: OneOp) -> None:
        """Adds a probe."""
        sources = []
        for name, operand in zip(probe.feeds(), probe.inputs, strict=True):
            shape = operand.codes.shape
            self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
            sources.append(self._quantized(name, operand.scale, operand.zero, str(operand.codes.dtype)))
        if probe.weight is not None:
            sources.append(self._stored(f"{probe.key}_w", probe.weight))
        if probe.bias is not None:
            assert probe.weight is not None
            bias_scale = np.asarray(probe.inputs[0].scale * probe.weight.scale, np.float32)
            sources.append(self._stored(f"{probe.key}_bias", Operand(probe.bias, bias_scale)))
        if probe.sizes:
            sources += ["", "", self._constant(f"{probe.key}_sizes", np.array(probe.sizes, np.int64))]
        if probe.kind == "ReduceMean":
            attributes: dict[str, Any] = {"axes": list(probe.axes), **probe.attributes}
        else:
            attributes = dict(probe.attributes)
        made = sources[0]
        if probe.kind:
            made = self._node(probe.kind, sources, f"{probe.key}_real", **attributes)
        name, scale = probe.output, np.asarray(probe.scale, np.float32)
        parameters = self._parameters(name, scale, probe.zero, probe.dtype)
        self._node("QuantizeLinear", [made, *parameters], name)
        self._node("DequantizeLinear", [name, *parameters], f"{name}_real")
        self._outputs.append(helper.make_empty_tensor_value_info(f"{name}_real"))

    def model(self) -> Any:
        """Returns the ONNX."""
        graph = helper.make_graph(self._nodes, "probes", self._inputs, self._outputs, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="qverify")
        model.ir_version = 8
        done = onnx.shape_inference.infer_shapes(model)
        known = {v.name: v for v in (*done.graph.value_info, *done.graph.output)}
        del model.graph.output[:]
        model.graph.output.extend(known[v.name] for v in self._outputs)
        return model

    def _node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(kind, list(inputs), [output], name=f"{output}_node", **attributes))
        return output

    def _constant(self, name: str, value: Any) -> str:
        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _parameters(self, name: str, scale: Any, zero: int, dtype: str) -> tuple[str, str]:
        zeros = np.full(np.shape(scale), zero, dtype)
        return self._constant(f"{name}_scale", scale), self._constant(f"{name}_zero", zeros)

    def _quantized(self, name: str, scale: Any, zero: int, dtype: str) -> str:
        parameters = self._parameters(f"{name}_q", np.asarray(scale).reshape(()), zero, dtype)
        stored = self._node("QuantizeLinear", [name, *parameters], f"{name}_q")
        return self._node("DequantizeLinear", [stored, *parameters], f"{name}_dq")

    def _stored(self, name: str, value: Operand) -> str:
        scale = value.scale if value.scale.size > 1 else value.scale.reshape(())
        parameters = self._parameters(name, scale, value.zero, str(value.codes.dtype))
        more = {"axis": value.axis} if value.scale.size > 1 else {}
        stored = self._constant(f"{name}_q", np.ascontiguousarray(value.codes))
        return self._node("DequantizeLinear", [stored, *parameters], f"{name}_dq", **more)
