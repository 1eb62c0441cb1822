"""Constants of float8 that nodes compute are folded as float8, not as the numbers of their bytes; what is dequantized from
them, as float32: no kernel has weights of float8."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from qverify.onnx_model.fold_constants import fold_constants

NUMBER = TensorProto.FLOAT8E4M3FN
WEIGHT = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
ROUNDED = (WEIGHT / 0.5).astype(helper.tensor_dtype_to_np_dtype(NUMBER)).astype(np.float32)
JOIN = (
    helper.make_node("Concat", ["x8", "q2"], ["joined"], axis=0),
    helper.make_node("Cast", ["joined"], ["y"], to=TensorProto.FLOAT),
)


def folded(*last: onnx.NodeProto) -> onnx.ModelProto:
    """A constant that is quantized to float8 with step 0.5, and these nodes, which compute y from q; folded."""
    constants = [
        numpy_helper.from_array(WEIGHT, "w"),
        numpy_helper.from_array(np.float32(0.5), "s"),
        numpy_helper.from_array(np.zeros((), helper.tensor_dtype_to_np_dtype(NUMBER)), "z"),
    ]
    nodes = [helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"]), *last]
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, d)] for n, d in (("x", (3, 4)), ("y", ("rows", 4)))]
    graph = helper.make_graph(nodes, "g", *ends, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    fold_constants(model, {})
    onnx.checker.check_model(model)
    return model


def values(model: onnx.ModelProto, name: str) -> np.ndarray:
    return numpy_helper.to_array({i.name: i for i in model.graph.initializer}[name]).astype(np.float32)


def test_float8() -> None:
    model = folded(
        helper.make_node("Identity", ["q"], ["q2"]), helper.make_node("Cast", ["x"], ["x8"], to=NUMBER), *JOIN
    )
    read = {i for node in model.graph.node for i in node.input}
    (name,) = (i.name for i in model.graph.initializer if i.name in read and i.data_type == NUMBER)
    assert np.array_equal(values(model, name), ROUNDED)


def test_what_is_dequantized_from_float8_is_a_float32_constant() -> None:
    model = folded(
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]), helper.make_node("Add", ["x", "d"], ["y"])
    )
    assert [n.op_type for n in model.graph.node] == ["Add"]
    assert np.array_equal(values(model, "d"), ROUNDED * np.float32(0.5))
