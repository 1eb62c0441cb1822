"""Lowers nodes that belong to no unit: DequantizeLinear, QuantizeLinear, and operators on tensors that are not
quantized."""

from __future__ import annotations

from typing import Any

from qverify.compiler.builder import Builder
from qverify.compiler.next_step import next_step
from qverify.compiler.supported_types import check_float32
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView
from qverify.tensors.spec import TensorSpec


class FloatStream:
    """The interface through which a page's lower_float writes nodes.

    interior: names of tensors that no comparison expects. covered: names of nodes already written as part of an earlier
    node."""

    def __init__(self, builder: Builder, view: GraphView, interior: set[str]):
        self.builder, self.view, self.interior = builder, view, interior
        self.covered: set[str] = set()
        self._constants: dict[str, str] = {}  # dequantized constant to its name in model.bin

    def source(self, name: str) -> str:
        """Returns the name of the model.bin tensor for an ONNX tensor. Dequantized constants become float constants."""
        view = self.view
        constant = view.float_constant(name)
        if constant is not None:
            if name in view.constants:
                return self.builder.constant(name, constant)
            if name not in self._constants:
                self._constants[name] = self.builder.new_constant(f"{name}/constant", constant)
            return self._constants[name]
        if name not in self.builder.tensors:
            self.builder.tensor(TensorSpec(name, view.dtype(name), view.shape(name), interior=name in self.interior))
        return name

    def declare(self, node: Any, like: str = "") -> list[str]:
        """Declares the node's outputs and returns their names. like: the tensor whose scale the outputs of a movement
        keep."""
        source = self.builder.tensors.get(like)
        quantization: dict[str, Any] = (
            {"scale": source.scale, "zero_point": source.zero_point}
            if source is not None and len(source.scale) == 1
            else {}
        )
        for name in node.output:
            if name:
                self.builder.tensor(
                    TensorSpec(
                        name,
                        self.view.dtype(name),
                        self.view.shape(name),
                        interior=name in self.interior,
                        **quantization,
                    )
                )
        return [n for n in node.output if n]

    def scalar(self, node: Any, at: int, description: str) -> float:
        """Returns the value of a constant input with one element. Raises UnsupportedError, which contains the
        description, for any other input."""
        value = self.view.float_constant(node.input[at])
        if value is None or value.size != 1:
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): {description} is not one constant number; make it a constant"
            )
        return float(value.reshape(-1)[0])

    def check_float32(self, node: Any) -> None:
        """Raises UnsupportedError for a node whose first output is not float32."""
        check_float32(self.view, node, node.output[0])

    def no_kernel(self, node: Any) -> UnsupportedError:
        """Returns the error for a node that no page lowers."""
        return UnsupportedError(
            f"{node.name} ({node.op_type}): no integer form and no float kernel for it. {next_step(self.view, node)}"
        )
