"""A refusal of a tensor's type names what the operator supports there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.compiler.supported_types import QUANTIZED, supported_types
from qverify.errors import UnsupportedError

FLOAT = "wanted float32 (float16 is computed in it), "
INTEGERS = "int32, int64, uint8, int8, "


def refusal(kind: str, dtype: int, *shapes: tuple[int, ...], **attrs: Any) -> str:
    names = [f"x{k}" for k in range(len(shapes))]
    made = [helper.make_tensor_value_info(n, dtype, s) for n, s in zip(names, shapes, strict=True)]
    nodes = [
        helper.make_node("QuantizeLinear", ["beside", "scale"], ["beside_q"], name="beside_n"),
        helper.make_node(kind, names, ["y"], name="here", **attrs),
    ]
    ends = [helper.make_tensor_value_info("beside", TensorProto.FLOAT, (3,))]
    finals = [
        helper.make_tensor_value_info("beside_q", TensorProto.UINT8, (3,)),
        helper.make_empty_tensor_value_info("y"),
    ]
    finals[1].type.tensor_type.elem_type = dtype
    graph = helper.make_graph(nodes, "g", [*ends, *made], finals, [numpy_helper.from_array(np.float32(0.1), "scale")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnsupportedError) as caught:
        compile_model(model.SerializeToString(), "q.onnx", CompilerOptions())
    return str(caught.value)


INT32 = TensorProto.INT32


def test_an_operator_of_floats_and_integers():
    assert supported_types("Abs") in f"{FLOAT}{INTEGERS}or {QUANTIZED}"
    assert supported_types("ReduceSum") in f"{FLOAT}int32, int64, or {QUANTIZED}"


def test_an_operator_of_floats():
    assert f"(ReduceL1): 'y' is int32; {FLOAT}or {QUANTIZED}" in refusal("ReduceL1", INT32, (2, 3), keepdims=1)


def test_an_operator_with_another_for_integers():
    assert supported_types("MatMul") in f"{FLOAT}{QUANTIZED}, or MatMulInteger on integers of 8 bits"
    assert supported_types("LSTM").endswith("or DynamicQuantizeLSTM with weights of 8 bits")


def test_a_type_that_no_tensor_has():
    assert "'x0' is double; a tensor may be float32, " in refusal("Add", TensorProto.DOUBLE, (2, 3), (2, 3))


def test_an_einsum_names_the_operand_and_its_type():
    said = refusal("Einsum", INT32, (2, 3), (3, 4), equation="ij,jk->ik")
    assert "operand 'x0' is int32; wanted float32, also between tensors quantized to 8 or 16 bits" in said
