"""Which nodes rknn-toolkit2 computes as one operation, so that what lies between them is not quantized."""

from __future__ import annotations

from collections.abc import Collection

from onnx import ModelProto, NodeProto

LINEAR = ("Conv", "ConvTranspose", "Gemm", "MatMul")
ACTIVATIONS = ("Relu", "Clip", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Elu", "PRelu", "Softplus")
AFTER_ADDITION = ("Relu", "Clip")


def inside(model: ModelProto, stated: Collection[str]) -> set[str]:
    """Returns the tensors that are not quantized although the text states a step. stated: the tensors with a step."""
    fusions = _Fusions(model, stated)
    return {node.output[0] for node in model.graph.node if fusions.is_inside(node)}


class _Fusions:
    """The nodes of a model by what they make and read."""

    def __init__(self, model: ModelProto, steps: Collection[str]):
        self.steps = steps
        self.finals = {o.name for o in model.graph.output}
        self.makers = {name: node for node in model.graph.node for name in node.output}
        self.readers: dict[str, list[NodeProto]] = {}
        for node in model.graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def _only_reader(self, name: str) -> NodeProto | None:
        readers = self.readers.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self.finals else None

    def is_inside(self, node: NodeProto) -> bool:
        """Returns whether what the node gives is not quantized, as one operation computes the next node, too."""
        name = node.output[0]
        after = self._only_reader(name)
        while after is not None and after.op_type in (
            "Reshape",
            "Flatten",
        ):  # the toolkit exchanges it with the activation
            after = self._only_reader(after.output[0])
            if after is None or after.op_type not in ACTIVATIONS:
                return False
        fused = AFTER_ADDITION if node.op_type == "Add" else ACTIVATIONS if node.op_type in LINEAR else ()
        if (after is not None and after.op_type in fused) or self._is_in_swish(node):
            return True
        if node.op_type not in LINEAR or after is None or after.op_type != "Add":
            return False
        return self._joined(after) == name

    def _is_in_swish(self, node: NodeProto) -> bool:
        """Returns whether the node is a convolution or the Sigmoid within x * Sigmoid(x), which is one operation."""
        name, readers = node.output[0], self.readers.get(node.output[0], [])
        if node.op_type == "Sigmoid":
            after = self._only_reader(name)
            return after is not None and after.op_type == "Mul" and node.input[0] in after.input
        if node.op_type not in LINEAR or len(readers) != 2:
            return False
        gate = next((n.output[0] for n in readers if n.op_type == "Sigmoid" and self._is_in_swish(n)), None)
        return gate is not None and any(gate in n.input for n in readers)

    def _joined(self, node: NodeProto) -> str:
        """Returns the operand of an addition whose convolution computes the addition, too: the one that is made first; or
        "" without any."""
        if any(n not in self.steps for n in node.input):
            return ""
        made = [n for n in self.makers if n in node.input and self.makers[n].op_type == "Conv"]
        return next((n for n in made if self._only_reader(n) is node), "")
