"""A float network of random weights, built node by node."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class FloatNetwork:
    """The nodes and constants so far. rng: draws the weights."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def weight(self, name: str, *shape: int) -> str:
        self.constants.append(numpy_helper.from_array(self.rng.normal(0, 0.4, shape).astype(np.float32), name))
        return name

    def node(self, op: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    def conv(self, name: str, x: str, out: int, into: int, size: int, relu: bool = False, **more: object) -> str:
        words = self.weight(f"{name}.w", out, into, size, size), self.weight(f"{name}.b", out)
        made = self.node("Conv", name, x, *words, kernel_shape=[size] * 2, **more)
        return self.node("Relu", f"{name}r", made) if relu else made

    def model(self, shape: tuple[int, ...], outputs: list[str], opset: int) -> onnx.ModelProto:
        """Returns the network with the input x of this shape, and the shapes of its tensors."""
        ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
        given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self.nodes, "every op", given, ends, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)
