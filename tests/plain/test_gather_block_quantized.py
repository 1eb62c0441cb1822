"""GatherBlockQuantized: rows of a table that is stored in blocks of few bits, the numbers that onnxruntime computes with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from qverify.compiler.compile_model import compile_model
from qverify.errors import QVerifyError, UnsupportedError

from tests.ops.qdq import Qdq
from tests.plain.verified_model import verified

MICROSOFT = "com.microsoft"


def gathered(m: Qdq, rows: int, columns: int, bits: int, zeros: bool, **attributes: Any) -> str:
    """A table of uint8, packed along the last axis, and rows of it that are chosen by the input."""
    blocks = -(-columns // attributes["block_size"])
    data = m.constant("data", m.rng.integers(0, 256, (rows, columns * bits // 8), np.uint8))
    scales = m.constant("scales", m.rng.uniform(0.01, 0.1, (rows, blocks)).astype(np.float32))
    zero = [m.constant("zeros", m.rng.integers(0, 256, (rows, -(-blocks * bits // 8)), np.uint8))] if zeros else []
    y = m.op("GatherBlockQuantized", [data, indices(m, rows), scales, *zero], 1, MICROSOFT, bits=bits, **attributes)
    m.kinds[y] = (3, columns)
    return y


def indices(m: Qdq, rows: int) -> str:
    m.inputs.append(helper.make_tensor_value_info("at", TensorProto.INT64, (3,)))
    m.feed["at"] = m.rng.integers(0, rows, 3)
    return "at"


@pytest.mark.parametrize("zeros", [True, False], ids=["zeros", "symmetric"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rows_of_bytes(bits: int, zeros: bool, tmp_path: Path) -> None:
    m = Qdq(seed=bits, opset=21)
    y = gathered(m, 11, 48, bits, zeros, block_size=32, quantize_axis=1)
    m.output(m.quantize(y))
    m.output(y)
    assert not verified(m.model(), tmp_path).islands


@pytest.mark.parametrize("kind", ["int4", "uint4"])
def test_columns_of_small_integers(kind: str, tmp_path: Path) -> None:
    """Blocks along the first axis, elements along the second."""
    m = Qdq(seed=3, opset=21)
    dtype, low = helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(kind.upper())), -8 if kind == "int4" else 0
    for name, shape in (("data", (40, 13)), ("zeros", (3, 13))):
        m.constant(name, m.rng.integers(low, low + 16, shape).astype(dtype))
    scales = m.constant("scales", m.rng.uniform(0.01, 0.1, (3, 13)).astype(np.float32))
    attributes = {"block_size": 16, "gather_axis": 1, "quantize_axis": 0}
    y = m.op("GatherBlockQuantized", ["data", indices(m, 13), scales, "zeros"], 1, MICROSOFT, **attributes)
    m.kinds[y] = (40, 3)
    m.output(y)
    m.output(m.quantize(y))
    assert not verified(m.model(), tmp_path).islands


@pytest.mark.parametrize(("name", "value"), [("block_size", 16), ("block_size", 24), ("bits", 3), ("quantize_axis", 0)])
def test_what_does_not_fit_together_is_refused(name: str, value: int) -> None:
    m = Qdq(seed=1, opset=21)
    m.output(m.quantize(gathered(m, 11, 48, 4, False, block_size=32, quantize_axis=1)))
    node = next(n for n in m.nodes if n.op_type == "GatherBlockQuantized")
    next(a for a in node.attribute if a.name == name).i = value
    with pytest.raises(QVerifyError, match="GatherBlockQuantized"):
        compile_model(m.model().SerializeToString(), "q.onnx")


def test_scales_at_run_time_are_refused() -> None:
    m = Qdq(seed=1, opset=21)
    y = gathered(m, 11, 48, 4, False, block_size=32, quantize_axis=1)
    m.inputs.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, (11, 2)))
    m.feed["more"] = np.ones((11, 2), np.float32)
    m.nodes[-1].input[2] = "more"
    m.output(m.quantize(y))
    with pytest.raises(UnsupportedError, match="computed at run time; only constants can be compiled"):
        compile_model(m.model().SerializeToString(), "q.onnx")
