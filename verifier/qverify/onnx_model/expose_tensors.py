"""An ONNX model that gives more of its tensors: what a run of every node needs."""

from __future__ import annotations

import onnx


def expose_tensors(model: onnx.ModelProto, names: list[str]) -> onnx.ModelProto:
    """The model with more tensors as outputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    there = {o.name for o in copy.graph.output}
    copy.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in there)
    return copy
