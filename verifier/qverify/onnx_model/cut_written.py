"""Extracts parts of the quantized ONNX exactly as the file has it, before any rewriting."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from qverify.onnx_model.cut_model import Cutter
from qverify.onnx_model.load import parse, remove_initializers_from_inputs
from qverify.onnx_model.node_order import sort_nodes
from qverify.tensors.spec import TensorSpec


class WrittenModel:
    """A quantized ONNX as the user's tools read it.

    specs: type and fixed shape of its tensors, by name."""

    def __init__(self, data: bytes, specs: Mapping[str, TensorSpec]):
        model = parse(data, "quantized ONNX")
        remove_initializers_from_inputs(model)
        sort_nodes(model.graph, "quantized ONNX")
        self.inputs = tuple(i.name for i in model.graph.input)
        self.computed = frozenset(name for node in model.graph.node for name in node.output if name)
        self._cutter = Cutter(model, specs)

    def cut(self, outputs: Collection[str]) -> bytes:
        """Returns a serialized model that computes these tensors from the network's inputs. The bytes are
        deterministic."""
        part = self._cutter.cut(self.inputs, outputs)
        return bytes(part.SerializeToString(deterministic=True))
