"""Models with a Loop or a Scan whose number of steps is known, and what they are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.ops.qdq import Qdq

FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
STEPS, BATCH, WIDTH = 5, 2, 3
node = helper.make_node


def declared(name: str, kind: int = FLOAT, shape: tuple[int, ...] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def graph(nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[Any], **constants: Any) -> onnx.GraphProto:
    held = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    ends = [[declared(v) if isinstance(v, str) else v for v in values] for values in (inputs, outputs)]
    return helper.make_graph(nodes, "body", *ends, held)


def loop_body(nodes: list[onnx.NodeProto], states: list[str], outputs: list[str], **constants: Any) -> onnx.GraphProto:
    """A body of a Loop. outputs: the condition, the states, what is stacked."""
    inputs = [declared("i", INT64, ()), declared("go", BOOL, ()), *states]
    return graph(nodes, inputs, [declared(outputs[0], BOOL, ()), *outputs[1:]], **constants)


def sequence(m: Qdq, *shape: int) -> str:
    return m.input(shape or (STEPS, BATCH, WIDTH))


def start(m: Qdq, name: str = "h0") -> str:
    return m.constant(name, m.rng.normal(size=(BATCH, WIDTH)).astype(np.float32))


def trips(m: Qdq, count: int = STEPS) -> str:
    return m.constant("trips", np.array(count))


def true(m: Qdq) -> str:
    return m.constant("true", np.array(True))


def finish(m: Qdq, *outputs: str) -> None:
    """Each output through a Sigmoid and a quantization, so that the board computes on all sides."""
    for name in outputs:
        m.output(m.op("Sigmoid", [name]))


CELL = [
    node("MatMul", ["h", "w"], ["hw"], name="product"), node("Add", ["hw", "x"], ["sum"]), node("Tanh", ["sum"], ["h2"]),
    node("Identity", ["h2"], ["y"]),
]  # fmt: skip
W = np.random.default_rng(7).normal(0, 0.5, (WIDTH, WIDTH)).astype(np.float32)
ALWAYS = node("Identity", ["go"], ["go2"])
COUNTED = [ALWAYS, node("Add", ["h", "x"], ["h2"])]


def scan(m: Qdq) -> None:
    body = graph(CELL, ["h", "x"], ["h2", "y"], w=W)
    finish(m, *outputs_of(m, m.op("Scan", [start(m), sequence(m)], 2, num_scan_inputs=1, body=body), 2))


def outputs_of(m: Qdq, first: str, count: int) -> list[str]:
    return [first, *(f"{first}_{at}" for at in range(1, count))]


def backward_scan(m: Qdq) -> None:
    body = graph(CELL, ["h", "x"], ["h2", "y", "sum"], w=W)
    more = {"scan_input_directions": [1], "scan_output_directions": [1, 0]}
    finish(m, *outputs_of(m, m.op("Scan", [start(m), sequence(m)], 3, num_scan_inputs=1, body=body, **more), 3))


def other_axes(m: Qdq) -> None:
    """Two inputs, along axis 1 and along the last one, in opposite directions; outputs along axis 1 and the last one."""
    nodes = [*CELL, node("Mul", ["h2", "k"], ["product"])]
    body = graph(nodes, ["h", "x", "k"], ["h2", "y", "product"], w=W)
    more = {
        "scan_input_axes": [1, -1],
        "scan_output_axes": [-1, 1],
        "scan_input_directions": [1, 0],
        "scan_output_directions": [0, 1],
    }
    inputs = [start(m), sequence(m, BATCH, STEPS, WIDTH), sequence(m, BATCH, WIDTH, STEPS)]
    finish(m, *outputs_of(m, m.op("Scan", inputs, 3, num_scan_inputs=2, body=body, **more), 3))


def old_scan(m: Qdq) -> None:
    """Writes opset 10, where Unsqueeze has its axes as an attribute."""
    m.opset = 10
    other = graph(CELL, ["h", "x"], ["h2", "y"], w=W)
    more = {"scan_input_axes": [1], "scan_output_axes": [1]}
    x = sequence(m, BATCH, STEPS, WIDTH)
    finish(m, *outputs_of(m, m.op("Scan", [start(m), x], 2, num_scan_inputs=1, body=other, **more), 2))


def several_states(m: Qdq) -> None:
    """States that change places; one output is not read, and one stacks the state before the step."""
    nodes = [
        node("Add", ["a", "x"], ["b2"]), node("Mul", ["b", "x"], ["unread"]), node("Identity", ["a"], ["before"]),
        node("Identity", ["b"], ["a2"]),
    ]  # fmt: skip
    body = graph(nodes, ["a", "b", "x"], ["a2", "b2", "unread", "before"])
    first = m.op("Scan", [start(m), start(m, "h1"), sequence(m)], 4, num_scan_inputs=1, body=body)
    finish(m, *(o for o in outputs_of(m, first, 4) if o != f"{first}_2"))


def no_state(m: Qdq) -> None:
    body = graph([node("Tanh", ["x"], ["y"])], ["x"], ["y"])
    finish(m, m.op("Scan", [sequence(m)], num_scan_inputs=1, body=body))


def no_stacked(m: Qdq) -> None:
    body = graph(CELL, ["h", "x"], ["h2"], w=W)
    finish(m, m.op("Scan", [start(m), sequence(m)], num_scan_inputs=1, body=body))


def one_step(m: Qdq) -> None:
    body = graph(CELL, ["h", "x"], ["h2", "y"], w=W)
    first = m.op("Scan", [start(m), sequence(m, 1, BATCH, WIDTH)], 2, num_scan_inputs=1, body=body)
    finish(m, *outputs_of(m, first, 2))


def many_steps(m: Qdq) -> None:
    """More slices than a node of model.bin has inputs."""
    body = graph([node("Add", ["h", "x"], ["sum"]), *CELL[2:]], ["h", "x"], ["h2", "y"])
    first = m.op("Scan", [start(m), sequence(m, 70, BATCH, WIDTH)], 2, num_scan_inputs=1, body=body)
    finish(m, *outputs_of(m, first, 2))


def loop(m: Qdq) -> None:
    """A condition that is handed on; the step's number is read."""
    nodes = [*COUNTED[:1], node("Gather", [x := sequence(m), "i"], ["x"]), COUNTED[1]]
    assert x
    body = loop_body(nodes, ["h"], ["go2", "h2", "h2"])
    finish(m, *outputs_of(m, m.op("Loop", [trips(m), true(m), start(m)], 2, body=body), 2))


def constant_condition(m: Qdq) -> None:
    """No condition from outside; the body's is a constant."""
    nodes = [node("Add", ["h", sequence(m, BATCH, WIDTH)], ["h2"])]
    body = loop_body(nodes, ["h"], ["yes", "h2"], yes=np.array(True))
    finish(m, m.op("Loop", [trips(m), "", start(m)], body=body))


def constant_node(m: Qdq) -> None:
    """The body's condition is a Constant node, and its constants are such nodes, too."""
    nodes = [
        node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True))),
        node("Constant", [], ["half"], value_float=0.5),
        node("Mul", ["h", "half"], ["less"]),
        node("Add", ["less", sequence(m, BATCH, WIDTH)], ["h2"]),
    ]
    finish(m, m.op("Loop", [trips(m), true(m), start(m)], body=loop_body(nodes, ["h"], ["yes", "h2"])))


def while_loop(m: Qdq) -> None:
    """TensorFlow writes it so: no number of steps; the condition compares a state with a constant."""
    x, one, last = sequence(m), m.constant("one", np.array(1)), m.constant("last", np.array(STEPS - 1))
    nodes = [
        node("Gather", [x, "at"], ["x"]), *CELL, node("Add", ["at", one], ["at2"]), node("LessOrEqual", ["at2", last], ["go2"]),
    ]  # fmt: skip
    body = loop_body(nodes, ["at", "h"], ["go2", "at2", "h2", "h2"], w=W)
    body.input[2].CopyFrom(declared("at", INT64, ()))
    body.output[1].CopyFrom(declared("at2", INT64, ()))
    first = m.op("Loop", ["", true(m), m.constant("zero", np.array(0)), start(m)], 3, body=body)
    finish(m, f"{first}_1", f"{first}_2")


def by_shape(m: Qdq) -> None:
    """The number of steps is a dim of the input."""
    x = sequence(m)
    count = m.op("Gather", [m.op("Shape", [x]), m.constant("zero", np.array(0))])
    nodes = [ALWAYS, node("Gather", [x, "i"], ["x"]), *CELL]
    finish(m, m.op("Loop", [count, true(m), start(m)], body=loop_body(nodes, ["h"], ["go2", "h2"], w=W)))


def no_steps(m: Qdq) -> None:
    """The states are returned as they are; what would be stacked is not read."""
    x = m.op("Tanh", [sequence(m, BATCH, WIDTH)])
    body = loop_body([ALWAYS, node("Add", ["h", x], ["h2"])], ["h"], ["go2", "h2", "h2"])
    finish(m, m.op("Loop", [trips(m, 0), true(m), x], 2, body=body))


def never(m: Qdq) -> None:
    x = m.op("Tanh", [sequence(m, BATCH, WIDTH)])
    body = loop_body([ALWAYS, node("Add", ["h", x], ["h2"])], ["h"], ["go2", "h2"])
    finish(m, m.op("Loop", [trips(m), m.constant("false", np.array(False)), x], body=body))


def copied_inputs(m: Qdq) -> None:
    """Outputs of the body that are its inputs, and copies of tensors and constants from outside."""
    x = m.op("Tanh", [sequence(m, BATCH, WIDTH)])
    outer, k = node("Identity", [x], ["outer"]), node("Identity", [start(m, "k")], ["k2"])
    nodes = [ALWAYS, outer, k, node("Add", ["b", "outer"], ["b2"])]
    body = loop_body(nodes, ["a", "b", "c"], ["go2", "a", "b2", "outer", "a", "outer", "k2", "b2", "b2"])
    first = m.op("Loop", [trips(m), true(m), start(m), start(m, "h1"), start(m, "h2")], 8, body=body)
    finish(m, *outputs_of(m, first, 8))


def a_constant_of_the_body(m: Qdq) -> None:
    """An output of the body that is its initializer."""
    x = m.op("Tanh", [sequence(m, BATCH, WIDTH)])
    body = loop_body([ALWAYS, node("Add", ["h", x], ["h2"])], ["h", "c"], ["go2", "h2", "fixed", "fixed"], fixed=W[:2])
    finish(m, *outputs_of(m, m.op("Loop", [trips(m), true(m), start(m), start(m, "h1")], 3, body=body), 3))


def names_twice(m: Qdq) -> None:
    """Two loops whose bodies use the same names, which are also those of tensors that come later."""
    first, second = (graph(CELL, ["h", "x"], ["h2", "y"], w=W * k) for k in (np.float32(1), np.float32(-1)))
    a = m.op("Scan", [start(m), sequence(m)], 2, num_scan_inputs=1, body=first)
    b = m.op("Scan", [f"{a}", f"{a}_1"], 2, num_scan_inputs=1, body=second)
    m.nodes.append(node("Neg", [b], ["hw"]))
    m.nodes.append(node("Neg", [f"{b}_1"], [f"{m.nodes[-2].name}/step0/sum"]))
    finish(m, "hw", f"{m.nodes[-3].name}/step0/sum")


def shadowed_names(m: Qdq) -> None:
    """An input and a constant of the body have the names of tensors outside; an inner body that of the state's start."""
    x = m.op("Tanh", [sequence(m, BATCH, WIDTH)])
    m.constant("h", W)
    m.constant("w", -W)
    body = loop_body(
        [ALWAYS, node("MatMul", ["h", "w"], ["hw"]), node("Add", ["hw", x], ["h2"])], ["h"], ["go2", "h2"], w=W
    )
    y = m.op("Loop", [trips(m), true(m), start(m)], body=body)
    inner = loop_body(
        [node("Identity", ["go"], ["on"]), node("Add", ["h0", "h"], ["sum"]), node("Mul", ["sum", x], ["next"])],
        ["h0"],
        ["on", "next"],
    )
    nodes = [ALWAYS, node("Loop", ["trips", "go", x], ["h3"], body=inner)]
    z = m.op("Loop", [m.constant("twice", np.array(2)), "true", "h0"], body=loop_body(nodes, ["h"], ["go2", "h3"]))
    finish(m, y, z, m.op("MatMul", [m.op("MatMul", [x, "h"]), "w"]))


def nested(m: Qdq) -> None:
    """A Loop in a Scan, with an If that a constant decides in the Loop, and constants in each of them."""
    x = sequence(m)
    branches = {
        "then_branch": graph([node("Mul", ["inner", "k"], ["taken"])], [], ["taken"], k=np.float32(0.5)),
        "else_branch": graph([node("Neg", ["inner"], ["other"])], [], ["other"]),
    }
    true(m)
    inner = loop_body(
        [
            node("Identity", ["go"], ["go2"]),
            node("MatMul", ["g", "w"], ["gw"]),
            node("Add", ["gw", "x"], ["inner"]),
            node("If", ["true"], ["g2"], **branches),
        ],
        ["g"],
        ["go2", "g2", "g2"],
        w=W,
    )
    nodes = [node("Loop", ["two", "", "h"], ["h1", "both"], name="repeat", body=inner), node("Tanh", ["h1"], ["h2"])]
    ends = [declared("h2", FLOAT, (BATCH, WIDTH)), declared("both", FLOAT, (2, BATCH, WIDTH))]
    body = graph(nodes, ["h", "x"], ends, two=np.array(2))
    first = m.op("Scan", [start(m), x], 2, num_scan_inputs=1, body=body)
    finish(m, *outputs_of(m, first, 2))


def quantized_body(m: Qdq) -> None:
    """QuantizeLinear and DequantizeLinear inside, also of a weight."""
    held = {"ws": np.float32(0.01), "wz": np.int8(0), "s": np.float32(0.03), "z": np.uint8(120)}
    held["w8"] = np.random.default_rng(2).integers(-90, 90, (WIDTH, WIDTH)).astype(np.int8)

    def pair(name: str) -> list[onnx.NodeProto]:
        return [
            node("QuantizeLinear", [name, "s", "z"], [f"{name}_q"]),
            node("DequantizeLinear", [f"{name}_q", "s", "z"], [f"{name}_d"]),
        ]

    nodes = [
        node("DequantizeLinear", ["w8", "ws", "wz"], ["w"]), *pair("h"), node("MatMul", ["h_d", "w"], ["hw"]), *pair("hw"),
        node("Add", ["hw_d", "x"], ["sum"]), *pair("sum"), node("Tanh", ["sum_d"], ["h2"]), CELL[3],
    ]  # fmt: skip
    body = graph(nodes, ["h", "x"], [declared(n, FLOAT, (BATCH, WIDTH)) for n in ("h2", "y")], **held)
    finish(m, *outputs_of(m, m.op("Scan", [start(m), sequence(m)], 2, num_scan_inputs=1, body=body), 2))


def dynamically_quantized_body(m: Qdq) -> None:
    """onnxruntime's dynamic quantizer writes it so, with the weights outside of the body."""
    w = m.constant("w_quantized", np.random.default_rng(2).integers(-90, 90, (WIDTH, WIDTH)).astype(np.int8))
    zero, scale = m.constant("w_zero", np.int8(0)), m.constant("w_scale", np.float32(0.01))
    nodes = [
        node("DynamicQuantizeLinear", ["h"], ["h8", "hs", "hz"]),
        node("MatMulInteger", ["h8", w, "hz", zero], ["i32"]),
        node("Cast", ["i32"], ["f32"], to=FLOAT),
        node("Mul", ["hs", scale], ["both"]),
        node("Mul", ["f32", "both"], ["hw"]),
        *CELL[1:],
    ]
    body = graph(nodes, ["h", "x"], [declared(n, FLOAT, (BATCH, WIDTH)) for n in ("h2", "y")])
    finish(m, *outputs_of(m, m.op("Scan", [start(m), sequence(m)], 2, num_scan_inputs=1, body=body), 2))


WRITTEN_OUT = (
    scan, backward_scan, other_axes, old_scan, several_states, no_state, no_stacked, one_step, many_steps, loop, constant_condition,
    constant_node, while_loop, by_shape, no_steps, never, copied_inputs, a_constant_of_the_body, names_twice, shadowed_names, nested,
    quantized_body, dynamically_quantized_body,
)  # fmt: skip


def built(build: Callable[[Qdq], None]) -> tuple[onnx.ModelProto, dict[str, Any]]:
    m = Qdq(seed=5)
    build(m)
    return m.model(), m.feed


def is_loop(each: onnx.NodeProto) -> bool:
    return any(a.HasField("g") for a in each.attribute)
