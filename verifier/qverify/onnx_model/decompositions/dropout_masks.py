"""Writes Dropout whose mask is read as a copy and a constant: outside of training nothing is dropped."""

from __future__ import annotations

import numpy as np
import onnx

from qverify.onnx_model.rewriter import Rewriter

BOOL_MASK, ALL_KEPT = 10, 12  # the opsets from which the mask is bool, and from which it is True outside of training


def dropout(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Copies the input; the mask is True everywhere, before opset 12 False, as onnxruntime returns it. load() refuses a
    Dropout that draws."""
    if not r.is_read(1) or r.opset < BOOL_MASK:
        return False
    r.node("Identity", [node.input[0]], node.output[0])
    mask = np.full(r.dims(node.input[0]), r.opset >= ALL_KEPT)
    r.node("Identity", [r.constant("kept", mask)], node.output[1])
    return None


REPLACED = {("", "Dropout"): dropout}
