"""Writes the nodes of onnxruntime's layout in blocks of channels (com.microsoft.nchwc), which a file that it saved with all
optimizations holds, as nodes of ONNX.

The blocks are of 8 or 16 channels, by the processor that saved the file, which states them nowhere. Nodes without weights
compute the same elements in either layout, so that the change of the layout before and after them is left out. Those with
weights stay: their weights are stored in blocks, too."""

from __future__ import annotations

import onnx
from onnx import helper

DOMAIN = "com.microsoft.nchwc"
SAME = ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")
FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)  # the dims of an image with the channels first, and last, from the other
UNUSED_IF_0 = ("ceil_mode", "count_include_pad", "storage_order")  # attributes that older operator sets lack


def write_plain_layout(model: onnx.ModelProto) -> None:
    """Replaces the nodes in place where every node of the layout can be replaced."""
    nodes = [node for node in model.graph.node if node.domain == DOMAIN]
    if not nodes or not all(node.op_type in ("ReorderInput", "ReorderOutput", *SAME) for node in nodes):
        return
    for node in nodes:
        if node.op_type in SAME:
            kept = [a for a in node.attribute if a.i or a.name not in UNUSED_IF_0]
        else:
            channels_last = any(a.name == "channels_last" and a.i for a in node.attribute)
            perm = FIRST if node.op_type == "ReorderInput" else LAST
            node.op_type = "Transpose" if channels_last else "Identity"
            kept = [helper.make_attribute("perm", perm)] if channels_last else []
        node.domain = ""
        del node.attribute[:]
        node.attribute.extend(kept)
