"""Finds how many steps a Loop or a Scan has, where no value that the model computes decides it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from qverify.errors import BadFileError
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.held_data import value_of
from qverify.onnx_model.loop_form import LoopForm, State
from qverify.onnx_model.node_order import outer_reads
from qverify.onnx_model.rewriter import Rewriter, input_name

MAX_STEPS = 4096
Opsets = list[onnx.OperatorSetIdProto]


@dataclass(frozen=True, slots=True)
class _Condition:
    """Holds what the condition of a Loop depends on: nodes and states of its body, constants in the body and outside."""

    nodes: list[onnx.NodeProto]
    states: list[State]
    inner: list[onnx.TensorProto]
    outer: list[onnx.TensorProto]


def steps_of(r: Rewriter, node: onnx.NodeProto, form: LoopForm, opsets: Opsets) -> int:
    """Returns the number of steps. Raises UnsupportedError if it is not known or above MAX_STEPS."""
    steps = _of_loop(r, node, form, opsets) if node.op_type == "Loop" else _of_scan(r, form)
    if steps > MAX_STEPS:
        shown = steps if node.op_type == "Scan" else f"more than {MAX_STEPS}"
        raise r.refusal(f"{shown} steps; at most {MAX_STEPS} are written out")
    return steps


def _of_scan(r: Rewriter, form: LoopForm) -> int:
    if not form.sliced:
        raise r.refusal("it has no input to slice, so no number of steps")
    return r.dims(form.sliced[0].source)[form.sliced[0].axis]


def _of_loop(r: Rewriter, node: onnx.NodeProto, form: LoopForm, opsets: Opsets) -> int:
    """Returns the number of steps of a Loop, MAX_STEPS + 1 if there are more. onnxruntime runs a Loop that contains only
    what its condition depends on, and counts."""
    most = min(_scalar(r, input_name(node, 0), MAX_STEPS + 1), MAX_STEPS + 1)
    go = _scalar(r, input_name(node, 1), 1)
    if most <= 0 or not go:
        return 0
    condition = _condition(r, form)
    values = {"most": np.array(most), "go": np.array(True), "none": np.array(0), "one": np.array(1)}
    held = [numpy_helper.from_array(value, _own(name)) for name, value in values.items()]
    loop, steps = _counting_loop(form, condition), helper.make_tensor_value_info(_own("steps"), TensorProto.INT64, [])
    graph = helper.make_graph([loop], "steps", [], [steps], [*held, *condition.outer])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    try:
        return int(Engine(model.SerializeToString()).run({}, [steps.name])[steps.name])
    except BadFileError as error:
        raise r.refusal(f"its steps cannot be counted: {error}") from error


def _scalar(r: Rewriter, name: str, default: int) -> int:
    """Returns the value of a constant, or the default for "". Raises UnsupportedError if it is no constant of one
    element."""
    if not name:
        return default
    value = value_of(_constant(r, name))
    if value.size != 1:
        raise r.refusal(f"{name!r} has {value.size} elements, wanted 1")
    return int(value.reshape(-1)[0])


def _condition(r: Rewriter, form: LoopForm) -> _Condition:
    """Returns what the condition of a Loop depends on. Raises UnsupportedError if that is not known."""
    makers = {o: node for node in form.body.node for o in node.output if o}
    states = {s.inside: s for s in form.states}
    known = {i.name for i in form.body.initializer} | {c.name for c in form.counters}
    outer, names, todo = dict[str, onnx.TensorProto](), set[str](), [form.body.output[0].name]
    for name in todo:  # grows
        if name in names:
            continue
        names.add(name)
        if name in makers:
            todo += sorted(outer_reads(makers[name]))
        elif name in states:
            todo.append(states[name].result)
            outer[states[name].start] = _constant(r, states[name].start)
        elif name not in known:
            outer[name] = _constant(r, name)
    nodes = [n for n in form.body.node if names.intersection(n.output)]
    inner = [i for i in form.body.initializer if i.name in names]
    return _Condition(nodes, [s for s in form.states if s.inside in names], inner, list(outer.values()))


def _constant(r: Rewriter, name: str) -> onnx.TensorProto:
    """Returns a constant of the graph. Raises UnsupportedError if the tensor is none."""
    if name not in r.initializers:
        raise r.refusal(f"its number of steps depends on {name!r}, which is no constant")
    return r.initializers[name]


def _counting_loop(form: LoopForm, condition: _Condition) -> onnx.NodeProto:
    """Returns a Loop over what the condition depends on, with a further state that counts the steps."""
    states = condition.states
    results = [form.body.output[0].name, *(s.result for s in states)]
    ends = [_own(f"result {at}") for at in range(len(results))]
    nodes = [
        *condition.nodes,
        *(helper.make_node("Identity", [n], [end]) for n, end in zip(results, ends, strict=True)),
        helper.make_node("Add", [_own("count"), _own("one")], [_own("next")]),
    ]
    declared = {v.name: v for v in form.body.input}
    count, following = (helper.make_tensor_value_info(_own(n), TensorProto.INT64, []) for n in ("count", "next"))
    inputs = [*form.counters, *(declared[s.inside] for s in states), count]
    outputs = [*(onnx.ValueInfoProto(name=end) for end in ends), following]
    body = helper.make_graph(nodes, "step", inputs, outputs, condition.inner)
    starts = [_own("most"), _own("go"), *(s.start for s in states), _own("none")]
    finals = [_own(f"final {at}") for at in range(len(states))]  # onnxruntime ends the process if they are omitted
    return helper.make_node("Loop", starts, [*finals, _own("steps")], body=body)


def _own(what: str) -> str:
    """Returns the name of a tensor of the counting Loop, which differs from all names in a file."""
    return f"qverify's count of steps: {what}"
