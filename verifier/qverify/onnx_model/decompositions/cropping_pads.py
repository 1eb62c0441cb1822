"""Writes a Pad with negative pads, which crop, as Slice and Pad, and one that wraps around as Gather."""

from __future__ import annotations

import numpy as np
import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute, input_name

MOST = np.iinfo(np.int64).max


def cropping_pad(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Crops first, then pads what is left."""
    name, rank = input_name(node, 1), len(r.dims(node.input[0]))
    pads = r.value(name) if name else np.array(attribute(node, "pads", []), np.int64)
    mode = attribute(node, "mode", b"constant")
    if pads is None or (mode != b"wrap" and not (pads < 0).any()):
        return False
    chosen = range(rank) if not input_name(node, 3) else r.value(node.input[3])
    if chosen is None or len(pads) != 2 * len(chosen):
        return False
    if mode == b"wrap":
        _wrap(r, node, dict(zip((int(a) % rank for a in chosen), zip(*np.split(pads, 2), strict=True), strict=True)))
        return None
    begins, ends = np.split(pads, 2)
    starts = r.ints("starts", np.maximum(-begins, 0))
    stops = r.ints("stops", [end if end < 0 else MOST for end in ends])
    axes = r.ints("axes", [int(a) % rank for a in chosen])
    if (pads <= 0).all():
        r.node("Slice", [node.input[0], starts, stops, axes], node.output[0])
        return None
    padded = onnx.NodeProto.FromString(node.SerializeToString())
    padded.input[0] = r.step("Slice", [node.input[0], starts, stops, axes], "cropped")
    if name:
        padded.input[1] = r.ints("pads", np.maximum(pads, 0))
    else:
        next(a for a in padded.attribute if a.name == "pads").ints[:] = np.maximum(pads, 0).tolist()
    r.nodes.append(padded)
    return None


def _wrap(r: Rewriter, node: onnx.NodeProto, pads: dict[int, tuple[int, int]]) -> None:
    """Gathers along every axis the places from -begin to size + end, modulo the size that a crop leaves."""
    source, shape = node.input[0], r.dims(node.input[0])
    axes = [axis for axis, ends in pads.items() if any(ends)] or [0]
    for axis in axes:
        begin, end = pads.get(axis, (0, 0))
        first, size = max(-begin, 0), shape[axis] + min(begin, 0) + min(end, 0)
        if max(begin, end) > size:
            raise r.refusal(f"mode wrap with pads beyond the size of dim {axis} is not supported")
        places = first + np.arange(-max(begin, 0), size + max(end, 0)) % size
        to = node.output[0] if axis == axes[-1] else r.fresh("wrapped")
        source = r.node("Gather", [source, r.ints("places", places)], to, axis=axis)


REPLACED = {("", "Pad"): cropping_pad}
