"""The Indices of MaxPool, and MaxUnpool, written out: the values of onnxruntime for every form, and verified models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from qverify.onnx_model.decompose import decompose
from qverify.onnx_model.load import load

from tests.ops.qdq import Qdq
from tests.plain.test_attention_past import assert_same_values, drawn
from tests.plain.verified_model import passes, refused

FORMS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 3, 6, 5), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "by columns": ((2, 3, 6, 5), {"kernel_shape": [2, 2], "storage_order": 1}),
    "pads": ((2, 3, 6, 5), {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 0, 1, 2]}),
    "dilated": ((2, 3, 6, 5), {"kernel_shape": [2, 3], "dilations": [2, 1], "strides": [2, 2], "ceil_mode": 1}),
    "same upper": ((2, 3, 7, 5), {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same lower": ((2, 3, 7, 5), {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "valid": ((2, 3, 7, 5), {"kernel_shape": [2, 2], "auto_pad": "VALID", "strides": [2, 2]}),
    "lines": ((2, 3, 9), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    "volumes": ((1, 2, 4, 5, 6), {"kernel_shape": [2, 3, 2], "strides": [2, 2, 1], "pads": [1, 1, 0, 0, 1, 1]}),
    "volumes by columns": ((1, 2, 4, 5, 6), {"kernel_shape": [2, 2, 2], "storage_order": 1}),
}


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_indices_are_those_of_onnxruntime(form: str, ties: bool) -> None:
    """The first of equal elements counts, also where the lowest value of all lies beside padding."""
    shape, attributes = FORMS[form]
    m = Qdq(seed=3)
    x = drawn(m, *shape)
    y = m.op("MaxPool", [m.op("Round", [x]) if ties else x], 2, **attributes)
    m.output(y)
    m.output(f"{y}_1")
    assert_same_values(m)


def test_indices_of_8_bits_pad_below_the_lowest_element() -> None:
    m = Qdq(seed=3)
    x = m.op("Cast", [drawn(m, 1, 2, 5, 5)], to=int(onnx.TensorProto.INT8))
    lowest = m.op("Min", [x, m.constant("lowest", np.int8(-128))])
    y = m.op("MaxPool", [lowest], 2, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    m.output(f"{y}_1")
    assert_same_values(m)


def test_a_storage_order_without_indices_changes_nothing() -> None:
    m = Qdq(seed=3)
    y = m.op("MaxPool", [m.input((1, 2, 6, 5))], kernel_shape=[2, 2], storage_order=1)
    m.output(m.op("Tanh", [y]))
    done = decompose(load(m.model().SerializeToString(), "unit.onnx"), "unit.onnx", {})
    (pool,) = (n for n in done.model.graph.node if n.op_type == "MaxPool")
    assert {a.name for a in pool.attribute} == {"kernel_shape"}


def unpooled(m: Qdq, further: tuple[int, ...] = ()) -> None:
    """An encoder and decoder as SegNet has them: pooled between quantized tensors, and unpooled to the same places."""
    x = m.input((2, 3, 6, 8))
    y = m.op("MaxPool", [x], 2, kernel_shape=[2, 2], strides=[2, 2])
    pooled = m.quantize(y, like=x)
    scaled = m.quantize(m.op("Conv", [pooled, m.weight((3, 3, 1, 1))]))
    inputs = [scaled, f"{y}_1"] + ([m.constant("sizes", np.array(further, np.int64))] if further else [])
    m.output(m.quantize(m.op("MaxUnpool", inputs, kernel_shape=[2, 2], strides=[2, 2])))


@pytest.mark.parametrize("further", [(), (2, 3, 7, 9)])
def test_unpooling_is_verified(further: tuple[int, ...], tmp_path: Path) -> None:
    m = Qdq(seed=4)
    unpooled(m, further)
    assert_same_values(m)
    assert not passes(m.model(), tmp_path).islands


def sizes_at_run_time(m: Qdq) -> None:
    unpooled(m)
    node = next(n for n in m.nodes if n.op_type == "MaxUnpool")
    node.input.append(m.op("Add", [m.integers((4,), 3, "int64"), m.constant("size", np.array([2, 3, 6, 8]))]))


def same_with_dilations(m: Qdq) -> None:
    window = {"kernel_shape": [2, 2], "dilations": [2, 2], "auto_pad": "SAME_UPPER"}
    m.output(f"{m.op('MaxPool', [m.input((1, 2, 6, 5))], 2, **window)}_1")


def too_many_elements(m: Qdq) -> None:
    y = m.op("MaxPool", [m.input((1, 64, 64, 64))], 2, kernel_shape=[64, 64], auto_pad="SAME_UPPER")
    m.output(m.op("Cast", [f"{y}_1"], to=int(helper.TensorProto.FLOAT)))


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (sizes_at_run_time, r"MaxUnpool\): its output_shape is computed at run time"),
        (same_with_dilations, r"MaxPool\): auto_pad=SAME with dilations is not supported"),
        (too_many_elements, r"MaxPool\): the Indices of windows with more than 2\^25 elements"),
    ],
)
def test_refused_by_name(build: Any, said: str) -> None:
    refused(build, said)


def by_columns(m: Qdq) -> None:
    for attributes in ({"storage_order": 1}, {"pads": [1, 0, 1, 0], "strides": [2, 1], "dilations": [1, 2]}):
        y = m.op("MaxPool", [drawn(m, 1, 2, 6, 5)], 2, kernel_shape=[2, 2], **attributes)
        m.output(y)
        m.output(f"{y}_1")


def unpooled_to_size(m: Qdq) -> None:
    unpooled(m, (2, 3, 7, 9))


GOOD = {"indices": by_columns, "unpooled": unpooled_to_size}
