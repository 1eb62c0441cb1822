"""What a user can do about a node that cannot be compiled."""

from __future__ import annotations

from typing import Any

from qverify.compiler.lowerings import lowerings
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView

ENDS = ("QuantizeLinear", "DequantizeLinear")


def next_step(view: GraphView, node: Any) -> str:
    """Returns a sentence: what of the node is not quantized yet, else its replacement; a cut only where an operator
    comes before it."""
    lacking = _not_quantized(view, node) if node.op_type in lowerings().match else []
    ways = [f"quantize {' and '.join(lacking)}"] if lacking else []
    ways += ["replace the operator", *(["cut the model before it"] if _comes_after_another(view, node) else [])]
    text = f"{', '.join(ways[:-1])}, or {ways[-1]}" if len(ways) > 1 else ways[0]
    return text[0].upper() + text[1:]


def _not_quantized(view: GraphView, node: Any) -> list[str]:
    named = [f"its input {n!r}" for n in node.input[:2] if n and not _quantized(view, n)]
    if node.op_type in lowerings().match_float:
        return named
    users = view.consumers[node.output[0]]
    behind = [u for u in users if u.op_type in ("Relu", "Clip")]
    users = [*users, *(u for b in behind for u in view.consumers[b.output[0]])]
    return named + ([] if any(u.op_type == "QuantizeLinear" for u in users) else ["its output"])


def _quantized(view: GraphView, name: str) -> bool:
    try:
        return view.dequantized(name) is not None
    except UnsupportedError:
        return False


def _comes_after_another(view: GraphView, node: Any) -> bool:
    """Returns whether something is computed before the node, so that a model could end there."""
    seen, todo = set[str](), list(node.input)
    while todo:
        name = todo.pop()
        maker = view.producer.get(name)
        if maker is None or name in seen:
            continue
        if maker.op_type not in ENDS:
            return True
        seen.add(name)
        todo += maker.input
    return False
