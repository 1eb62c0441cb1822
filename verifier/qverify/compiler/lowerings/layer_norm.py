"""LayerNormalization -> layer_norm, on a float stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.attributes import ANY, only
from qverify.compiler.builder import float_word
from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {"LayerNormalization": {"axis": ANY, "epsilon": ANY, "stash_type": only(1)}}


def lower_float(stream: FloatStream, node: Any) -> None:
    shape, attrs = stream.view.shape(node.input[0]), attributes(node)
    depth = int(np.prod(shape[attrs.get("axis", -1) % len(shape) :]))
    sizes = [int(np.prod(stream.view.shape(n))) for n in node.input[1:] if n]
    if any(size != depth for size in sizes):
        raise UnsupportedError(
            f"{node.name} (LayerNormalization): scale or bias of {sizes} elements over rows of {depth}; only one value per element is supported"
        )
    inputs: list[str | None] = [stream.source(n) if n else None for n in node.input]
    words = [depth, float_word(attrs.get("epsilon", 1e-5))]
    stream.builder.node("layer_norm", inputs + [None] * (3 - len(inputs)), stream.declare(node), words, (), False)
