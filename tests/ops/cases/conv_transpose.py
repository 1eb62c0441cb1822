"""conv_transpose: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.cases.conv import convolution
from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def conv_transpose(m: Qdq) -> None:
    x, w = m.input((1, 4, 5, 6)), m.weight((4, 3, 3, 2))
    m.output(m.quantize(m.op("ConvTranspose", [x, w, m.bias(x, w, 3)], strides=[2, 3], pads=[1, 0, 0, 1])))


@reference(integer=False)
def conv_transpose_grouped_output_padding(m: Qdq) -> None:
    x, w = m.input((2, 4, 5, 6)), m.weight((4, 3, 2, 2))
    m.output(m.quantize(m.op("ConvTranspose", [x, w], strides=[3, 3], group=2, output_padding=[1, 0])))


@reference(integer=False)
def conv_transpose_1d(m: Qdq) -> None:
    x, w = m.input((1, 4, 9)), m.weight((4, 3, 4))
    m.output(m.quantize(m.op("ConvTranspose", [x, w], strides=[2], pads=[1, 1])))


@reference(integer=False)
def conv_transpose_to_float(m: Qdq) -> None:
    x, w = m.input((1, 4, 5, 6)), m.weight((4, 3, 3, 2), axis=1)
    m.output(m.op("Tanh", [m.op("ConvTranspose", [x, w, m.bias(x, w, 3)], strides=[2, 3], pads=[1, 0, 0, 1])]))


@reference(integer=False)
def conv_transpose_to_float_grouped(m: Qdq) -> None:
    x, w = m.input((2, 4, 5, 6)), m.weight((4, 3, 2, 2))
    m.output(m.op("ConvTranspose", [x, w], strides=[3, 3], group=2, output_padding=[1, 0]))


@reference(integer=False)
def conv_transpose_grouped_per_channel(m: Qdq) -> None:
    """Scales and zero points of three output channels, the same in both groups; one result quantized, one not."""
    x, w = m.input((2, 4, 5, 6)), m.weight((4, 3, 2, 3), axis=1, zero=True)
    bias = m.constant("b", m.rng.normal(0, 1, 6).astype(np.float32))
    m.output(m.quantize(m.op("ConvTranspose", [x, w, bias], strides=[2, 2], group=2)))
    m.output(m.op("ConvTranspose", [x, w, bias], strides=[1, 2], group=2))


def random_nodes(r: RandomNodes) -> None:
    convolution(r, transposed=True)
    convolution(r, transposed=True, floats=True)
    convolution(r, transposed=True, wide=True, floats=True)
