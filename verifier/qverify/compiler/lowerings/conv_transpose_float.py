"""ConvTranspose on a float stream -> conv_transpose_float."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings.conv_float import planar, window_words
from qverify.compiler.lowerings.conv_transpose import ONNX_TYPES as ONNX_TYPES
from qverify.errors import UnsupportedError


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError for another type than float32, 3-D, or weights that are not finite
    constants."""
    words = window_words(stream, node)
    value = stream.view.float_constant(node.input[1])
    if value is None or not np.isfinite(value).all():
        raise UnsupportedError(
            f"{node.name} (ConvTranspose): its weights are not finite constants; only those can be compiled"
        )
    x, w, bias = [*(stream.source(n) if n else None for n in node.input), None][:3]
    stream.builder.node(
        "conv_transpose_float", [x, planar(stream, node, w), bias], stream.declare(node), words, (), False
    )
