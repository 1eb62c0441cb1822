"""A quantized mask of the lowest float32 is minus infinity after its DequantizeLinear, since the scale is rounded up; the sum
is quantized to the least integer, not to that of the mask."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qverify.compare.options import Options
from qverify.compiler.compile_model import compile_model
from qverify.session.job import verify
from qverify.session.request import Request

from tests.ops.qdq import Qdq
from tests.plain.verified_model import verified

LOWEST = float(np.finfo(np.float32).min)


def masked_scores(dtype: str, diagonal: int = 1) -> Qdq:
    """Scores and a mask above a diagonal, both quantized around zero, then a Softmax."""
    m = Qdq(dtype, symmetric=True, seed=4)
    most = np.iinfo(dtype).max
    scale = np.nextafter(np.float32(-LOWEST / most), np.float32(np.inf))
    mask = np.triu(np.full((6, 6), -most), diagonal).astype(dtype)
    parameters = [m.constant("mask_scale", scale), m.constant("mask_zp", np.array(0, dtype))]
    floats = m.op("DequantizeLinear", [m.constant("mask", mask), *parameters])
    total = m.op("Add", [m.input((1, 2, 6, 6)), floats])
    m.output(m.op("Softmax", [m.pair(total, np.float32(scale), np.array(0, dtype))], axis=-1))
    return m


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_mask_that_overflows_is_a_float(dtype: str, tmp_path: Path) -> None:
    verified(masked_scores(dtype).model(), tmp_path)


def test_a_row_that_is_masked_whole_is_not_checked_against_nan(tmp_path: Path) -> None:
    """onnxruntime's float Softmax of minus infinities is NaN; the integer one of the reference shares the row out."""
    m = masked_scores("int8", 0)
    whole = m.outputs.pop()
    m.output(m.pair(whole, np.float32(1 / 127), np.array(0, np.int8)))
    path = tmp_path / "q.onnx"
    path.write_bytes(m.model().SerializeToString())
    check = compile_model(path.read_bytes(), "q.onnx").graph.meta["check"]
    assert not check["over"] and check["not_checked"] == [f"{whole}_q"]
    report = verify(Request([str(path)], "local", options=Options(dump_all=True))).report
    assert report.verdict == "PASSED"
