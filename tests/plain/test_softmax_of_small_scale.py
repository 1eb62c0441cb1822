"""A Softmax whose output scale is so small that QLinearSoftmax overflows is computed as a float."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.compiler.compile_model import compile_model


def model(scale: float, depth: int) -> bytes:
    """x -> Q -> DQ -> Softmax -> Q -> DQ; scale: of the last."""
    held = {"sx": np.float32(0.02), "zx": np.uint8(128), "sy": np.float32(scale), "zy": np.uint8(0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["xq"], name="n0"),
        helper.make_node("DequantizeLinear", ["xq", "sx", "zx"], ["xd"], name="n1"),
        helper.make_node("Softmax", ["xd"], ["p"], name="n2", axis=-1),
        helper.make_node("QuantizeLinear", ["p", "sy", "zy"], ["yq"], name="n3"),
        helper.make_node("DequantizeLinear", ["yq", "sy", "zy"], ["y"], name="n4"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (5, depth)), ("y", None))]
    constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in held.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize(
    ("scale", "depth", "op"),
    [(1 / 256, 16, "softmax"), (4.5e-4, 16, "softmax"), (3.9e-4, 16, "softmax_float"), (3.9e-4, 64, "softmax")],
)
def test_what_overflows_stays_float(scale: float, depth: int, op: str) -> None:
    graph = compile_model(model(scale, depth), "m").graph
    assert op in {n.op for n in graph.nodes}
    assert graph.meta["check"]["worst_lsb"] <= 1 and not graph.meta["check"]["over"]
