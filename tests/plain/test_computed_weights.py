"""QLinearConv with weights that another part of the network computes, as trackers have it: the bits of onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.onnx_model.decompose import decompose
from qverify.onnx_model.load import load
from qverify.onnx_model.open_exposed import open_exposed

from tests.ops.qdq import Qdq
from tests.plain.test_channels_last import integers, of_result
from tests.plain.verified_model import passes, refused

FORMS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {  # dims of x and of the weights
    "plain": ((2, 3, 7, 6), (4, 3, 3, 2), {"strides": [2, 1], "pads": [1, 0, 2, 1]}),
    "depthwise": ((1, 6, 7, 7), (6, 1, 4, 4), {"group": 6}),
    "groups": ((1, 6, 7, 7), (4, 3, 3, 3), {"group": 2, "dilations": [2, 1]}),
    "same": ((1, 3, 7, 6), (2, 3, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
}


def correlation(m: Qdq, form: str, dtypes: tuple[type, type], bias: bool = False, channels: bool = False) -> None:
    """A QLinearConv of two quantized inputs, in eighths of a step, so that ties of rounding occur."""
    x_dims, w_dims, attributes = FORMS[form]
    x, w, y = integers(m, x_dims, dtypes[0]), integers(m, w_dims, dtypes[1]), of_result(m, dtypes[0])
    m.constants[x[1]] = m.constants[w[1]] = np.float32(0.125)
    m.constants[y[0]] = np.float32(0.25)
    if channels:
        w[1] = m.constant("w_scales", np.array([0.125 * (k + 1) for k in range(w_dims[0])], np.float32))
        w[2] = m.constant("w_zeros", np.zeros(w_dims[0], dtypes[1]))
    inputs = [*x, *w, *y]
    if bias:
        inputs.append(m.constant("bias", m.rng.integers(-50, 50, w_dims[0]).astype(np.int32)))
    m.output(m.op("DequantizeLinear", [m.op("QLinearConv", inputs, **attributes), *y]))


@pytest.mark.parametrize("dtypes", [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
@pytest.mark.parametrize("form", FORMS)
def test_bits_are_those_of_onnxruntime(form: str, dtypes: tuple[type, type]) -> None:
    for bias in (False, True):
        m = Qdq(seed=3)
        correlation(m, form, dtypes, bias)
        before = load(m.model().SerializeToString(), "unit.onnx")
        after = decompose(before, "unit.onnx", {}).model
        assert any(n.op_type == "ConvInteger" for n in after.graph.node)
        theirs, mine = (next(iter(open_exposed(x, []).run(m.feed).values())) for x in (before, after))
        assert np.array_equal(theirs, mine) and len(np.unique(theirs)) > 9


@pytest.mark.parametrize("channels", [False, True])
def test_a_correlation_is_verified(channels: bool, tmp_path: Path) -> None:
    m = Qdq(seed=4)
    correlation(m, "depthwise", (np.uint8, np.int8), True, channels)
    graph = passes(m.model(), tmp_path)
    assert "conv_integer" in {n.op for n in graph.nodes} and not graph.islands


def with_input(m: Qdq, at: int, value: str) -> None:
    correlation(m, "plain", (np.uint8, np.int8), channels=True)
    next(n for n in m.nodes if n.op_type == "QLinearConv").input[at] = value


def computed_scale(m: Qdq) -> None:
    with_input(m, 4, m.op("Exp", [m.input((4,))]))


def several_zero_points(m: Qdq) -> None:
    with_input(m, 5, m.constant("zeros", np.array([0, 1, 0, 0], np.int8)))


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (computed_scale, "its scale of the weights is computed at run time"),
        (several_zero_points, "zero points of channels that differ are not supported"),
    ],
)
def test_refused_by_name(build: Any, said: str) -> None:
    refused(build, rf"QLinearConv\): {said}")
