"""Adds inner tensors of an ONNX model to its outputs, to read them after a run."""

from __future__ import annotations

import onnx


def expose_tensors(model: onnx.ModelProto, names: list[str]) -> onnx.ModelProto:
    """Returns a copy of the model that has these tensors as additional outputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    existing = {o.name for o in copy.graph.output}
    copy.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in existing)
    return copy
