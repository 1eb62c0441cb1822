"""A long model as several sessions, one behind the other: the time onnxruntime needs to open a session grows with its
nodes times its outputs, and every tensor of a reference is one. Nothing is fused, so that the values are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx

from qverify.onnx_model.engine import Array, Engine
from qverify.onnx_model.light_model import LightModel, light_model
from qverify.onnx_model.node_order import reads
from qverify.onnx_model.open_exposed import open_exposed

NODES = 1000  # of one session
Step = Callable[[int, int], None]


class SlicedEngine:
    """What Engine is for a model whose nodes are in running order. settings: of every session."""

    def __init__(self, slices: Sequence[LightModel], inputs: Sequence[str], outputs: Sequence[str], step: Step | None):
        """inputs, outputs: of the whole model. step: called with the sessions that are open, and their number."""
        self._engines = list[Engine]()
        for part in slices:
            self._engines.append(open_exposed(part, []))
            if step is not None:
                step(len(self._engines), len(slices))
        self.settings = self._engines[0].settings
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.tensors = set(outputs)
        self._last_use = {name: at for at, engine in enumerate(self._engines) for name in engine.inputs}

    def run(self, feed: Mapping[str, Array], names: Sequence[str] | None = None) -> dict[str, Array]:
        """Returns the named outputs (all by default). Raises BadFileError if onnxruntime fails."""
        wanted = list(names) if names is not None else self.outputs
        kept, values = set(wanted), {name: feed[name] for name in self.inputs}
        for at, engine in enumerate(self._engines):
            values |= engine.run(values)
            for name in [n for n in engine.inputs if self._last_use[n] == at and n not in kept]:
                del values[name]
        return {name: values[name] for name in wanted}


def open_long(model: onnx.ModelProto | LightModel, names: list[str], step: Step | None = None) -> Engine | SlicedEngine:
    """Returns what open_exposed() returns; for a long model several sessions. model: its nodes are in running order and
    its value_info is complete; where it is not, there is one session. step: as SlicedEngine's. Raises BadFileError."""
    source = model if isinstance(model, LightModel) else light_model(model)
    if len(source.model.graph.node) <= 2 * NODES:
        return open_exposed(source, names)
    slices = _slices(source, names)
    graph = source.model.graph
    outputs = dict.fromkeys([*(o.name for o in graph.output), *names])
    if not slices:
        return open_exposed(source, names)
    return SlicedEngine(slices, [i.name for i in graph.input], list(outputs), step)


def _slices(source: LightModel, names: list[str]) -> list[LightModel]:
    """Returns runs of nodes as models, whose outputs are the tensors that are wanted of them or read behind them; none
    where the type of a tensor between two is not known, and where something is no output of a node."""
    graph = source.model.graph
    nodes = list(graph.node)
    infos: dict[str, Any] = {v.name: v for v in [*graph.value_info, *graph.output, *graph.input] if _is_known(v)}
    wanted = {*names, *(o.name for o in graph.output)}
    maker = {o: at // NODES for at, node in enumerate(nodes) for o in node.output if o}
    crossing = {n for at, node in enumerate(nodes) for n in reads(node) if maker.get(n, at // NODES) != at // NODES}
    if not crossing <= infos.keys() or not wanted <= maker.keys():
        return []
    slices, held = [], {i.name: i for i in graph.initializer}
    for first in range(0, len(nodes), NODES):
        part = nodes[first : first + NODES]
        read = dict.fromkeys(n for node in part for n in reads(node))
        given = [n for n in read if n in infos and maker.get(n, -1) != first // NODES]
        made = [o for node in part for o in node.output if o in crossing or o in wanted]
        if made:
            slices.append(_model(source, part, [infos[n] for n in given], made, [held[n] for n in read if n in held]))
    return slices


def _is_known(value: onnx.ValueInfoProto) -> bool:
    kind = value.type.tensor_type
    return bool(kind.elem_type) and kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim)


def _model(
    source: LightModel, nodes: list[Any], inputs: list[Any], outputs: list[str], constants: list[Any]
) -> LightModel:
    graph = onnx.GraphProto(
        name="slice",
        node=nodes,
        input=inputs,
        output=[onnx.ValueInfoProto(name=o) for o in outputs],
        initializer=constants,
    )
    model = onnx.ModelProto(ir_version=source.model.ir_version, opset_import=source.model.opset_import, graph=graph)
    return LightModel(model, {t.name: source.constants[t.name] for t in constants if t.name in source.constants})
