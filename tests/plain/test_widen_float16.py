"""float16 and bfloat16 tensors: computed in float32, each result rounded; types that no model.bin has are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.compiler.compile_model import compile_model
from qverify.errors import UnsupportedError
from qverify.onnx_model.decompose import decompose
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.load import load
from qverify.ops import page

from tests.ops.qdq import Qdq
from tests.plain.verified_model import verified

FLOAT, FLOAT16, BFLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16


def halves(m: Qdq, *shape: int) -> str:
    return m.constant(f"c{len(m.constants)}", m.rng.normal(size=shape).astype(np.float16))


def pair(m: Qdq, source: str, scale: float, dtype: str = "uint8") -> str:
    """Q and DQ by a scale of float16."""
    inputs = [m.constant(f"{source}_s", np.float16(scale)), m.constant(f"{source}_z", np.array(3, dtype))]
    return m.op("DequantizeLinear", [m.op("QuantizeLinear", [source, *inputs]), *inputs])


def quantized_by_halves(m: Qdq) -> None:
    """What a converter of a quantized model writes: every scale, weight and sum is float16."""
    m.opset = 19
    x = pair(m, m.op("Cast", [m.input((1, 3, 6, 5))], to=FLOAT16), 0.02)
    w = m.constant("w", m.rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8))
    scales = [m.constant("ws", m.rng.uniform(0.01, 0.02, 4).astype(np.float16)), m.constant("wz", np.zeros(4, np.int8))]
    y = m.op("Conv", [x, m.op("DequantizeLinear", [w, *scales], axis=0), halves(m, 4)], pads=[1, 1, 1, 1])
    y = pair(m, m.op("Relu", [y]), 0.05)
    m.output(m.op("Cast", [m.op("Softmax", [m.op("Transpose", [y])])], to=FLOAT))


def mixed_types(m: Qdq) -> None:
    """From integers, to integers, to the same type, movements and sums with constants of float16."""
    x = m.op("Cast", [m.input((3, 4))], to=FLOAT16)
    whole = m.op("Cast", [m.op("Mul", [x, m.constant("ten", np.float16(10))])], to=TensorProto.INT64)
    y = m.op("Add", [m.op("Cast", [whole], to=FLOAT16), m.op("Cast", [x], to=FLOAT16)])
    parts = m.op("Split", [m.op("Concat", [y, halves(m, 3, 4)], axis=1)], 2, axis=1)
    m.output(m.op("Cast", [m.op("Sigmoid", [m.op("Max", [parts, f"{parts}_1"])])], to=FLOAT))


def a_chain(m: Qdq) -> None:
    """onnxruntime leaves out casts of its own, so that its Cosh of 9 reads a product that is not rounded."""
    x = m.op("Mul", [m.op("Cast", [m.input((3, 400), 8, 9)], to=FLOAT16), halves(m, 1)])
    x = m.op("Add", [x, m.constant("off", np.float16(0.31))])
    m.output(m.op("Cast", [m.op("Log", [m.op("Cosh", [x])])], to=FLOAT))


def turned_and_multiplied(m: Qdq) -> None:
    """onnxruntime's NchwcTransformer ends the process on it."""
    x = m.op("Transpose", [m.op("Cast", [m.input((3, 2, 5))], to=FLOAT16)], perm=[1, 2, 0])
    m.output(m.op("Cast", [m.op("Sigmoid", [m.op("MatMul", [x, halves(m, 3, 3)])])], to=FLOAT))


def weights_of_float16(m: Qdq) -> None:
    """Quantized weights alone: a cast makes them float16, so that they are a constant of it."""
    stored = m.constant("w", m.rng.integers(-127, 128, (4, 3)).astype(np.int8))
    scale, zero = m.constant("ws", np.float32(0.01)), m.constant("wz", np.array(0, np.int8))
    w = m.op("Cast", [m.op("DequantizeLinear", [stored, scale, zero])], to=FLOAT16)
    m.inputs.append(helper.make_tensor_value_info("x", FLOAT, (2, 4)))
    m.feed["x"] = m.rng.normal(size=(2, 4)).astype(np.float32)
    m.output(m.op("Cast", [m.op("MatMul", [m.op("Cast", ["x"], to=FLOAT16), w])], to=FLOAT))


def a_constant_that_is_quantized_twice(m: Qdq) -> None:
    """A movement is between; all of it depends on constants only."""
    m.opset = 19
    stored = m.constant("g", m.rng.integers(0, 255, 4).astype(np.uint8))
    scale, zero = m.constant("gs", np.float16(0.01)), m.constant("gz", np.array(3, np.uint8))
    gamma = m.op("DequantizeLinear", [stored, scale, zero])
    x = m.op("Cast", [m.input((2, 4))], to=FLOAT16)
    y = m.op("Mul", [x, pair(m, m.op("Identity", [gamma]), 0.01)])
    m.output(m.op("Cast", [m.op("Add", [y, gamma])], to=FLOAT))


def bfloat16_in_between(m: Qdq) -> None:
    """Movements with a constant, casts from integers, to float16 and back, an If; what reads it computes in float32."""
    x = m.op("Cast", [m.input((4, 6), -90, 90)], to=BFLOAT16)
    table = m.constant("table", m.rng.normal(size=(2, 6)).astype(ml_dtypes.bfloat16))
    y = m.op("Transpose", [m.op("Concat", [x, table], axis=0)])
    rows, flat = m.constant("rows", np.array([5, 0, 1])), m.constant("flat", np.array([2, -1]))
    parts = m.op("Split", [m.op("Reshape", [m.op("Gather", [y, rows]), flat])], 2)
    m.output(m.op("Exp", [m.op("Mul", [m.op("Cast", [parts], to=FLOAT), m.constant("little", np.float32(0.01))])]))
    m.output(m.quantize(m.op("Cast", [f"{parts}_1"], to=FLOAT)))
    whole = m.op("Cast", [m.op("Cast", [m.input((3, 5), -900, 900)], to=TensorProto.INT32)], to=BFLOAT16)
    m.output(m.op("Cast", [whole], to=FLOAT))
    m.output(m.op("Cast", [m.op("Cast", [m.op("Cast", [x], to=FLOAT16)], to=BFLOAT16)], to=FLOAT))


BUILDS = [
    bfloat16_in_between,
    quantized_by_halves,
    mixed_types,
    a_chain,
    turned_and_multiplied,
    weights_of_float16,
    a_constant_that_is_quantized_twice,
]


@pytest.mark.parametrize("build", BUILDS, ids=lambda b: b.__name__)
def test_verified(build: Callable[[Qdq], None], tmp_path: Path) -> None:
    m = Qdq(seed=5)
    build(m)
    verified(m.model(), tmp_path)


def test_only_what_computes_is_rounded() -> None:
    m = Qdq()
    mixed_types(m)
    model = load(m.model().SerializeToString(), "unit.onnx")
    after = decompose(model, "unit.onnx", {}).model
    rounded = {n.output[0] for n in after.graph.node if n.op_type == "Cast" and n.input[0].endswith("/float16")}
    kinds = {o: n.op_type for n in model.graph.node for o in n.output}
    assert sorted(kinds[n] for n in rounded) == ["Add", "Cast", "Cast", "Mul", "Sigmoid"]
    assert not [i.name for i in after.graph.initializer if i.data_type == FLOAT16]


def test_every_value_is_rounded_to_bfloat16_as_onnxruntime_does() -> None:
    """Ties, subnormals, the largest values, infinities, NaN."""
    m = Qdq()
    m.inputs.append(helper.make_tensor_value_info("x", FLOAT, (1 << 18,)))
    m.output(m.op("Relu", [m.input((2, 3))]))
    m.output(m.op("Cast", [m.op("Cast", ["x"], to=BFLOAT16)], to=FLOAT))
    graph = compile_model(m.model().SerializeToString(), "unit.onnx").graph
    node = next(n for n in graph.nodes if n.inputs == ("x",))
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    x = np.concatenate([upper + low for low in (0, 0x7FFF, 0x8000, 0x8001)]).astype(np.uint32).view(np.float32)
    mine, theirs = (
        page(node.op).simulate(node, [x], graph, None)[0],
        Engine(m.model().SerializeToString()).run({**m.feed, "x": x}),
    )
    assert np.array_equal(mine.view(np.uint32)[~np.isnan(x)], theirs[m.outputs[-1]].view(np.uint32)[~np.isnan(x)])
    assert np.isnan(mine[np.isnan(x)]).all() and np.isnan(theirs[m.outputs[-1]][np.isnan(x)]).all()


def foreign(zero: np.ndarray, opset: int) -> onnx.ModelProto:
    """x -> Q -> DQ -> y by a zero point of another type."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "quantize"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], "dequantize"),
    ]
    constants = [numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(zero, "z")]
    ends = [helper.make_tensor_value_info(n, FLOAT, (2, 3)) for n in "xy"]
    graph = helper.make_graph(nodes, "foreign", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_other_quantized_types_are_refused_by_name(kind: str) -> None:
    model = foreign(np.zeros((), getattr(ml_dtypes, kind)), 21)
    with pytest.raises(UnsupportedError, match=kind.replace("_", "_?")):
        compile_model(model.SerializeToString(), "unit.onnx")
