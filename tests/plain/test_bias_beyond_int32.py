"""A float bias of more steps of the products than an int32 sum has room for is added as a float."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.compiler.compile_model import compile_model


def model(kind: str, scale: float) -> bytes:
    """x -> Q -> DQ -> Conv or Gemm with a float bias of about 3 -> Relu -> Q -> DQ; scale: of x."""
    shape, weights = ((1, 4, 3, 3), (5, 4, 1, 1)) if kind == "Conv" else ((2, 4), (4, 5))
    rng = np.random.default_rng(1)
    held = {
        "sx": np.float32(scale),
        "zx": np.uint8(0),
        "w": rng.integers(-127, 128, weights).astype(np.int8),
        "sw": np.float32(0.004),
        "zw": np.int8(0),
        "b": rng.normal(0, 3, 5).astype(np.float32),
        "sy": np.float32(0.05),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["xq"], name="n0"),
        helper.make_node("DequantizeLinear", ["xq", "sx", "zx"], ["xd"], name="n1"),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wd"], name="n2"),
        helper.make_node(kind, ["xd", "wd", "b"], ["m"], name="n3"),
        helper.make_node("Relu", ["m"], ["r"], name="n4"),
        helper.make_node("QuantizeLinear", ["r", "sy", "zx"], ["yq"], name="n5"),
        helper.make_node("DequantizeLinear", ["yq", "sy", "zx"], ["y"], name="n6"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", None))]
    initializers = [numpy_helper.from_array(np.asarray(v), n) for n, v in held.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("kind", ["Conv", "Gemm"])
@pytest.mark.parametrize(("scale", "dtype"), [(1e-2, "int32"), (1e-7, "float32")])
def test_a_bias_that_int32_cannot_contain(kind: str, scale: float, dtype: str) -> None:
    graph = compile_model(model(kind, scale), "m").graph
    (node,) = [n for n in graph.nodes if n.op in ("conv", "fully_connected")]
    assert graph.spec(node.inputs[2] or "").dtype == dtype
    assert graph.meta["check"]["worst_lsb"] == 0 and not graph.meta["check"]["over"]
