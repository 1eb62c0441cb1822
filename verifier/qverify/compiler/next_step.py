"""Suggests what a user can do about a node that cannot be compiled."""

from __future__ import annotations

from typing import Any

from qverify.compiler.lowerings import lowerings
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView

ENDS = ("QuantizeLinear", "DequantizeLinear")


def next_step(view: GraphView, node: Any) -> str:
    """Returns a sentence that suggests to quantize what is not quantized yet, to replace the operator, or, if an
    operator comes before the node, to cut the model there."""
    lacking = _not_quantized(view, node) if node.op_type in lowerings().match else []
    ways = [f"quantize {' and '.join(lacking)}"] if lacking else []
    ways += ["replace the operator", *(["cut the model before it"] if _comes_after_another(view, node) else [])]
    text = f"{', '.join(ways[:-1])}, or {ways[-1]}" if len(ways) > 1 else ways[0]
    return text[0].upper() + text[1:]


def _not_quantized(view: GraphView, node: Any) -> list[str]:
    """Returns descriptions of the node's inputs and output that are not quantized."""
    inputs = [f"its input {n!r}" for n in node.input[:2] if n and not _is_quantized(view, n)]
    if node.op_type in lowerings().match_float:
        return inputs
    users = view.consumers[node.output[0]]
    activations = [u for u in users if u.op_type in ("Relu", "Clip")]
    users = [*users, *(u for a in activations for u in view.consumers[a.output[0]])]
    return inputs + ([] if any(u.op_type == "QuantizeLinear" for u in users) else ["its output"])


def _is_quantized(view: GraphView, name: str) -> bool:
    """Returns whether a supported DequantizeLinear computes the tensor."""
    try:
        return view.dequantized(name) is not None
    except UnsupportedError:
        return False


def _comes_after_another(view: GraphView, node: Any) -> bool:
    """Returns whether an operator other than quantization comes before the node, so that a model cut there is not
    empty."""
    visited, todo = set[str](), list(node.input)
    while todo:
        name = todo.pop()
        maker = view.producer.get(name)
        if maker is None or name in visited:
            continue
        if maker.op_type not in ENDS:
            return True
        visited.add(name)
        todo += maker.input
    return False
