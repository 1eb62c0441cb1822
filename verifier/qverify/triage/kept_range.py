"""The range of a float tensor that its network keeps: values beyond it are saturated by the nodes that read the tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from qverify.onnx_model.graph_view import GraphView, attributes

Range = tuple[float, float]
ALL: Range = (-math.inf, math.inf)
MOVES = ("Identity", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "MaxPool", "Dropout")
HARD_SWISH_LOW = -3.0
DEEPEST = 8  # nodes in a row


def find_kept_range(view: GraphView, tensor: str, depth: int = DEEPEST) -> Range:
    """Returns the lowest and highest value of the tensor that all its readers together tell from values beyond: a larger
    one has the effect of the highest. (-inf, inf) for a final output or if any reader keeps all."""
    readers = view.consumers.get(tensor, [])
    if tensor in view.ends or not readers or depth == 0:
        return ALL
    gates = {str(n.output[0]) for n in readers if n.op_type == "HardSigmoid"}
    ranges = [_kept_by(view, node, tensor, gates, depth) for node in readers]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _kept_by(view: GraphView, node: Any, tensor: str, gates: set[str], depth: int) -> Range:
    if node.op_type == "Mul" and len(gates & set(node.input)) == 1 and list(node.input).count(tensor) == 1:
        gate = next(n for n in view.consumers[tensor] if n.output[0] in node.input and n.op_type == "HardSigmoid")
        return _of_hard_sigmoid(gate)[0], math.inf  # x * HardSigmoid(x) is 0 below
    known = _OWN_RANGE.get(node.op_type)
    if known is not None:
        own = known(view, node, tensor)
    elif node.op_type in MOVES and node.input[0] == tensor:
        own = ALL
    else:
        return ALL
    if node.op_type in ("HardSigmoid", "HardSwish"):
        return own
    later = find_kept_range(view, str(node.output[0]), depth - 1)
    low, high = max(own[0], later[0]), min(own[1], later[1])
    return (low, high) if low <= high else own


def _of_hard_sigmoid(node: Any) -> Range:
    given = attributes(node)
    alpha, beta = float(given.get("alpha", 0.2)), float(given.get("beta", 0.5))
    return (-beta / alpha, (1 - beta) / alpha) if alpha > 0 else ALL


def _of_clip(view: GraphView, node: Any, tensor: str) -> Range:
    given, ends = attributes(node), list(ALL)
    for at, name in enumerate(("min", "max")):
        if name in given:
            ends[at] = float(given[name])
        elif len(node.input) > at + 1 and node.input[at + 1]:
            value = view.constants.get(node.input[at + 1])
            if value is not None:
                ends[at] = float(value.reshape(-1)[0])
    return (ends[0], ends[1]) if node.input[0] == tensor and ends[0] <= ends[1] else ALL


def _of_extremum(view: GraphView, node: Any, tensor: str) -> Range:
    """Returns the range that Min or Max with constants keeps: where the constants differ, the widest."""
    if list(node.input).count(tensor) != 1:
        return ALL
    values = [view.constants[name] for name in node.input if name in view.constants]
    if node.op_type == "Max":
        return max((float(v.min()) for v in values if v.size), default=-math.inf), math.inf
    return -math.inf, min((float(v.max()) for v in values if v.size), default=math.inf)


_OWN_RANGE: dict[str, Callable[[GraphView, Any, str], Range]] = {
    "Relu": lambda view, node, tensor: (0.0, math.inf),
    "Clip": _of_clip,
    "Min": _of_extremum,
    "Max": _of_extremum,
    "HardSigmoid": lambda view, node, tensor: _of_hard_sigmoid(node),
    "HardSwish": lambda view, node, tensor: (HARD_SWISH_LOW, math.inf),
}
