"""Slice, Range, Expand and ConstantOfShape: with sizes that follow from shapes they are compiled; with sizes that depend on
data, which no static plan of memory has, the host computes them, or they are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from qverify.errors import UnsupportedError
from qverify.session.job import verify
from qverify.session.request import Request

from tests.ops.qdq import Qdq


def whole(m: Qdq, *values: int) -> str:
    return m.constant(f"n{len(m.constants)}", np.array(values))


def number(m: Qdq, value: int) -> str:
    return m.constant(f"n{len(m.constants)}", np.array(value))


def range_of_a_dim(m: Qdq) -> None:
    x = m.input((4, 6))
    size = m.op("Squeeze", [m.op("Gather", [m.op("Shape", [x]), whole(m, 1)], axis=0)])
    m.output(m.op("Gather", [x, m.op("Range", [number(m, 1), size, number(m, 2)])], axis=1))


def expanded_like_another(m: Qdq) -> None:
    x, z = m.input((1, 6)), m.input((5, 6))
    m.output(m.op("Relu", [m.op("Expand", [x, m.op("Shape", [z])])]))
    m.output(m.op("Relu", [z]))


def constant_of_a_shape(m: Qdq) -> None:
    x, two = m.input((4, 6)), onnx.numpy_helper.from_array(np.array([2], np.float32))
    m.output(m.op("Add", [x, m.op("ConstantOfShape", [m.op("Shape", [x])], value=two)]))


def slice_to_half_of_a_dim(m: Qdq) -> None:
    x = m.input((4, 6))
    half = m.op("Div", [m.op("Gather", [m.op("Shape", [x]), whole(m, 1)], axis=0), whole(m, 2)])
    m.output(m.op("Relu", [m.op("Slice", [x, whole(m, 0), half, whole(m, 1)])]))


def slice_from_data(m: Qdq) -> None:
    x, start = m.input((4, 6)), m.integers((1,), 3)
    m.output(m.op("Slice", [x, start, m.op("Add", [start, whole(m, 2)]), whole(m, 1)]))
    m.output(m.op("Tanh", [x]))


def range_to_data(m: Qdq) -> None:
    x, end = m.input((4, 6)), m.integers((), 3)
    m.output(m.op("Cast", [m.op("Range", [number(m, 0), end, number(m, 1)])], to=1))
    m.output(m.op("Tanh", [x]))


def expanded_by_data(m: Qdq) -> None:
    x, dims = m.input((1, 6)), m.integers((2,), 3)
    m.output(m.op("Expand", [x, m.op("Add", [dims, whole(m, 1, 1)])]))
    m.output(m.op("Tanh", [x]))


def contrib_pair(m: Qdq, source: str) -> str:
    """com.microsoft's QuantizeLinear and DequantizeLinear of 16 bits, whose shapes ONNX's inference does not find."""
    scale, zero = m.constant("s16", np.float32(0.001)), m.constant("z16", np.uint16(32768))
    q = m.op("QuantizeLinear", [source, scale, zero], domain="com.microsoft")
    return m.op("DequantizeLinear", [q, scale, zero], domain="com.microsoft")


def group_norms(m: Qdq, levels: int) -> None:
    """Reshape, InstanceNormalization, and Reshape back to what Shape says, as PyTorch writes a GroupNorm."""
    y = m.input((1, 4, 3, 3))
    rows = m.constant("rows", np.array([0, 1, -1]))
    one, zero = m.constant("one", np.ones(1, np.float32)), m.constant("zero", np.zeros(1, np.float32))
    for _ in range(levels):
        shape = m.op("Shape", [y])
        normal = m.op("InstanceNormalization", [m.op("Reshape", [y, rows]), one, zero])
        y = contrib_pair(m, m.op("Reshape", [contrib_pair(m, normal), shape]))
    m.output(y)


def many_group_norms(m: Qdq) -> None:
    group_norms(m, 40)


def many_computed_shapes(m: Qdq) -> None:
    """Each Reshape takes its dims from arithmetic on those of the tensor before."""
    y = m.input((4, 6))
    for _ in range(30):
        rows, columns = (m.op("Gather", [m.op("Shape", [y]), whole(m, at)], axis=0) for at in (0, 1))
        double = m.op("Mul", [columns, m.op("Div", [rows, rows])])
        y = contrib_pair(m, m.op("Sqrt", [m.op("Reshape", [y, m.op("Concat", [double, rows], axis=0)])]))
    m.output(y)


STATIC = (
    range_of_a_dim, expanded_like_another, constant_of_a_shape, slice_to_half_of_a_dim, many_group_norms,
    many_computed_shapes,
)  # fmt: skip


def shaped_like_a_slice_from_data(m: Qdq) -> None:
    """The second Expand's dims are a shape, but of a tensor whose shape depends on data."""
    x, dims = m.input((1, 6)), m.integers((2,), 3)
    wide = m.op("Expand", [x, m.op("Add", [dims, whole(m, 1, 1)])])
    m.output(m.op("Expand", [m.op("Tanh", [x]), m.op("Add", [m.op("Shape", [wide]), whole(m, 0, 0)])], "last"))


OF_DATA = {slice_from_data: "Slice", range_to_data: "Range", expanded_by_data: "Expand"}


def test_a_shape_of_a_shape_of_data_is_of_data(tmp_path: Path) -> None:
    report = verify(Request([written(shaped_like_a_slice_from_data, tmp_path)], "local")).report
    assert report.verdict == "PASSED" and [node["op"] for node in report.on_host].count("Expand") == 2


def written(build: Callable[[Qdq], None], tmp_path: Path) -> str:
    m = Qdq()
    build(m)
    path = tmp_path / "m.onnx"
    path.write_bytes(m.model().SerializeToString())
    return str(path)


@pytest.mark.parametrize("build", STATIC)
def test_sizes_of_shapes_are_compiled(build: Callable[[Qdq], None], tmp_path: Path) -> None:
    assert verify(Request([written(build, tmp_path)], "local", host=False)).report.verdict == "PASSED"


@pytest.mark.parametrize("build", OF_DATA)
def test_sizes_of_data_are_of_the_host_or_refused(build: Callable[[Qdq], None], tmp_path: Path) -> None:
    path = written(build, tmp_path)
    report = verify(Request([path], "local")).report
    assert report.verdict == "PASSED" and OF_DATA[build] in {node["op"] for node in report.on_host}
    with pytest.raises(UnsupportedError, match=f"{OF_DATA[build].lower()}.*depends on the values of input"):
        verify(Request([path], "local", host=False))
