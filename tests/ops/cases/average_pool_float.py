"""average_pool_float: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def average_of_floats_with_padding(m: Qdq) -> None:
    x = m.op("Sigmoid", [m.input((1, 5, 9, 11))])
    window = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1]}
    m.output(m.quantize(m.op("AveragePool", [x], **window)))
    m.output(m.op("AveragePool", [x], count_include_pad=1, ceil_mode=1, **window))


@reference(integer=False)
def average_of_floats_along_one_axis(m: Qdq) -> None:
    x = m.op("Exp", [m.input((2, 3, 17))])
    m.output(m.op("AveragePool", [x], kernel_shape=[5], strides=[2], auto_pad="SAME_LOWER", count_include_pad=1))
    m.output(m.quantize(m.op("AveragePool", [x], kernel_shape=[4], strides=[3], ceil_mode=1)))


@reference(integer=False)
def average_of_dilated_windows(m: Qdq) -> None:
    m.opset = max(m.opset, 19)
    window = {"kernel_shape": [2, 3], "dilations": [3, 2], "pads": [1, 2, 1, 1], "strides": [1, 2]}
    x = m.op(
        "Tanh", [m.input((1, 3, 9, 11))]
    )  # onnxruntime makes a QLinearAveragePool of a quantized one and then refuses it
    m.output(m.quantize(m.op("AveragePool", [x], ceil_mode=1, **window)))
    m.output(m.op("AveragePool", [x], count_include_pad=1, ceil_mode=1, **window))


@reference(integer=False)
def average_with_what_the_integer_form_lacks(m: Qdq) -> None:
    x = m.input((1, 3, 8, 10))
    pool = m.op("AveragePool", [x], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, count_include_pad=1)
    m.output(m.quantize(pool))


def random_nodes(r: RandomNodes) -> None:
    """Windows of every form, also some that lie in the padding or reach beyond it."""
    for size in ((11, 13), (1, 17)):
        flat = size[0] == 1
        kernel = (1 if flat else r.pick(1, 2, 3), r.pick(1, 2, 3))
        stride, dilation = (1 if flat else r.pick(1, 2), r.pick(1, 2, 3)), (1 if flat else r.pick(1, 2), r.pick(1, 2))
        pads = [0 if flat and i in (0, 2) else r.pick(0, 1, 3) for i in range(4)]
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        out = [(n + pads[i] + pads[i + 2] - reach[i]) // stride[i] + 1 for i, n in enumerate(size)]
        out[1] = min(out[1] + r.pick(0, 1), (size[1] + pads[1] + pads[3]) // stride[1] + 1)
        shapes = [(2, 3, *(dims[1:] if flat else dims)) for dims in (size, out)]
        words = (*kernel, *stride, *pads, *dilation, r.pick(0, 1))
        r.node("average_pool_float", (r.floats(shapes[0]),), r.float_output(shapes[1]), words)
