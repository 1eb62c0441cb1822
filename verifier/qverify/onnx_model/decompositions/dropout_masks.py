"""Writes Dropout whose mask is read as a copy and a constant: outside of training nothing is dropped."""

from __future__ import annotations

import numpy as np
import onnx

from qverify.onnx_model.rewriter import Rewriter

BOOL_MASK = 10  # the opset from which the mask is bool; onnxruntime has no older one


def dropout(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Copies the input; the mask is True everywhere. load() refuses a Dropout that draws."""
    if not r.is_read(1) or r.opset < BOOL_MASK:
        return False
    r.node("Identity", [node.input[0]], node.output[0])
    r.node("Identity", [r.constant("kept", np.ones(r.dims(node.input[0]), bool))], node.output[1])
    return None


REPLACED = {("", "Dropout"): dropout}
