"""Constants of float8 that nodes compute are folded as float8, not as the numbers of their bytes."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from qverify.onnx_model.fold_constants import fold_constants


def test_float8() -> None:
    number = TensorProto.FLOAT8E4M3FN
    dtype = helper.tensor_dtype_to_np_dtype(number)
    weight = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
    constants = [
        numpy_helper.from_array(weight, "w"),
        numpy_helper.from_array(np.float32(0.5), "s"),
        numpy_helper.from_array(np.zeros((), dtype), "z"),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, (3, 4))] for n in ("x", "y")]
    graph = helper.make_graph(nodes, "g", *ends, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    fold_constants(model, {})
    folded = {i.name: i for i in model.graph.initializer}["q"]
    assert folded.data_type == number and [n.op_type for n in model.graph.node] == ["DequantizeLinear", "Add"]
    assert np.array_equal(
        numpy_helper.to_array(folded).astype(np.float32), (weight / 0.5).astype(dtype).astype(np.float32)
    )
    onnx.checker.check_model(model)
