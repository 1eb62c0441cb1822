"""A quantized mask of the lowest float32 is minus infinity after its DequantizeLinear, since the scale is rounded up; the sum
is quantized to the least integer, not to that of the mask."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.ops.qdq import Qdq
from tests.plain.verified_model import verified

LOWEST = float(np.finfo(np.float32).min)


def masked_scores(dtype: str) -> Qdq:
    """Scores and a causal mask, both quantized around zero, then a Softmax."""
    m = Qdq(dtype, symmetric=True, seed=4)
    most = np.iinfo(dtype).max
    scale = np.nextafter(np.float32(-LOWEST / most), np.float32(np.inf))
    mask = np.triu(np.full((6, 6), -most), 1).astype(dtype)
    parameters = [m.constant("mask_scale", scale), m.constant("mask_zp", np.array(0, dtype))]
    floats = m.op("DequantizeLinear", [m.constant("mask", mask), *parameters])
    total = m.op("Add", [m.input((1, 2, 6, 6)), floats])
    m.output(m.op("Softmax", [m.pair(total, np.float32(scale), np.array(0, dtype))], axis=-1))
    return m


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_mask_that_overflows_is_a_float(dtype: str, tmp_path: Path) -> None:
    verified(masked_scores(dtype).model(), tmp_path)
