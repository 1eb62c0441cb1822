"""Suggests what a user can do about a node that cannot be compiled."""

from __future__ import annotations

from typing import Any

from qverify.onnx_model.graph_view import GraphView

ENDS = ("QuantizeLinear", "DequantizeLinear")


def next_step(view: GraphView, node: Any) -> str:
    """Returns a sentence that suggests to replace the operator or, if an operator comes before the node, to cut the
    model there."""
    return "Replace the operator" + (", or cut the model before it" if _comes_after_another(view, node) else "")


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
