"""Boards that fuse: an onnxruntime that computes the float form of a quantized model, with tensors inside rounded in
another way or not at all, and only some tensors shown."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import units
from qverify.onnx_model.engine import Engine
from qverify.report.document import ReportDocument
from qverify.sides.reference import Reference
from qverify.sides.simulator import Simulator
from qverify.tensors.recording import Recording

from tests.ops.qdq import Qdq

ROUNDINGS = {"model": "Round", "down": "Floor"}  # of an inner tensor; "none": it stays a float


def record_runner(graph: Graph, values: dict[str, np.ndarray]) -> Recording:
    """Returns the recording of a board whose runner gave these tensors."""
    return Recording(
        "board",
        "runner",
        specs={n: graph.spec(n) for n in values},
        finals=graph.outputs,
        tensors=values,
        capabilities=frozenset({"finals", "per_node"}),
        runtime="runner",
    )


def residual(seed: int = 0, size: int = 12) -> Qdq:
    """x -> conv, relu (h) -> conv (c); s = relu(c + x); o = conv(s). All are quantized."""
    m = Qdq("uint8", seed=seed)
    x = m.input((1, 8, size, size))
    h = m.quantize(m.op("Relu", [m.op("Conv", [x, m.weight((8, 8, 3, 3), axis=0)], pads=[1] * 4)], "h"))
    c = m.quantize(m.op("Conv", [h, m.weight((8, 8, 3, 3), axis=0)], "c", pads=[1] * 4))
    s = m.quantize(m.op("Relu", [m.op("Add", [c, x])], "s"))
    o = m.quantize(m.op("Conv", [s, m.weight((4, 8, 1, 1))], "o"))
    m.outputs.append(o)
    return m


def fused(
    model: onnx.ModelProto, inner: Mapping[str, str], shift: Mapping[str, float | np.ndarray] | None = None
) -> onnx.ModelProto:
    """Returns the model as a board computes it.

    Args:
        model: the quantized model, with names of Qdq.
        inner: how float tensors are quantized, by name: a key of ROUNDINGS, or "none".
        shift: real values that are added to a float tensor before it is quantized.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    nodes = list(model.graph.node)
    del changed.graph.node[:]
    for node in nodes:
        source = node.input[0] if node.op_type == "QuantizeLinear" else ""
        if source in (shift or {}):
            changed.graph.node.append(_with(changed, "Add", source, (shift or {})[source], f"{source}/shifted"))
            node = onnx.NodeProto.FromString(node.SerializeToString())
            node.input[0] = f"{source}/shifted"
        if source not in inner:
            changed.graph.node.append(node)
            continue
        pair = next(n for n in nodes if n.op_type == "DequantizeLinear" and n.input[0] == node.output[0])
        changed.graph.node.extend(_replace(changed, node.input[0], pair, constants, inner[source]))
    kept = [
        n
        for n in changed.graph.node
        if not (n.op_type == "DequantizeLinear" and n.input[0].removesuffix("_q") in inner)
    ]
    del changed.graph.node[:]
    changed.graph.node.extend(kept)
    return changed


def _with(model: onnx.ModelProto, op: str, source: str, value: float | np.ndarray, output: str) -> onnx.NodeProto:
    name = f"{output}/{op}"
    model.graph.initializer.append(numpy_helper.from_array(np.float32(value), name))
    return helper.make_node(op, [source, name], [output])


def _replace(
    model: onnx.ModelProto, source: str, pair: onnx.NodeProto, constants: Mapping[str, np.ndarray], kind: str
) -> list[onnx.NodeProto]:
    """Returns the nodes that stand for a QuantizeLinear and its DequantizeLinear."""
    to = pair.output[0]
    if kind == "none":
        return [helper.make_node("Identity", [source], [to])]
    scale, zero = float(constants[pair.input[1]]), constants[pair.input[2]]
    limits = np.iinfo(zero.dtype)
    steps = [
        _with(model, "Div", source, scale, f"{to}/steps"),
        helper.make_node(ROUNDINGS[kind], [f"{to}/steps"], [f"{to}/whole"]),
    ]
    for at, bound in (("min", limits.min - int(zero)), ("max", limits.max - int(zero))):
        model.graph.initializer.append(numpy_helper.from_array(np.float32(bound), f"{to}/{at}"))
    steps.append(helper.make_node("Clip", [f"{to}/whole", f"{to}/min", f"{to}/max"], [f"{to}/clipped"]))
    return [*steps, _with(model, "Mul", f"{to}/clipped", scale, to)]


def judge_fused(
    m: Qdq,
    board: onnx.ModelProto,
    shown: list[str],
    change: Mapping[str, int | np.ndarray] | None = None,
    **recording: object,
) -> ReportDocument:
    """Returns the report on reference, simulator and a runner that shows these tensors of the board's model. change:
    integers that are added to a tensor which it shows, or to each of its elements."""
    quantized = m.model().SerializeToString()
    compiled = compile_model(quantized, "q.onnx", CompilerOptions(check=False))
    graph = compiled.graph
    prepared = prepared_inputs(graph, InputRequest(seed=5))
    reference, simulator = Reference(compiled.integer_onnx, graph, quantized), Simulator(graph)
    sides = {"reference": reference.run(prepared), "simulator": simulator.run(prepared)}
    arrays = prepared.arrays()
    real = {n: arrays[n] for n in m.feed if n in arrays} or {next(iter(m.feed)): next(iter(arrays.values()))}
    exposed = onnx.ModelProto()
    exposed.CopyFrom(board)
    finals = {o.name for o in exposed.graph.output}
    exposed.graph.output.extend(
        helper.make_tensor_value_info(n, onnx.TensorProto.UINT8, None) for n in shown if n not in finals
    )
    values = Engine(exposed.SerializeToString(), level="disable_all").run(
        real, list(dict.fromkeys([*shown, *graph.outputs]))
    )
    for name, by in (change or {}).items():
        limits = np.iinfo(values[name].dtype)
        values[name] = np.clip(values[name].astype(int) + by, limits.min, limits.max).astype(values[name].dtype)
    sides["board"] = record_runner(graph, values)
    runs = {"reference": reference.run_unit, "simulator": simulator.run_unit}
    return judge_all(sides, graph, units(graph), Options(dump_all=True), runs, None, arrays)
