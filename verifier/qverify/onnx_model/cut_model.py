"""Extracts the part of an ONNX model between chosen tensors as a model of its own, with declared types."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import onnx

from qverify.onnx_model.node_order import computing_nodes
from qverify.tensors.spec import TensorSpec


class Cutter:
    """Extracts parts of one model; the cost of a cut depends on the size of the part, not of the model.

    specs: type and shape of the model's tensors, by name."""

    def __init__(self, model: onnx.ModelProto, specs: Mapping[str, TensorSpec]):
        self._model, self._specs, self._nodes = model, specs, list(model.graph.node)
        self._makers = {o: at for at, node in enumerate(self._nodes) for o in node.output}
        self._constants = {i.name: i for i in model.graph.initializer}

    def cut(self, inputs: Collection[str], outputs: Collection[str]) -> onnx.ModelProto:
        """Returns a valid model of the nodes that compute `outputs` from `inputs`, in running order, without inputs
        that none of them reads."""
        nodes, used = computing_nodes(self._nodes, self._makers, inputs, outputs)
        ends = {*inputs, *outputs}
        inside = [o for n in nodes for o in n.output if o not in ends]
        graph = onnx.helper.make_graph(
            nodes,
            "cut",
            [self._info(n) for n in inputs if n in used],
            [self._info(n) for n in outputs],
            [self._constants[n] for n in sorted(used) if n in self._constants],
            value_info=[
                self._info(n) for n in inside if n in self._specs
            ],  # needed for operators whose shapes ONNX cannot infer
        )
        part = onnx.helper.make_model(
            graph, opset_imports=list(self._model.opset_import), functions=self._model.functions
        )
        part.ir_version = self._model.ir_version
        return part

    def _info(self, name: str) -> onnx.ValueInfoProto:
        spec = self._specs[name]
        element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype))
        return onnx.helper.make_tensor_value_info(name, element, spec.shape)


def cut(
    model: onnx.ModelProto, specs: Mapping[str, TensorSpec], inputs: Collection[str], outputs: Collection[str]
) -> onnx.ModelProto:
    """Returns a single cut; see Cutter.cut."""
    return Cutter(model, specs).cut(inputs, outputs)
