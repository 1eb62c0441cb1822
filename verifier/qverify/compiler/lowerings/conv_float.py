"""Conv on a float stream -> conv_float."""

from __future__ import annotations

from typing import Any

from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings.conv import ONNX_TYPES as ONNX_TYPES
from qverify.compiler.pool_windows import flat, window_pads
from qverify.compiler.supported_types import check_float32
from qverify.errors import NotOnHostError, UnsupportedError
from qverify.onnx_model.graph_view import attributes


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError if it is not float32, is 3-D, or is 1-D and its weights are not
    constant."""
    words = window_words(stream, node)
    x, w, bias = [*(stream.source(n) if n else None for n in node.input), None][:3]
    stream.builder.node("conv_float", [x, planar(stream, node, w), bias], stream.declare(node), words, (), False)


def window_words(stream: FloatStream, node: Any) -> list[int]:
    """Returns the words of a float convolution or transposed convolution. Raises UnsupportedError."""
    check_float32(stream.view, node, node.input[0], node.output[0])
    return spatial_words(stream, node)


def spatial_words(stream: FloatStream, node: Any) -> list[int]:
    """Returns the words of a convolution or transposed convolution of any type. Raises UnsupportedError unless it is
    1-D or 2-D."""
    view, attrs = stream.view, attributes(node)
    shape, kernel, out = (view.shape(n) for n in (node.input[0], node.input[1], node.output[0]))
    spatial = len(kernel) - 2
    if spatial not in (1, 2) or len(shape) != len(kernel):
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): {spatial}-D convolution is not supported; 1-D and 2-D are"
        )
    if len(out) != len(shape):
        raise NotOnHostError(
            f"{node.name} ({node.op_type}): an output of rank {len(out)} for an input of rank {len(shape)}; correct the output's shape in the file"
        )
    return [
        *flat(list(kernel[2:]), spatial),
        *flat(attrs.get("strides", [1] * spatial), spatial),
        *window_pads(node, attrs, shape[2:], out[2:], kernel[2:]),
        *flat(attrs.get("dilations", [1] * spatial), spatial),
        attrs.get("group", 1),
    ]


def planar(stream: FloatStream, node: Any, weights: str | None) -> str | None:
    """Returns the name of the weights with rank 4; constants of rank 3 are reshaped. Raises UnsupportedError if weights
    of rank 3 are not constant."""
    value = stream.view.float_constant(node.input[1])
    if value is None or value.ndim == 4:
        if value is None and len(stream.view.shape(node.input[1])) != 4:
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): its weights are computed at run time; only those of 2-D can be compiled"
            )
        return weights
    return stream.builder.new_constant(f"{node.output[0]}/weight", value[:, :, None, :])
