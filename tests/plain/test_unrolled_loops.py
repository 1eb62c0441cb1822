"""Loop and Scan whose number of steps is known are written out, step by step, and verified on the board."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

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
from tests.plain.loop_models import (
    ALWAYS,
    BATCH,
    CELL,
    FLOAT,
    INT64,
    STEPS,
    WIDTH,
    WRITTEN_OUT,
    W,
    built,
    declared,
    finish,
    graph,
    is_loop,
    loop_body,
    nested,
    node,
    scan,
    sequence,
    start,
    trips,
    true,
)
from tests.plain.verified_model import verified


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
    steps_by_value: "its number of steps depends on 'cast.*', which is no constant",
    stops_by_value: "its number of steps depends on 'tanh2', which is no constant",
    starts_by_value: "its number of steps depends on 'greater.*', which is no constant",
    too_many_steps: "more than 4096 steps; at most 4096 are written out",
    too_long: "4097 steps; at most 4096 are written out",
    nothing_stacked: "it has no steps, so that 'loop3_1' has no elements",
    an_if_by_value: r"in its body, choice \(If\): its branch depends on values",
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
