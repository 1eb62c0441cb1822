"""The names of tensors that a quantized ONNX has and its integer form has not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from qverify.onnx_model.load import parse
from qverify.onnx_model.mapped_model import MappedModel

QUANTIZED, DEQUANTIZED = "_QuantizeLinear_Output", "_DequantizeLinear_Output"  # endings of onnxruntime's quantizer


@dataclass(frozen=True, slots=True)
class OnnxNames:
    """Names of tensors that dumps may use, of tensors that the compiled graph does not have.

    Attributes:
        dequantized: the quantized tensors by the names of their real values.
        inner: the other tensors of the ONNX. The integer form computes them inside a node or not at all.
        quantized: the quantized tensors by the names of the real values that they are made of.
        made: tensors of the integer form that the compiler made, which the ONNX does not have.
    """

    dequantized: Mapping[str, str] = field(default_factory=dict)
    inner: frozenset[str] = frozenset()
    made: frozenset[str] = frozenset()
    quantized: Mapping[str, str] = field(default_factory=dict)


def dequantized_names(model: bytes | MappedModel) -> dict[str, str]:
    """Returns, by output of each DequantizeLinear, the quantized tensor that it reads; constants are left out. For
    X_QuantizeLinear_Output, as onnxruntime's quantizer names it, X_DequantizeLinear_Output is such a name, also where
    the DequantizeLinear computes an output of the model and therefore has its name."""
    graph = parse(model, "quant.onnx").graph
    constants, tensors = {i.name for i in graph.initializer}, {o for node in graph.node for o in node.output}
    names = dict[str, str]()
    for node in graph.node:
        if node.op_type == "DequantizeLinear" and (stored := node.input[0]) not in constants:
            names[node.output[0]] = stored
            usual = stored.removesuffix(QUANTIZED) + DEQUANTIZED if stored.endswith(QUANTIZED) else ""
            if usual and usual not in tensors:
                names[usual] = stored
    return names


def quantized_names(model: bytes | MappedModel) -> dict[str, str]:
    """Returns, by input of each QuantizeLinear that is the only one to read it, the quantized tensor that it computes."""
    nodes = [n for n in parse(model, "quant.onnx").graph.node if n.op_type == "QuantizeLinear"]
    times = Counter(node.input[0] for node in nodes)
    return {node.input[0]: node.output[0] for node in nodes if times[node.input[0]] == 1}


def computed_names(model: bytes | MappedModel) -> set[str]:
    """Returns the names of all tensors that the nodes of an ONNX compute."""
    return {name for node in parse(model, "quant.onnx").graph.node for name in node.output if name}
