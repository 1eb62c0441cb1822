"""Recordings of a chain of three adds, as three sides have them, and their judgement."""

from __future__ import annotations

import itertools

import numpy as np
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

ALL = frozenset({"finals", "per_node", "inject", "digests"})
X = np.arange(40, dtype=np.int8)


def spec(name, dtype="int8", shape=(40,)):
    return TensorSpec(
        name, dtype, shape, scale=(0.5,) if dtype == "int8" else (), zero_point=(0,) if dtype == "int8" else ()
    )


def chain():
    """x -> n1 -> n2 -> y, each adding one."""
    names = ["x", "n1", "n2", "y"]
    nodes = [Node(b, "add", (a,), (b,), covers=(f"onnx_{b}",)) for a, b in itertools.pairwise(names)]
    return Graph(nodes, {n: spec(n) for n in names}, {}, ("x",), ("y",))


def step(unit, inputs):
    value = inputs[unit.inputs[0]]
    return {unit.outputs[0]: (value + 1).astype(np.int8)}


def wrong_at(node, by=1):
    def run(unit, inputs):
        made = step(unit, inputs)[unit.outputs[0]].copy()
        if unit.name == node:
            made[3] += by
        return {unit.outputs[0]: made}

    return run


def record(side, run=step, capabilities=ALL, graph=None, x=X, **extra):
    graph = graph or chain()
    values, held = {"x": x}, {}
    for unit in units(graph):
        values |= run(unit, values)
        held |= {o: values[o] for o in unit.outputs}
    offered = list(held) if "per_node" in capabilities else list(graph.outputs)
    held = {n: held[n] for n in offered}
    digests = {n: tensor_digest(v) for n, v in held.items()} if "digests" in capabilities else {}
    return Recording(
        side,
        "test",
        specs={n: graph.spec(n) for n in offered},
        finals=graph.outputs,
        tensors=held,
        digests=digests,
        capabilities=capabilities,
        **extra,
    )


def three(ref=step, sim=step, board=step, options=None, board_caps=ALL, **kwargs):
    graph = chain()
    sides = {
        "reference": record("reference", ref),
        "simulator": record("simulator", sim),
        "board": record("board", board, board_caps),
    }
    runs = {"reference": ref, "simulator": sim}
    return judge_all(sides, graph, units(graph), options or Options(dump_all=True), runs, None, {"x": X}, **kwargs)


def two(a, b, options=None, **kwargs):
    return judge_all({"reference": a, "board": b}, None, [], options or Options(dump_all=True), {}, None, **kwargs)


def floats(**tensors):
    arrays = {n: np.asarray(v, np.float32) for n, v in tensors.items()}
    specs = {n: TensorSpec(n, "float32", v.shape) for n, v in arrays.items()}
    return specs, arrays


def side(name, **tensors):
    specs, arrays = floats(**tensors)
    return Recording(name, "test", specs=specs, finals=tuple(arrays), tensors=arrays, capabilities=ALL)


def three_with(board, pull=None, options=None):
    graph = chain()
    sides = {"reference": record("reference"), "simulator": record("simulator"), "board": board}
    return judge_all(
        sides,
        graph,
        units(graph),
        options or Options(dump_all=True),
        {"reference": step, "simulator": step},
        pull,
        {"x": X},
    )


def report_of(a, b, run=step, options=None, pull=None, inputs=True, **more):
    graph = chain()
    sides = {r.side: r for r in (a, b)}
    runs = {} if run is None else {a.side: run}
    return judge_all(
        sides, graph, units(graph), options or Options(dump_all=True), runs, pull, {"x": X} if inputs else None, **more
    )


def forced_of(report, name="n2"):
    return next(r.forced for r in report.pairs[0].tensors if r.name == name)


def without(recording, *names, digests=True):
    for name in names:
        recording.tensors.pop(name, None)
        if not digests:
            recording.digests.pop(name, None)
    return recording
