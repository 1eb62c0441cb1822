"""Splits DynamicQuantizeMatMul into the two operators that onnxruntime fuses into it."""

from __future__ import annotations

import onnx
from onnx import helper


def split_dynamic_matmul(model: onnx.ModelProto) -> None:
    """Replaces every DynamicQuantizeMatMul (A B b_scale b_zero_point? bias?) by a DynamicQuantizeLinear, shared by all
    nodes that read the same A, and a MatMulIntegerToFloat, in place. The new tensors are called A_quantized, A_scale
    and A_zero_point, with `~` appended while a name is taken."""
    graph, nodes = model.graph, list[onnx.NodeProto]()
    if not any(_is_dynamic(node) for node in graph.node):
        return
    taken = {n for node in graph.node for n in (*node.input, *node.output)}
    taken |= {v.name for v in (*graph.input, *graph.output, *graph.initializer)}
    quantized_parts: dict[str, list[str]] = {}
    for node in graph.node:
        if not _is_dynamic(node):
            nodes.append(node)
            continue
        a, b, scale, zero, bias = [*node.input, "", ""][:5]
        if a not in quantized_parts:
            quantized_parts[a] = [_free(f"{a}_{part}", taken) for part in ("quantized", "scale", "zero_point")]
            nodes.append(
                helper.make_node(
                    "DynamicQuantizeLinear",
                    [a],
                    quantized_parts[a],
                    name=f"{quantized_parts[a][0]}/DynamicQuantizeLinear",
                )
            )
        quantized, scale_a, zero_a = quantized_parts[a]
        inputs = [quantized, b, scale_a, scale, zero_a, zero, bias]
        while not inputs[-1]:
            inputs.pop()
        nodes.append(
            helper.make_node("MatMulIntegerToFloat", inputs, node.output, name=node.name, domain="com.microsoft")
        )
    del graph.node[:]
    graph.node.extend(nodes)


def _is_dynamic(node: onnx.NodeProto) -> bool:
    return node.op_type == "DynamicQuantizeMatMul" and node.domain == "com.microsoft" and len(node.input) >= 3


def _free(name: str, taken: set[str]) -> str:
    """Returns the name with `~` appended until it is not taken, and adds it to `taken`."""
    while name in taken:
        name += "~"
    taken.add(name)
    return name
