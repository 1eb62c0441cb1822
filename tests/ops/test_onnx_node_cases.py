"""ONNX's own node tests of whole numbers, logic and indices: each gives ONNX's result, or is refused in words."""

from __future__ import annotations

import importlib
import pkgutil
import re
import warnings
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import QVerifyError
from qverify.sides.simulator import Simulator
from qverify.tensors.prepared import PreparedInput, PreparedInputs

KINDS = (
    "Abs Add And ArgMax ArgMin BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Clip CumSum Div Equal Expand Gather",
    "GatherElements GatherND Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Max Min Mod Mul Neg NonMaxSuppression Not",
    "BitShift CastLike EyeLike Hardmax LayerNormalization MatMul MatMulInteger Pad ReverseSequence",
    "OneHot Or ReduceMax ReduceMin ReduceProd ReduceSum Scatter ScatterElements ScatterND Sign Sub Tile TopK Trilu Where Xor",
)
OPERATORS = {kind for line in KINDS for kind in line.split()}
CONSTANT = {  # inputs that have to be constants here
    **dict.fromkeys(("TopK", "Tile", "Expand", "CumSum", "OneHot", "Trilu"), (1,)),
    **dict.fromkeys(("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"), (1,)),
    **dict.fromkeys(("NonMaxSuppression",), (2, 3, 4)),
    **dict.fromkeys(("Clip",), (1, 2)),
    **dict.fromkeys(("BitShift",), (1,)),
    **dict.fromkeys(("Pad",), (1, 2, 3)),
}
ELEMENTS = {
    int(getattr(TensorProto, t))
    for t in ["FLOAT", "FLOAT16", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "BOOL"]
}


REFUSED = re.compile(  # cases that have no kernel, and nothing else
    "test_(?:bitshift_(?:left|right)_int(?:8|16|32|64).*|eyelike_with_dtype"  # double
    "|cast_(?:no_saturate_|e8m0_)?FLOAT(?:16)?_to_(?:BFLOAT16|DOUBLE|FLOAT[48].*|U?INT[24])"
    "|onehot_with_(?:negative_)?axis|reduce_(?:max|min)_bool_inputs"
    "|mod_(?:float.*|int64_fmod|mixed_sign_(?:float32|float16)|float(?:16|32)_mixed_sign_fmod_0)"
    "|reduce_.*empty_set.*|tri[lu]_zero|castlike_.*FLOAT16.*|scatter_with(?:out)?_axis)"  # no elements; Scatter is deprecated
)


def cases(operators: set[str] = OPERATORS) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case import node

        for module in pkgutil.iter_modules(node.__path__, f"{node.__name__}."):  # each adds its cases
            if "pool" not in module.name:  # which take seconds, and are none of OPERATORS
                importlib.import_module(module.name)
    every = node._NodeTestCases
    return [c for c in every if c.model and len(c.model.graph.node) == 1 and c.model.graph.node[0].op_type in operators]


def quantized(model: onnx.ModelProto, values: dict[str, Any]) -> onnx.ModelProto:
    """The node with its shape-giving inputs as constants, beside x -> Q -> DQ, without which qverify takes no model."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    node, graph = made.graph.node[0], made.graph
    held = [n for at, n in enumerate(node.input) if n in values and at in CONSTANT.get(node.op_type, ())]
    graph.initializer.extend(numpy_helper.from_array(values[n], n) for n in held)
    inputs = [i for i in graph.input if i.name not in held]
    del graph.input[:]
    graph.input.extend([*inputs, helper.make_tensor_value_info("beside", TensorProto.FLOAT, [2])])
    graph.initializer.extend(
        [numpy_helper.from_array(np.float32(0.1), "beside_s"), numpy_helper.from_array(np.uint8(1), "beside_z")]
    )
    graph.node.append(helper.make_node("QuantizeLinear", ["beside", "beside_s", "beside_z"], ["beside_q"]))
    graph.output.append(helper.make_tensor_value_info("beside_q", TensorProto.UINT8, [2]))
    made.ir_version = min(made.ir_version, 10)
    for domain in made.opset_import:
        domain.version = min(max(domain.version, 13), 22)
    return made


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def computed(case: Any) -> tuple[list[Any], list[Any]]:
    """What ONNX expects and what the simulator gives, output by output."""
    inputs, outputs = case.data_sets[0]
    values = {i.name: _array(v) for i, v in zip(case.model.graph.input, inputs, strict=True)}
    graph = compile_model(
        quantized(case.model, values).SerializeToString(), case.name, CompilerOptions(check=False)
    ).graph
    feed = {**values, "beside": np.zeros(2, np.float32)}
    given = [PreparedInput(graph.spec(n), np.ascontiguousarray(feed[n]).tobytes(), "onnx") for n in graph.inputs]
    made = Simulator(graph).run(PreparedInputs(tuple(given))).tensors
    wanted = [_array(w) for w in outputs]
    mine = [made[o.name] for o in case.model.graph.output]
    if case.model.graph.node[0].op_type == "NonMaxSuppression":
        mine = [y[: len(w)] for y, w in zip(mine, wanted, strict=True)]
    return wanted, mine


def test_each_is_right_or_refused() -> None:
    right, wrong, refused = [], [], []
    for case in cases():
        if any(i.type.tensor_type.elem_type not in ELEMENTS for i in case.model.graph.input):
            continue
        try:
            wanted, mine = computed(case)
        except QVerifyError as error:
            refused.append((case.name, str(error)))
            continue
        same = all(
            w.shape == y.shape and np.allclose(w.astype(float), y.astype(float), 1e-5, 1e-6, equal_nan=True)
            for w, y in zip(wanted, mine, strict=True)
        )
        (right if same else wrong).append(case.name)
    assert not wrong
    assert all("\n" not in text for _, text in refused)
    assert [(name, text) for name, text in refused if not REFUSED.fullmatch(name)] == []
    assert len(right) >= 320
