"""Writes onnxruntime's convolutions and pools of integers with the channels last (its optimizer writes them into the files
that it saves) as those with the channels first, between Transposes."""

from __future__ import annotations

from typing import Any

import onnx

from qverify.onnx_model.decompositions.volume_pools import average_pool
from qverify.onnx_model.rewriter import MICROSOFT, Rewriter, attribute

STANDARD = {"QLinearConv": "QLinearConv", "NhwcMaxPool": "MaxPool"}  # ONNX's own types with the channels first

MAX_POOL_OF_INTEGERS = 12  # the opset from which on MaxPool takes 8 bits


def write_channels_first(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Writes the node between two Transposes, unless its channels come first."""
    if node.op_type != "NhwcMaxPool" and not attribute(node, "channels_last", 0):
        return average_pool(r, node) if node.op_type == "QLinearAveragePool" else False
    rank = len(r.dims(node.input[0]))
    if rank < 3:
        raise r.refusal(f"an input of rank {rank} is not supported; wanted rank 3 or more")
    if node.op_type == "NhwcMaxPool" and r.opset < MAX_POOL_OF_INTEGERS:
        raise r.refusal(f"it needs opset {MAX_POOL_OF_INTEGERS} here, got {r.opset}; convert the model to that opset")
    first = r.step("Transpose", [node.input[0]], "channels_first", perm=[0, rank - 1, *range(1, rank - 1)])
    kind = STANDARD.get(node.op_type, node.op_type)
    attributes: dict[str, Any] = {
        a.name: onnx.helper.get_attribute_value(a) for a in node.attribute if a.name != "channels_last"
    }
    result = r.step(
        kind, [first, *node.input[1:]], "result", "" if kind == STANDARD.get(node.op_type) else MICROSOFT, **attributes
    )
    r.node("Transpose", [result], node.output[0], perm=[0, *range(2, rank), 1])
    return None


KINDS = ("QLinearConv", "NhwcMaxPool", "QLinearAveragePool", "QLinearGlobalAveragePool")
REPLACED = {(MICROSOFT, kind): write_channels_first for kind in KINDS}
