"""Linear Resize of 8 bits with the channels last, which onnxruntime computes with weights of 10 fraction bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qverify.onnx_model.decompose import decompose
from qverify.onnx_model.load import load
from qverify.onnx_model.open_exposed import open_exposed

from tests.ops.qdq import Qdq
from tests.plain.test_channels_last import integers
from tests.plain.verified_model import passes

SIZES = [((1, 1), (12, 12)), ((5, 7), (13, 9)), ((8, 8), (4, 4)), ((3, 9), (7, 2)), ((6, 5), (1, 17)), ((5, 6), (7, 6))]
MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric")


def resized(m: Qdq, mode: str, dtype: type, size: tuple[int, ...], out: tuple[int, ...]) -> None:
    """Resizes integers over their whole range to a size."""
    x = integers(m, (2, *size, 3), dtype)
    m.constants[x[1]] = np.float32(1 / 127)
    m.constants[x[2]] = np.array(128 if dtype is np.uint8 else 0, dtype)
    sizes = m.constant("sizes", np.array([2, *out, 3], np.int64))
    y = m.op("Resize", [x[0], "", "", sizes], mode="linear", coordinate_transformation_mode=mode)
    m.output(m.op("DequantizeLinear", [y, *x[1:]]))


def with_scales(m: Qdq, dtype: type = np.uint8) -> None:
    """States scales that no quotient of sizes has."""
    x = integers(m, (2, 5, 7, 3), dtype)
    scales = m.constant("scales", np.array([1, 1.33, 2.71, 1], np.float32))
    y = m.op("Resize", [x[0], "", scales], mode="linear", coordinate_transformation_mode="asymmetric")
    m.output(m.op("DequantizeLinear", [y, *x[1:]]))


def assert_same_bits(m: Qdq) -> None:
    before = load(m.model().SerializeToString(), "unit.onnx")
    done = decompose(before, "unit.onnx", {})
    assert not done.refused and "Resize" not in {n.op_type for n in done.model.graph.node}
    theirs, mine = (next(iter(open_exposed(x, []).run(m.feed).values())) for x in (before, done.model))
    assert np.array_equal(theirs, mine)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("mode", MODES)
def test_bits_are_those_of_onnxruntime(mode: str, dtype: type) -> None:
    for seed, (size, out) in enumerate(SIZES):
        m = Qdq(seed=seed, opset=19)
        resized(m, mode, dtype, size, out)
        assert_same_bits(m)


def test_stated_scales_count() -> None:
    m = Qdq(seed=3)
    with_scales(m)
    assert_same_bits(m)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_a_resize_is_verified(dtype: type, tmp_path: Path) -> None:
    m = Qdq(seed=4)
    resized(m, "half_pixel", dtype, (5, 7), (13, 9))
    assert not passes(m.model(), tmp_path).islands
