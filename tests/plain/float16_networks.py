"""Small networks with float16 inputs and outputs, in the styles of the tools that write them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.ops.qdq import Build, Qdq

FLOAT, FLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16


def half_input(m: Qdq, *shape: int) -> str:
    name = f"in{len(m.inputs)}"
    m.inputs.append(helper.make_tensor_value_info(name, FLOAT16, shape))
    m.feed[name] = m.rng.uniform(-2, 3, shape).astype(np.float16)
    return name


def halves(m: Qdq, *shape: int) -> str:
    return m.constant(f"c{len(m.constants)}", m.rng.normal(size=shape).astype(np.float16))


def by_half(m: Qdq, source: str, scale: float) -> str:
    """Q and DQ by a scale of float16."""
    return m.pair(source, np.float16(scale), np.array(100, "uint8"))


def half_weight(m: Qdq, *shape: int) -> str:
    """An int8 constant with a float16 scale for each row."""
    name = m.constant(f"w{len(m.constants)}", m.rng.integers(-127, 128, shape).astype(np.int8))
    scale = m.constant(f"{name}_s", m.rng.uniform(0.01, 0.02, shape[0]).astype(np.float16))
    zero = m.constant(f"{name}_z", np.zeros(shape[0], np.int8))
    return m.op("DequantizeLinear", [name, scale, zero], axis=0)


def quantized_by_halves(m: Qdq) -> None:
    """The input and the output are quantized by float16 scales."""
    x = by_half(m, half_input(m, 1, 3, 6, 5), 0.02)
    y = m.op("Conv", [x, half_weight(m, 4, 3, 3, 3), halves(m, 4)], pads=[1, 1, 1, 1])
    m.output(by_half(m, m.op("Relu", [y]), 0.05))


def cast_at_the_end(m: Qdq) -> None:
    """A float32 network, of which only the output is float16."""
    x = m.input((1, 3, 7, 5))
    y = m.quantize(m.op("Conv", [x, m.weight((2, 3, 3, 3), axis=0)]))
    m.output(m.op("Cast", [y], to=FLOAT16))


def cast_behind_the_input(m: Qdq) -> None:
    """A float32 network, of which only the input is float16."""
    x = m.op("Cast", [half_input(m, 1, 3, 7, 5)], to=FLOAT)
    x = m.pair(x, *m.parameters(-2, 3, "uint8"))
    m.output(m.quantize(m.op("Conv", [x, m.weight((2, 3, 3, 3), axis=0)])))


def in_blocks(m: Qdq) -> None:
    """A MatMulNBits of float16."""
    depth, rows = 32, 5
    x = m.op("Mul", [half_input(m, 3, depth), m.constant("twice", np.float16(2))])
    packed = m.constant("packed", m.rng.integers(0, 256, (rows, depth // 16, 8)).astype(np.uint8))
    scales = m.constant("scales", m.rng.uniform(0.01, 0.03, rows * depth // 16).astype(np.float16))
    attrs = {"K": depth, "N": rows, "bits": 4, "block_size": 16}
    m.output(m.op("MatMulNBits", [x, packed, scales], domain="com.microsoft", **attrs))


def an_island_of_float16(m: Qdq) -> None:
    """A LayerNormalization of float16 behind quantized tensors."""
    x = m.op("Cast", [m.input((2, 5, 8))], to=FLOAT16)
    m.output(m.op("LayerNormalization", [x, halves(m, 8), halves(m, 8)]))


def a_sum_as_both(m: Qdq) -> None:
    """A float32 sum that is an output, and an output as float16."""
    x, w = m.input((3, 11)), m.weight((4, 11), axis=0)
    y = m.op("Gemm", [x, w, m.constant("b", m.rng.normal(size=4).astype(np.float32))], transB=1)
    m.output(y)
    m.output(m.op("Cast", [y], to=FLOAT16))


def read_by_many(m: Qdq) -> None:
    """An input and an output that several nodes read; further outputs: a copy of the input, indices, float32."""
    x = half_input(m, 2, 6)
    plain = m.op("Cast", [x], to=FLOAT)
    y = m.op("Add", [by_half(m, x, 0.02), x])
    for name in (y, m.op("Identity", [x]), m.op("ArgMax", [y], axis=1), m.op("Sigmoid", [plain]), m.op("Tanh", [y])):
        m.output(name)


def moved_at_both_ends(m: Qdq) -> None:
    """Movements behind the input and before the output."""
    x = m.op("Transpose", [half_input(m, 2, 3, 4)], perm=[0, 2, 1])
    y = by_half(m, m.op("Softmax", [by_half(m, x, 0.02)]), 0.004)
    m.output(m.op("Transpose", [m.op("Reshape", [y, m.constant("dims", np.array([4, 6]))])]))


def quantized_at_run_time(m: Qdq) -> None:
    """DynamicQuantizeLinear and MatMulInteger between casts."""
    parts = m.op("DynamicQuantizeLinear", [m.op("Cast", [half_input(m, 3, 9)], to=FLOAT)], 3)
    w = m.constant("w", m.rng.integers(-127, 128, (9, 4)).astype(np.int8))
    y = m.op("Cast", [m.op("MatMulInteger", [parts, w, f"{parts}_2"])], to=FLOAT)
    y = m.op("Mul", [y, m.op("Mul", [f"{parts}_1", m.constant("ws", np.float32(0.01))])])
    m.output(m.op("Cast", [m.op("Relu", [y])], to=FLOAT16))


def beyond_float16(m: Qdq) -> None:
    """An input that is subnormal, and an output that is subnormal and large; scales of float32."""
    x = m.op("Cast", [half_input(m, 4, 5)], to=FLOAT)
    x = m.pair(x, np.float32(2e-7), np.array(128, "uint8"))
    m.output(m.op("Cast", [x], to=FLOAT16))
    m.output(m.op("Cast", [m.op("Mul", [x, m.constant("large", np.float32(2.4e9))])], to=FLOAT16))


def a_choice(m: Qdq) -> None:
    """An If whose branches read a float16 tensor and a float16 constant of the graph around it; an output of its own."""
    y = by_half(m, half_input(m, 2, 6), 0.02)
    k = halves(m, 6)
    branches = {"then_branch": ("Mul", "t", [y, k]), "else_branch": ("Add", "e", [k, y])}
    graphs = {
        branch: helper.make_graph(
            [helper.make_node(kind, read, [made])], made, [], [helper.make_tensor_value_info(made, FLOAT16, (2, 6))]
        )
        for branch, (kind, made, read) in branches.items()
    }
    large = m.op("Greater", [m.op("ReduceMax", [y], keepdims=0), m.constant("zero", np.float16(0))])
    chosen = m.op("If", [large], **graphs)
    m.output(chosen)
    m.output(by_half(m, m.op("Sigmoid", [chosen]), 0.004))


def a_loop(m: Qdq) -> None:
    """A Loop that carries a float16 tensor from step to step, as often as values decide. ONNX does not infer the type of
    its result."""
    state, following = (helper.make_tensor_value_info(n, FLOAT16, (2, 6)) for n in ("state", "next"))
    go, done = (helper.make_tensor_value_info(n, TensorProto.BOOL, ()) for n in ("go", "done"))
    step = helper.make_tensor_value_info("step", TensorProto.INT64, ())
    nodes = [helper.make_node("Identity", ["go"], ["done"]), helper.make_node("Mul", ["state", "half"], ["next"])]
    factor = numpy_helper.from_array(np.array(0.5, np.float16), "half")
    body = helper.make_graph(nodes, "body", [step, go, state], [done, following], [factor])
    x = by_half(m, half_input(m, 2, 6), 0.02)
    low = m.op("Less", [m.op("ReduceMax", [x], keepdims=0), m.constant("high", np.float16(1000))])
    steps = m.op("Add", [m.op("Cast", [low], to=TensorProto.INT64), m.constant("two", np.array(2))])
    y = m.op("Loop", [steps, m.constant("always", np.array(True)), x], body=body)
    m.output(by_half(m, y, 0.01))
    m.output(m.op("Exp", [x]))


def chosen_rows(m: Qdq) -> None:
    """Rows that depend on the values, whose number is not known, times a float16 constant."""
    x = by_half(m, half_input(m, 5, 6), 0.02)
    first = m.op("Gather", [x, m.constant("column", np.array(0))], axis=1)
    at = m.op("Squeeze", [m.op("NonZero", [m.op("Relu", [first])]), m.constant("axis", np.array([0]))])
    rows = m.op("Mul", [m.op("Gather", [x, at]), halves(m, 6)])
    m.output(m.op("ReduceSum", [rows, m.constant("rows", np.array([0]))]))
    m.output(m.op("Exp", [x]))


AROUND_HOST = (a_choice, a_loop, chosen_rows)  # a part of each is computed on the host
NETWORKS = (
    quantized_by_halves,
    cast_at_the_end,
    cast_behind_the_input,
    in_blocks,
    an_island_of_float16,
    a_sum_as_both,
    read_by_many,
    moved_at_both_ends,
    quantized_at_run_time,
    beyond_float16,
)


def built(build: Build) -> onnx.ModelProto:
    """Returns the network. ONNX does not infer the type of the MatMulNBits, which is float16."""
    m = Qdq(seed=5, opset=19)
    build(m)
    model = m.model()
    for output in model.graph.output if build is in_blocks else ():
        output.type.tensor_type.elem_type = FLOAT16
    return model
