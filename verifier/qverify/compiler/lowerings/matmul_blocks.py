"""MatMulBlocks -> matmul_blocks; integer_blocks.py writes it for a MatMulNBits of accuracy level 4."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.attributes import ANY
from qverify.compiler.float_stream import FloatStream
from qverify.onnx_model.graph_view import attributes
from qverify.onnx_model.packed_bits import unpack

ONNX_TYPES: dict[str, Any] = {"MatMulBlocks": dict.fromkeys(("K", "N", "bits", "block_size", "shape"), ANY)}


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node with its weights unpacked to bytes, and with scales and zero points for the blocks of the
    activations, of which a longer block of weights has several."""
    attrs, view, builder = attributes(node), stream.view, stream.builder
    columns, bits, size = attrs["N"], attrs["bits"], attrs["block_size"]
    length, blocks = view.shape(node.input[0])[-1], attrs["K"] // size
    packed, scales, zeros = (view.constants[n] for n in node.input[2:5])
    key = f"{bits} bits in {length}"
    constants = []
    for name, value in (
        (node.input[2], unpack(packed.reshape(columns, -1), bits).reshape(columns, -1, length)),
        (node.input[3], _of_blocks(scales.reshape(columns, blocks), size // length)),
        (node.input[4], _of_blocks(unpack(zeros.reshape(columns, -1), bits)[:, :blocks], size // length)),
    ):
        constants.append(builder.constant(view.fresh(f"{name}/{key}"), value))
    parts: list[str | None] = [stream.source(n) for n in node.input[:2]]
    bias = stream.source(node.input[5]) if len(node.input) > 5 else None
    builder.node("matmul_blocks", [*parts, *constants, bias], stream.declare(node), (), (), False)


def _of_blocks(value: Any, times: int) -> Any:
    """Returns the value of each block of weights for each of its blocks of activations."""
    return np.ascontiguousarray(np.repeat(value, times, axis=1))
