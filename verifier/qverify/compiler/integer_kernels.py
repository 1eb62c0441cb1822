"""From which opset on onnxruntime's kernels of standard operators take 8-bit integers, and what stands in for a Clip before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx

from qverify.compiler.unit import LoweredUnit, standard

EIGHT_BIT_FROM = {
    "Clip": 12,
    "MaxPool": 12,
    "DepthToSpace": 11,
    "Resize": 11,
    "Pad": 11,
}  # others: from opset 10 or less
CLIP_INPUTS_FROM = 11  # before, the limits of a Clip are attributes


def with_known_kernels(unit: LoweredUnit, opset: int) -> LoweredUnit:
    """Returns the unit with integer ONNX nodes that onnxruntime runs at this opset: before opset 12, an integer Clip is
    DequantizeLinear, Clip and QuantizeLinear with scale 1 and zero point 0, which change no value."""
    if opset >= EIGHT_BIT_FROM["Clip"]:
        return unit
    changed = replace(unit, onnx=[], constants=dict(unit.constants))
    for node in unit.onnx:
        changed.onnx += _clip_floats(node, changed, opset) if (node.domain, node.op_type) == ("", "Clip") else [node]
    return changed


def _clip_floats(node: onnx.NodeProto, unit: LoweredUnit, opset: int) -> list[onnx.NodeProto]:
    """Returns the nodes that stand in for an integer Clip; adds their constants to the unit and takes the Clip's out."""
    name, limits = node.output[0], [unit.constants.pop(limit) for limit in node.input[1:]]
    scale = [f"{name}/one", f"{name}/zero"]
    unit.constants |= {scale[0]: np.ones((), np.float32), scale[1]: np.zeros((), limits[0].dtype)}
    before, after = f"{name}/preactivation_float", f"{name}/clipped_float"
    if opset >= CLIP_INPUTS_FROM:
        unit.constants |= {limit: value.astype(np.float32) for limit, value in zip(node.input[1:], limits, strict=True)}
        clip = standard("Clip", [before, *node.input[1:]], [after])
    else:
        clip = standard("Clip", [before], [after], min=float(limits[0]), max=float(limits[1]))
    return [
        standard("DequantizeLinear", [node.input[0], *scale], [before]),
        clip,
        standard("QuantizeLinear", [after, *scale], [name]),
    ]
