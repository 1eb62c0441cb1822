"""Padding with any value, as triage tries it for a convolution, is what sums in int64 give."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.arithmetic import byte_products
from qverify.arithmetic.linear import is_wide
from qverify.arithmetic.requantize import requantize
from qverify.model_bin.units import units
from qverify.triage.case import Case
from qverify.triage.hypotheses import pad_value

from tests.ops.random_nodes import RandomNodes

Array = np.ndarray
PAD, KERNEL, OUTPUTS = 1, 3, 4


def padded_convolution(x_dtype: str, y_dtype: str, shape: tuple[int, ...], rounding: str) -> Case:
    made = RandomNodes(rounding, 7)
    x, w = made.input(x_dtype, shape), made.weights("int8", (OUTPUTS, shape[1], KERNEL, KERNEL), 1)
    y = made.output(y_dtype, (shape[0], OUTPUTS, *shape[2:]))
    rq = made.rq(shape[1] * KERNEL**2, 1, "16" in x_dtype + y_dtype)
    words = (KERNEL, KERNEL, 1, 1, *[PAD] * 4, 1, 1, 1, *made.limits(y_dtype))
    made.node("conv", (x, w, None, rq), y, words)
    graph = made.graph()
    return Case(graph, units(graph)[0], dict(made.values), y.name, np.zeros(y.shape, y_dtype))


def sums(case: Case, value: int) -> Array:
    """The sums in int64 of the input that is padded with this value."""
    node, graph = case.last, case.graph
    x, w = graph.spec(node.inputs[0] or ""), graph.spec(node.inputs[1] or "")
    widths = [(0, 0), (0, 0), (PAD, PAD), (PAD, PAD)]
    read = np.pad(case.inputs[x.name].astype(np.int64), widths, constant_values=value) - x.zero_point[0]
    windows = np.lib.stride_tricks.sliding_window_view(read, (KERNEL, KERNEL), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, graph.constants[w.name].astype(np.int64) - w.zero_point[0])


@pytest.mark.parametrize("rounding", ["ref-exact", "gemmlowp"])
@pytest.mark.parametrize("few", [0, 1 << 30], ids=["by oneDNN", "by numpy"])
@pytest.mark.parametrize(
    ("x_dtype", "y_dtype", "shape"),
    [
        ("uint8", "int8", (1, 3, 6, 6)),
        ("uint8", "int8", (1, 3, 1, 1)),  # most of what the kernel reads is padding
        ("uint8", "int16", (1, 3, 6, 6)),
        ("int16", "int16", (1, 3, 6, 6)),
        ("int16", "int8", (1, 3, 6, 6)),
        ("uint16", "uint8", (1, 30, 6, 6)),
    ],
)
def test_padding_with_any_value(
    x_dtype: str, y_dtype: str, shape: tuple[int, ...], few: int, rounding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_products, "FEW_MULTIPLICATIONS", few)
    case = padded_convolution(x_dtype, y_dtype, shape, rounding)
    node, limits, wide = case.last, np.iinfo(x_dtype), is_wide(x_dtype, "int8", y_dtype)
    rq, zero = case.graph.constants[node.inputs[-1] or ""], case.spec.zero_point[0]
    low, high = node.words[-2:]
    for value in (0, limits.min, limits.max, limits.max + 100, limits.min - 300):
        acc = sums(case, int(value))
        acc = acc if wide else acc.astype(np.int32)
        wanted = requantize(acc, rq, zero, low, high, y_dtype, rounding, wide)
        assert np.array_equal(pad_value._with_value(case, int(value)), wanted), value
