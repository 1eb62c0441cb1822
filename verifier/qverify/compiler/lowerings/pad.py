"""Pad -> pad."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.attributes import ANY, only
from qverify.compiler.builder import float_word
from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {"Pad": {"mode": only(b"constant", b"reflect", b"edge"), "pads": ANY, "value": ANY}}


def lower_float(stream: FloatStream, node: Any) -> None:
    attrs, view = attributes(node), stream.view
    pads = view.constants.get(node.input[1]) if len(node.input) > 1 else np.array(attrs.get("pads"))
    mode = attrs.get("mode", b"constant").decode()
    if pads is None:
        raise UnsupportedError(f"{node.name} (Pad): its pads are computed at run time; make them a constant")
    if (pads < 0).any():
        raise UnsupportedError(
            f"{node.name} (Pad): its pads {pads.tolist()} are negative; write a Slice before it instead, or cut the model before it"
        )
    value = stream.scalar(node, 2, "value") if len(node.input) > 2 and node.input[2] else attrs.get("value", 0.0)
    rank = len(view.shape(node.input[0]))
    pads = _pads_of_all(stream, node, pads, rank)
    word = float_word(value) if view.dtype(node.output[0]) == "float32" else int(value)
    words = [("constant", "reflect", "edge").index(mode), word, *pads[:rank].tolist()]
    source = stream.source(node.input[0])
    stream.builder.node("pad", [source], stream.declare(node, like=source), words)


def _pads_of_all(stream: FloatStream, node: Any, pads: Any, rank: int) -> Any:
    """Returns begin and end of every dim, with 0 for dims that opset 18's axes input leaves out. Raises
    UnsupportedError."""
    if len(node.input) < 4 or not node.input[3]:
        return pads
    axes = stream.view.constants.get(node.input[3])
    if axes is None or len(pads) != 2 * len(axes):
        raise UnsupportedError(f"{node.name} (Pad): its axes are not constant, or their number does not match its pads")
    whole = np.zeros(2 * rank, np.int64)
    for i, axis in enumerate(axes.tolist()):
        whole[axis % rank], whole[rank + axis % rank] = pads[i], pads[len(axes) + i]
    return whole
