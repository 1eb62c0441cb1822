"""Convolutions, pools and linear Resize of three spatial dims, written out in two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from qverify.compiler.compile_model import compile_model
from qverify.errors import UnsupportedError

from tests.ops.cases.matmul_integer import dynamic, integers
from tests.ops.qdq import Qdq
from tests.plain.verified_model import verified


def floats(m: Qdq, *shape: int) -> str:
    return m.constant(f"c{len(m.constants)}", m.rng.normal(size=shape).astype(np.float32))


def convolution(m: Qdq) -> None:
    """Integers with a Relu, stride, dilation and uneven pads, in groups; then every auto_pad."""
    x, w = m.input((2, 4, 5, 6, 7)), m.weight((6, 2, 3, 2, 3), axis=0)
    window = {"group": 2, "strides": [2, 1, 2], "dilations": [1, 2, 1], "pads": [1, 0, 2, 0, 2, 1]}
    y = m.quantize(m.op("Relu", [m.op("Conv", [x, w, m.bias(x, w, 6)], **window)]))
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        y = m.quantize(m.op("Conv", [y, m.weight((6, 6, 2, 2, 1), axis=0)], auto_pad=auto))
    m.output(y)


def depthwise_convolution(m: Qdq) -> None:
    x, w = m.input((1, 5, 4, 6, 5)), m.weight((5, 1, 3, 3, 3), axis=0)
    m.output(m.quantize(m.op("Conv", [x, w, m.bias(x, w, 5)], group=5, pads=[1] * 6)))


def convolution_of_floats(m: Qdq) -> None:
    x = m.op("Tanh", [m.input((1, 2, 5, 4, 5))])
    m.output(m.op("Conv", [x, floats(m, 3, 2, 2, 3, 2), floats(m, 3)], pads=[1] * 6, strides=[2, 2, 2]))


def convolution_of_integers(m: Qdq) -> None:
    """Zero points computed at run time, which the border has."""
    x = dynamic(m, (2, 2, 5, 4, 5))
    zero = f"{x}_2"
    more = {"pads": [1, 1, 0, 1, 1, 1], "strides": [2, 1, 1]}
    m.output(m.op("Cast", [m.op("ConvInteger", [x, integers(m, (3, 2, 3, 2, 2), "uint8"), zero], **more)], to=1))


def transposed_convolution(m: Qdq) -> None:
    """Strides with output_padding, in groups, per channel; a dilated one; one with output_shape."""
    x, w = m.input((1, 4, 3, 4, 3)), m.weight((4, 3, 3, 2, 3))
    window = {"group": 2, "strides": [2, 2, 1], "pads": [1, 0, 1, 0, 1, 1], "output_padding": [1, 1, 0]}
    y = m.quantize(m.op("ConvTranspose", [x, w, m.bias(x, w, 6)], **window))
    m.output(y)
    m.output(m.op("ConvTranspose", [m.op("Tanh", [x]), floats(m, 4, 2, 2, 2, 2)], dilations=[2, 1, 2]))
    more = {"strides": [2, 2, 2], "output_shape": [6, 8, 6], "auto_pad": "SAME_UPPER"}
    m.output(m.op("ConvTranspose", [m.op("Tanh", [x]), floats(m, 4, 2, 3, 3, 2)], **more))


def largest(m: Qdq) -> None:
    x = m.input((1, 3, 7, 6, 5))
    window = {"kernel_shape": [3, 2, 2], "strides": [2, 2, 3], "ceil_mode": 1}
    m.output(m.quantize(m.op("MaxPool", [x], pads=[1, 0, 0, 0, 1, 1], **window), like=x))
    more = {"kernel_shape": [2, 2, 2], "dilations": [2, 1, 2], "auto_pad": "VALID"}
    m.output(m.op("MaxPool", [m.op("Tanh", [x])], **more))


def means(m: Qdq) -> None:
    """Windows that reach beyond the depth, counted and not, and a global one."""
    x = m.input((1, 3, 7, 6, 5))
    m.output(m.quantize(m.op("AveragePool", [x], kernel_shape=[2, 2, 3], strides=[2, 1, 2])))
    for counted in (0, 1):
        window = {"kernel_shape": [3, 3, 2], "pads": [1, 1, 1, 1, 1, 0], "strides": [2, 2, 1]}
        y = m.op("AveragePool", [x], count_include_pad=counted, **window)
        m.output(m.quantize(y) if counted else y)
    m.output(m.quantize(m.op("GlobalAveragePool", [x])))


def means_of_little(m: Qdq) -> None:
    """A padded depth and width smaller than the kernel's, of which onnxruntime still makes a window. Of floats, since its
    default form of a quantized one divides by the whole kernel."""
    window = {"kernel_shape": [3, 3, 3], "pads": [0, 0, 0, 1, 0, 1], "strides": [2, 2, 2], "count_include_pad": 1}
    x = m.op("Tanh", [m.input((1, 2, 1, 6, 1))])
    m.output(m.quantize(m.op("AveragePool", [x], **window)))
    m.output(m.op("AveragePool", [x], **window))


def means_of_little_in_opset_18(m: Qdq) -> None:
    """onnxruntime divides by the whole kernel."""
    m.opset = 18
    means_of_little(m)


def resized(m: Qdq) -> None:
    """Three dims, one of three, the first and last of four, by scales and by sizes."""
    x, y, z = m.input((1, 2, 3, 5, 4)), m.input((2, 3, 5)), m.input((1, 5, 3, 4))
    scales = m.constant("scales", np.array([1, 1, 2, 1.5, 2.3], np.float32))
    sizes = m.constant("sizes", np.array([1, 2, 5, 7, 4], np.int64))
    one = m.constant("one", np.array([1, 1, 2.5], np.float32))
    planes = m.constant("planes", np.array([1, 9, 5, 4], np.int64))
    m.output(m.quantize(m.op("Resize", [x, "", scales], mode="linear")))
    m.output(m.op("Resize", [x, "", "", sizes], mode="linear", coordinate_transformation_mode="align_corners"))
    m.output(m.op("Resize", [y, "", one], mode="linear", coordinate_transformation_mode="asymmetric"))
    m.output(m.quantize(m.op("Resize", [z, "", "", planes], mode="linear")))


GOOD: dict[str, Callable[[Qdq], None]] = {
    f.__name__: f
    for f in (
        convolution, depthwise_convolution, convolution_of_floats, convolution_of_integers, transposed_convolution,
        largest, means, means_of_little, means_of_little_in_opset_18, resized,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_written_out(name: str, tmp_path: Path) -> None:
    m = Qdq(seed=sum(name.encode()), opset=19)
    GOOD[name](m)
    verified(m.model(), tmp_path)


def test_convolutions_of_integers_keep_integers() -> None:
    for build in (convolution, depthwise_convolution):
        m = Qdq(opset=19)
        build(m)
        nodes = compile_model(m.model().SerializeToString(), "unit.onnx").graph.nodes
        assert not [n.op for n in nodes if "float" in n.op]
        assert all(n.integer_reference for n in nodes if n.op == "conv")


def dilated_means(m: Qdq) -> None:
    m.output(m.op("AveragePool", [m.input((1, 2, 5, 5, 5))], kernel_shape=[2, 2, 2], dilations=[1, 2, 1]))


def means_of_less_than_a_stride(m: Qdq) -> None:
    """The pads that onnxruntime derives are negative."""
    window = {"kernel_shape": [1, 2, 2], "strides": [3, 2, 1], "auto_pad": "SAME_UPPER"}
    m.output(m.op("AveragePool", [m.input((1, 2, 6, 2, 4))], **window))


REFUSED: dict[str, tuple[Callable[[Qdq], None], str]] = {
    "less_than_a_stride": (means_of_less_than_a_stride, r"AveragePool\): auto_pad with a window that much smaller"),
    "dilated": (dilated_means, r"AveragePool\): 3-D windows with dilated rows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    m = Qdq(opset=19)
    build, said = REFUSED[name]
    build(m)
    with pytest.raises(UnsupportedError, match=said):
        compile_model(m.model().SerializeToString(), "unit.onnx")
