"""Loop and Scan whose number of steps is known are written out, step by step, and verified on the board."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from qverify.cli.main import main
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import UnsupportedError
from qverify.onnx_model.decompose import check_same_values, decompose
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.load import load
from qverify.onnx_model.loop_form import read_form
from qverify.onnx_model.loop_steps import steps_of
from qverify.onnx_model.rewriter import Rewriter

from tests.ops.qdq import Qdq
from tests.plain.verified_model import verified

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


@pytest.mark.parametrize("build", WRITTEN_OUT, ids=lambda build: build.__name__)
def test_the_values_are_those_of_the_untouched_file(build: Callable[[Qdq], None]):
    model, feed = built(build)
    theirs = Engine(model.SerializeToString()).run(feed)
    done = decompose(load(model.SerializeToString(), "m"), "m", {})
    check_same_values(done)
    assert not any(map(is_loop, done.model.graph.node)) and not done.refused
    names = [n for each in done.model.graph.node for n in each.output] + [i.name for i in done.model.graph.initializer]
    assert len(names) == len(set(names))
    ours = Engine(done.model.SerializeToString()).run(feed)
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("build", WRITTEN_OUT, ids=lambda build: build.__name__)
def test_no_part_is_left_to_the_host(build: Callable[[Qdq], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path, target = tmp_path / "q.onnx", tmp_path / "m.bin"
    path.write_bytes(built(build)[0].SerializeToString())
    assert main(["compile", str(path), "-o", str(target)]) == 0
    assert main(["-m", f"{path},{target}", "-b", "local", "-s", "True", "-r", "True"]) == 0
    out = capsys.readouterr().out
    assert "PASSED" in out and "computed on the host" not in out


def summed(m: Qdq, x: str) -> str:
    return m.op("ReduceSum", [x], keepdims=0)


def steps_by_value(m: Qdq) -> None:
    x = m.op("Tanh", [sequence(m, BATCH, WIDTH)])
    count = m.op("Cast", [m.op("Add", [m.op("Tanh", [summed(m, x)]), m.constant("three", np.float32(3))])], to=INT64)
    body = loop_body([ALWAYS, node("Add", ["h", x], ["h2"])], ["h"], ["go2", "h2"])
    finish(m, m.op("Loop", [count, true(m), start(m)], body=body))


def stops_by_value(m: Qdq) -> None:
    x = m.op("Tanh", [sequence(m, BATCH, WIDTH)])
    nodes = [
        node("Add", ["h", x], ["h2"]),
        node("ReduceMax", ["h2"], ["most"], keepdims=0),
        node("Less", ["most", m.constant("limit", np.float32(2))], ["go2"]),
    ]
    finish(m, m.op("Loop", [trips(m), true(m), start(m)], body=loop_body(nodes, ["h"], ["go2", "h2"])))


def starts_by_value(m: Qdq) -> None:
    x = m.op("Tanh", [sequence(m, BATCH, WIDTH)])
    go = m.op("Greater", [summed(m, x), m.constant("none", np.float32(0))])
    finish(m, m.op("Loop", [trips(m), go, x], body=loop_body([ALWAYS, *COUNTED_ON_ITSELF], ["h"], ["go2", "h2"])))


COUNTED_ON_ITSELF = [node("Mul", ["h", "h"], ["h2"])]


def too_many_steps(m: Qdq) -> None:
    body = loop_body([ALWAYS, *COUNTED_ON_ITSELF], ["h"], ["go2", "h2"])
    x = m.op("Tanh", [sequence(m, BATCH, WIDTH)])
    finish(m, m.op("Loop", [trips(m, 4097), true(m), x], body=body))


def too_long(m: Qdq) -> None:
    body = graph([node("Tanh", ["x"], ["y"])], ["x"], ["y"])
    finish(m, m.op("Scan", [sequence(m, 4097, 1)], num_scan_inputs=1, body=body))


def too_many_nodes(m: Qdq) -> None:
    nodes = [node("Neg", [f"y{at - 1}" if at else "x"], [f"y{at}"]) for at in range(15)]
    finish(m, m.op("Scan", [sequence(m, 4000, 1)], num_scan_inputs=1, body=graph(nodes, ["x"], ["y14"])))


def nothing_stacked(m: Qdq) -> None:
    body = loop_body([ALWAYS, *COUNTED_ON_ITSELF, node("Identity", ["h2"], ["y"])], ["h"], ["go2", "h2", "y"])
    x = m.op("Tanh", [sequence(m, BATCH, WIDTH)])
    first = m.op("Loop", [trips(m, 0), true(m), x], 2, body=body)
    finish(m, first)
    m.output(m.op("ReduceSum", [f"{first}_1", m.constant("first", np.array([0]))], keepdims=0))


def an_if_by_value(m: Qdq) -> None:
    branches = {
        "then_branch": graph([node("Tanh", ["x"], ["one"])], [], ["one"]),
        "else_branch": graph([node("Neg", ["x"], ["other"])], [], ["other"]),
    }
    nodes = [
        node("ReduceSum", ["x"], ["total"], keepdims=0),
        node("Greater", ["total", m.constant("none", np.float32(0))], ["high"]),
        node("If", ["high"], ["y"], name="choice", **branches),
    ]
    body = graph(nodes, ["x"], [declared("y", FLOAT, (BATCH, WIDTH))])
    finish(m, m.op("Scan", [sequence(m)], num_scan_inputs=1, body=body))


def an_inner_loop_by_value(m: Qdq) -> None:
    inner = loop_body([node("Mul", ["h", "h"], ["h2"]), node("Less", ["i", "count"], ["go2"])], ["h"], ["go2", "h2"])
    nodes = [
        node("ReduceSum", ["x"], ["total"], keepdims=0),
        node("Cast", ["total"], ["count"], to=INT64),
        node("Loop", [trips(m), "", "x"], ["y"], name="inner", body=inner),
    ]
    body = graph(nodes, ["x"], [declared("y", FLOAT, (BATCH, WIDTH))])
    finish(m, m.op("Scan", [sequence(m)], num_scan_inputs=1, body=body))


def rows_by_value(m: Qdq) -> None:
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Cast", ["places"], ["f"], to=FLOAT),
        node("ReduceSum", ["f"], ["y"], keepdims=0),
    ]
    body = graph(nodes, ["x"], [declared("y", FLOAT, ())])
    finish(m, m.op("Scan", [m.op("Relu", [sequence(m)])], num_scan_inputs=1, body=body))


def results_twice(m: Qdq) -> None:
    body = graph(CELL, ["h", "x"], ["h2", "h2"], w=W)
    first = m.op("Scan", [start(m), sequence(m)], 2, num_scan_inputs=1, body=body)
    m.output(m.op("Sigmoid", [first]))


def a_sequence(m: Qdq) -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    x = sequence(m)
    nodes = [ALWAYS, node("Gather", [x, "i"], ["x"]), node("SequenceInsert", ["s", "x"], ["s2"])]
    body = loop_body(nodes, ["s"], ["go2", "s2"])
    for value in (body.input[2], body.output[1]):
        value.type.CopyFrom(kind)
    made = m.op("Loop", [trips(m), true(m), m.op("SequenceEmpty", [])], body=body)
    finish(m, m.op("ConcatFromSequence", [made], axis=0, new_axis=1))


STAY: dict[Callable[[Qdq], None], str] = {
    steps_by_value: "its number of steps depends on 'cast.*', which the model computes",
    stops_by_value: "its number of steps depends on 'tanh2', which the model computes",
    starts_by_value: "its number of steps depends on 'greater.*', which the model computes",
    too_many_steps: "more than 4096 steps; at most 4096 are written out",
    too_long: "4097 steps; at most 4096 are written out",
    nothing_stacked: "it has no steps, so that 'loop3_1' has no elements",
    an_if_by_value: r"in its body, scan2_node/step0/y/If \(If\): its branch depends on values",
    an_inner_loop_by_value: r"in its body, .* \(Loop\): its number of steps depends on 'scan2_node/step0/count'",
    too_many_nodes: "4000 steps of 18 tensors make 72004 with the rest of the model; at most 50000 are written out",
    rows_by_value: "the shape of 'scan3_node/step0/places' in its body is not known",
    results_twice: "its body returns 'h2' twice or from its inputs, which onnxruntime computes wrongly",
    a_sequence: "its body has a constant, an input or an output that is no plain tensor",
}


def left_to_the_host(model: onnx.ModelProto) -> dict[str, str]:
    compiled = compile_model(model.SerializeToString(), "q.onnx", CompilerOptions(host=True)).graph
    return {n.op: n.why for island in compiled.islands for n in island.nodes}


@pytest.mark.parametrize("build", STAY, ids=lambda build: build.__name__)
def test_others_stay_on_the_host_with_the_reason(build: Callable[[Qdq], None]):
    model = built(build)[0]
    kind = next(each.op_type for each in model.graph.node if is_loop(each))
    why = left_to_the_host(model)
    assert re.search(STAY[build], why[kind]), why
    assert not [n for n in why if n in ("Tanh", "Sigmoid", "Add", "Mul")]


def test_a_loop_that_never_ends_is_not_counted_for_ever():
    model = helper.make_model(
        graph(
            [
                node("QuantizeLinear", ["in", "s", "z"], ["q"]),
                node("DequantizeLinear", ["q", "s", "z"], ["x"]),
                node("Loop", ["", "", "x"], ["y"], body=loop_body([*COUNTED_ON_ITSELF], ["h"], ["go", "h2"])),
            ],
            [declared("in", FLOAT, (2, 3))],
            ["y"],
            s=np.float32(1),
            z=np.uint8(0),
        )
    )
    r = Rewriter(model)
    r.begin(model.graph.node[2])
    form = read_form(r, model.graph.node[2])
    with pytest.raises(UnsupportedError, match="more than 4096 steps"):
        steps_of(r, model.graph.node[2], form, [helper.make_opsetid("", 17)])


def test_constants_of_a_body_are_stored_once():
    model = built(nested)[0]
    done = decompose(load(model.SerializeToString(), "m"), "m", {}).model
    assert [i.name for i in done.graph.initializer if numpy_helper.to_array(i).shape == W.shape] == ["scan2_node/w"]


@pytest.mark.parametrize(("steps", "op"), [(64, "Det"), (65, "Scan")])
def test_a_body_with_an_operator_without_a_kernel(steps: int, op: str):
    """A few nodes of the steps are computed on the host; with more of them, the loop is."""

    def build(m: Qdq) -> None:
        nodes = [node("Det", ["x"], ["det"]), node("Mul", ["det", "x"], ["y"])]
        x = m.op("Tanh", [sequence(m, steps, 2, 2)])
        body = graph(nodes, ["x"], [declared("y", FLOAT, (2, 2))])
        finish(m, m.op("Scan", [x], num_scan_inputs=1, body=body))

    why = left_to_the_host(built(build)[0])
    assert why.keys() == {op}
    assert op != "Scan" or "no kernel serves Det in its body, and the host can compute at most 64 parts" in why[op]


def test_float16_is_handed_from_step_to_step(tmp_path: Path):
    m = Qdq(seed=5, opset=19)
    half = TensorProto.FLOAT16
    nodes = [ALWAYS, node("Mul", ["h", "half"], ["h2"])]
    body = loop_body(nodes, ["h"], ["go2", "h2"], half=np.float16(0.5))
    for value in (body.input[2], body.output[1]):
        value.CopyFrom(declared(value.name, half, (BATCH, WIDTH)))
    x = m.op("Cast", [m.op("Tanh", [sequence(m, BATCH, WIDTH)])], to=half)
    finish(m, m.op("Cast", [m.op("Loop", [trips(m), true(m), x], body=body)], to=FLOAT))
    verified(m.model(), tmp_path)


@pytest.mark.parametrize("step", [0, 3])
def test_a_fault_in_a_step_is_found_at_its_node(step: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "q.onnx"
    path.write_bytes(built(scan)[0].SerializeToString())
    tensor = f"scan2_node/step{step}/sum"
    assert main(["-m", str(path), "-b", f"faulty:local?fault=plus_one@{tensor}", "-s", "True"]) == 1
    assert "blame" in (out := capsys.readouterr().out) and tensor in out


def test_onnxruntimes_dynamic_quantizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """It writes the integers into the body only."""
    shaped = {n: declared(n, FLOAT, (BATCH, WIDTH)) for n in ("h", "x", "h2", "y")}
    body = graph(CELL, [shaped["h"], shaped["x"]], [shaped["h2"], shaped["y"]], w=W)
    cell = node("Scan", ["h0", "in"], ["last", "all"], name="cell", num_scan_inputs=1, body=body)
    ends = [declared("last", FLOAT, (BATCH, WIDTH)), declared("all", FLOAT, (STEPS, BATCH, WIDTH))]
    floats = graph([cell], [declared("in", FLOAT, (STEPS, BATCH, WIDTH))], ends, h0=W[:BATCH])
    onnx.save(helper.make_model(floats, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "f.onnx")
    path, target = tmp_path / "q.onnx", tmp_path / "m.bin"
    quantize_dynamic(tmp_path / "f.onnx", path, extra_options={"EnableSubgraph": True}, weight_type=QuantType.QInt8)
    assert {n.op_type for n in onnx.load(path).graph.node} == {"Scan"}
    assert main(["compile", str(path), "-o", str(target)]) == 0
    assert main(["-m", f"{path},{target}", "-b", "local", "-s", "True", "-r", "True"]) == 0
    out = capsys.readouterr().out
    assert "PASSED" in out and "computed on the host" not in out
