"""Resize on a float stream: cubic, and whatever has antialias -> resize_weighted; linear -> resize_linear."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings import resize_linear
from qverify.compiler.resize_positions import RESIZE, scales
from qverify.compiler.resize_weights import antialias_weights, cubic_weights
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {"Resize": RESIZE}


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError for integers, and for other dims than the last two of four."""
    attrs, view, name = attributes(node), stream.view, node.output[0]
    mode, smooth = attrs.get("mode", b"nearest"), bool(attrs.get("antialias", 0))
    if mode == b"linear" and not smooth:
        resize_linear.on_stream(stream, node)
        return
    shape, out, dtype = view.shape(node.input[0]), view.shape(name), view.dtype(node.input[0])
    if dtype != "float32" or mode == b"nearest":
        raise UnsupportedError(
            f"{node.name} (Resize): mode {mode.decode(errors='replace')}{' with antialias' * smooth} of {dtype} is not supported; export without it"
        )
    if len(shape) != 4 or shape[:2] != out[:2]:
        raise UnsupportedError(
            f"{node.name} (Resize): {mode.decode(errors='replace')}{' with antialias' * smooth} over {list(shape)} -> {list(out)}; only the last two of four dims are supported"
        )
    weights = antialias_weights if smooth else cubic_weights
    # onnxruntime copies x if the dims are equal
    steps = scales(view, node, shape, out) if shape != out else [np.float32(1)] * 4
    axis_tables = [weights(view, node, shape[a], out[a], steps[a]) for a in (2, 3)]
    index, weight = (np.concatenate([t[i].reshape(-1) for t in axis_tables]) for i in (0, 1))
    tables = [
        stream.builder.new_constant(f"{name}/index", index),
        stream.builder.new_constant(f"{name}/weight", weight),
    ]
    words = [t[0].shape[1] for t in axis_tables]
    stream.builder.node(
        "resize_weighted", [stream.source(node.input[0]), *tables], stream.declare(node), words, (), False
    )
