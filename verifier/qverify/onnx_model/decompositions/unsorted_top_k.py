"""Writes TopK with sorted=0, whose order ONNX leaves open, as TopK in order."""

from __future__ import annotations

import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute


def unsorted_top_k(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Sets sorted=1: the same elements in every line, in a stated order."""
    if attribute(node, "sorted", 1):
        return False
    ordered = onnx.NodeProto.FromString(node.SerializeToString())
    next(a for a in ordered.attribute if a.name == "sorted").i = 1
    r.nodes.append(ordered)
    return None


REPLACED = {("", "TopK"): unsorted_top_k}
