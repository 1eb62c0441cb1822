"""Linear Resize -> resize_linear: between DQ and Q (rounded), on floats, or on integers in QOperator models
(truncated)."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.builder import Array, Builder
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.resize_positions import RESIZE, positions, scales
from qverify.compiler.unit import Activation, LoweredUnit, operand
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor, attributes

ONNX_TYPES = {"Resize": RESIZE}


def match(view: GraphView, node: Any, y: QuantizedTensor, act: Activation) -> LoweredUnit | None:
    attrs = attributes(node)
    if attrs.get("mode", b"nearest") != b"linear" or attrs.get("antialias", 0):
        return None
    x = view.dequantized(node.input[0])
    if x is not None and max(len(x.scale), len(y.scale)) > 1:
        raise UnsupportedError(
            f"{node.name} (Resize): between tensors quantized per channel; only per tensor is supported"
        )
    if x is None or x.value is not None or act.clamps(y.dtype):
        return None
    return LoweredUnit(y.name, lambda b: lower(b, view, node, x, y))


def lower(builder: Builder, view: GraphView, node: Any, x: QuantizedTensor, y: QuantizedTensor) -> None:
    shape, out = view.shape(x.name), view.shape(y.name)
    index, weight = linear_tables(view, node, shape, out)
    builder.tensor(y.spec(y.name, out))
    tables = [builder.new_constant(f"{y.name}/index", index), builder.new_constant(f"{y.name}/weight", weight)]
    builder.node("resize_linear", [operand(builder, x, shape), *tables], [y.name], [0])


def on_stream(stream: FloatStream, node: Any) -> None:
    """Writes the node on floats, or on integers, which are not requantized. Raises UnsupportedError."""
    builder, view, name = stream.builder, stream.view, node.output[0]
    index, weight = linear_tables(view, node, view.shape(node.input[0]), view.shape(name))
    tables = [builder.new_constant(f"{name}/index", index), builder.new_constant(f"{name}/weight", weight)]
    source = stream.source(node.input[0])
    whole = builder.tensors[source].quantized
    builder.node("resize_linear", [source, *tables], stream.declare(node, like=source), [int(whole)], (), whole)


def linear_tables(view: GraphView, node: Any, shape: tuple[int, ...], out: tuple[int, ...]) -> tuple[Array, Array]:
    """Returns index int32 and weight float32 of resize_linear (NUMERICS.md) for the last two dims. Raises
    UnsupportedError."""
    if len(shape) != 4 or shape[:2] != out[:2]:
        raise UnsupportedError(
            f"{node.name} (Resize): linear over {list(shape)} -> {list(out)}; only the last two of four dims are supported"
        )
    indices, weights = [], []
    steps = scales(view, node, shape, out) if shape != out else None  # onnxruntime copies x if the dims are equal
    for axis in (2, 3):
        size, out_size = shape[axis], out[axis]
        coordinates = np.arange(size) if steps is None else positions(view, node, size, out_size, steps[axis])
        p = np.clip(coordinates, 0, np.float32(size - 1)).astype(np.float32)
        i1 = p.astype(np.int32)
        i2 = np.minimum(i1 + 1, size - 1)
        d1, d2 = np.abs(p - i1.astype(np.float32)), np.abs(p - i2.astype(np.float32))
        same = i1 == i2
        d1[same] = d2[same] = np.float32(0.5)
        indices += [i1, i2]
        weights += [d2, d1]
    return np.concatenate(indices).astype(np.int32), np.concatenate(weights).astype(np.float32)
