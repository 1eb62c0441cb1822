"""The version of the standard operator set that a model states."""

from __future__ import annotations

import onnx


def standard_opset(model: onnx.ModelProto) -> int:
    """Returns the version of the standard ONNX operator set, 0 if the model states none."""
    return max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
