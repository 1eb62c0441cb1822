"""conv_transpose_float: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.cases.conv_float import convolution, floats
from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def conv_transpose_of_float_weights(m: Qdq) -> None:
    x, w = m.input((2, 3, 5, 7)), floats(m, (3, 4, 3, 2))
    y = m.op("ConvTranspose", [x, w, floats(m, (4,))], strides=[2, 3], pads=[1, 0, 0, 1], output_padding=[1, 0])
    m.output(m.quantize(y))


@reference(integer=False)
def conv_transpose_between_float_functions(m: Qdq) -> None:
    x = m.op("Sigmoid", [m.input((1, 6, 9))])
    m.output(m.op("Tanh", [m.op("ConvTranspose", [x, floats(m, (6, 2, 5))], group=3, strides=[2], dilations=[2])]))


@reference(integer=False)
def conv_transpose_to_a_given_shape(m: Qdq) -> None:
    x, w = m.op("Sigmoid", [m.input((1, 2, 7, 5))]), floats(m, (2, 3, 4, 3))
    upper = m.op("ConvTranspose", [x, w], strides=[3, 2], output_shape=[21, 10], auto_pad="SAME_UPPER")
    m.output(m.op("ConvTranspose", [upper, floats(m, (3, 1, 2, 4))], strides=[1, 2], output_shape=[21, 19]))


@reference(integer=False)
def conv_transpose_with_scales_of_input_channels(m: Qdq) -> None:
    m.output(m.quantize(m.op("ConvTranspose", [m.input((1, 6, 5, 7)), m.weight((6, 2, 3, 3), axis=0)])))


def random_nodes(r: RandomNodes) -> None:
    for _ in range(3):
        convolution(r, transposed=True)
