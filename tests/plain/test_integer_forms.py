"""Tests of forms that the integer ONNX needs for each node by itself: a bias that two nodes read, a Clip before opset 12, a sum that no
integer kernel can compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.ops.qdq import Qdq
from tests.plain.verified_model import verified


def on_two_scales(m: Qdq, kind: str, bias: str) -> None:
    """Adds two nodes of this kind that read one bias; their inputs have different scales."""
    weight = m.weight((5, 4, 3, 3) if kind == "Conv" else (4, 5), axis=0 if kind == "Conv" else 1)
    for low, high in ((-1.0, 1.0), (-3.0, 5.0)):
        x = m.input((1, 4, 6, 5) if kind == "Conv" else (3, 4), low, high)
        m.output(m.quantize(m.op(kind, [x, weight, bias])))


@pytest.mark.parametrize("kind", ["Conv", "Gemm"])
@pytest.mark.parametrize("stored", ["float", "int8"])
def test_a_bias_of_two_nodes_is_quantized_for_each(kind: str, stored: str, tmp_path: Path) -> None:
    m = Qdq(seed=2)
    if stored == "float":
        bias = m.constant("bias", m.rng.uniform(-1, 1, 5).astype(np.float32))
    else:
        integers = m.constant("b", m.rng.integers(-90, 90, 5).astype(np.int8))
        scale = [m.constant("bs", np.float32(0.011)), m.constant("bz", np.int8(0))]
        bias = m.op("DequantizeLinear", [integers, *scale])
    on_two_scales(m, kind, bias)
    graph = verified(m.model(), tmp_path)
    first, second = (graph.constants[n.inputs[2] or ""] for n in graph.nodes if n.op in ("conv", "fully_connected"))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("act", ["uint8", "int8"])
@pytest.mark.parametrize("opset", [10, 11, 12])
def test_limits_and_pools_of_integers_at_old_opsets(opset: int, act: str, tmp_path: Path) -> None:
    """onnxruntime clips and pools 8-bit integers from opset 12 on."""
    m = Qdq(act, seed=opset, opset=opset)
    x = m.input((1, 4, 7, 6), -2, 3)
    y = m.quantize(m.op("Relu", [m.op("Conv", [x, m.weight((5, 4, 3, 3))])]), crop=0.7)
    m.output(m.quantize(m.op("MaxPool", [y], kernel_shape=[2, 2]), like=y))
    m.output(m.quantize(m.op("Relu", [m.op("Add", [x, x])])))
    model = m.model()
    assert [o.version for o in model.opset_import if not o.domain] == [opset]
    assert not verified(model, tmp_path).islands


def test_limits_of_opset_10_are_attributes() -> None:
    from qverify.compiler.integer_kernels import with_known_kernels
    from qverify.compiler.unit import LoweredUnit, standard

    constants = {"low": np.array(3, np.int8), "high": np.array(90, np.int8)}
    unit = LoweredUnit(
        "y", lambda builder: None, onnx=[standard("Clip", ["x", "low", "high"], ["y"])], constants=constants
    )
    for opset, inputs in ((10, 1), (11, 3)):
        nodes = with_known_kernels(unit, opset).onnx
        assert [n.op_type for n in nodes] == ["DequantizeLinear", "Clip", "QuantizeLinear"]
        assert len(nodes[1].input) == inputs and nodes[0].input[0] == "x" and nodes[2].output[0] == "y"
        assert {a.name: helper.get_attribute_value(a) for a in nodes[1].attribute} == (
            {"min": 3.0, "max": 90.0} if opset == 10 else {}
        )
    assert with_known_kernels(unit, 12) is unit


def test_a_sum_with_a_mask_of_the_lowest_float_is_a_float_sum(tmp_path: Path) -> None:
    """For an attention mask with scale 1.2e36 and scores with scale 1e-9, the ratio of the scales is below float32."""
    m = Qdq(seed=1)
    scores, mask = m.input((1, 4, 8, 8), -1e-7, 1e-7), m.input((1, 1, 1, 8), -3e38, 0)
    m.constants |= {"in0_scale": np.float32(1e-9), "in0_zp": np.uint8(111)}
    m.output(m.quantize(m.op("Add", [scores, mask]), like=mask))
    graph = verified(m.model(), tmp_path)
    assert not graph.islands and "add" not in {node.op for node in graph.nodes}
