"""Runs a long model as a chain of several onnxruntime sessions.

The time onnxruntime needs to open a session grows with the number of nodes times the number of outputs, and the
reference outputs every tensor. Nothing is fused, so that the values are the same as in one session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx

from qverify.onnx_model.engine import Array, Engine
from qverify.onnx_model.light_model import LightModel, light_model
from qverify.onnx_model.node_order import reads
from qverify.onnx_model.open_exposed import open_exposed

NODES_PER_SLICE = 1000
Progress = Callable[[int, int], None]  # the number of sessions opened, and their total


class SlicedEngine:
    """A chain of sessions with the interface of Engine.

    settings: the settings of every session."""

    def __init__(
        self, slices: Sequence[LightModel], inputs: Sequence[str], outputs: Sequence[str], progress: Progress | None
    ):
        """Opens the sessions.

        slices: the parts of the model, in running order. inputs, outputs: names of the whole model's inputs and
        outputs. progress: called after each session is opened."""
        self._engines = list[Engine]()
        for part in slices:
            self._engines.append(open_exposed(part, []))
            if progress is not None:
                progress(len(self._engines), len(slices))
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


def open_long(
    model: onnx.ModelProto | LightModel, names: list[str], progress: Progress | None = None
) -> Engine | SlicedEngine:
    """Returns an engine that also outputs these inner tensors: a SlicedEngine for a long model, otherwise the Engine of
    open_exposed().

    model: nodes in running order; a long model whose value_info is incomplete gets a single session. progress: called
    after each session of several is opened. Raises BadFileError if onnxruntime refuses the model."""
    source = model if isinstance(model, LightModel) else light_model(model)
    if len(source.model.graph.node) <= 2 * NODES_PER_SLICE:
        return open_exposed(source, names)
    slices = _slices(source, names)
    graph = source.model.graph
    outputs = dict.fromkeys([*(o.name for o in graph.output), *names])
    if not slices:
        return open_exposed(source, names)
    return SlicedEngine(slices, [i.name for i in graph.input], list(outputs), progress)


def _slices(source: LightModel, names: list[str]) -> list[LightModel]:
    """Returns consecutive parts of the model, each with the outputs that were requested of it or that later parts read.
    Returns [] if the type of a tensor between two parts is unknown, or a requested tensor is not the output of a
    node."""
    graph = source.model.graph
    nodes = list(graph.node)
    infos: dict[str, Any] = {v.name: v for v in [*graph.value_info, *graph.output, *graph.input] if _has_static_type(v)}
    wanted = {*names, *(o.name for o in graph.output)}
    maker = {o: at // NODES_PER_SLICE for at, node in enumerate(nodes) for o in node.output if o}
    crossing = {
        n
        for at, node in enumerate(nodes)
        for n in reads(node)
        if maker.get(n, at // NODES_PER_SLICE) != at // NODES_PER_SLICE
    }
    if not crossing <= infos.keys() or not wanted <= maker.keys():
        return []
    slices, initializers = [], {i.name: i for i in graph.initializer}
    for first in range(0, len(nodes), NODES_PER_SLICE):
        part = nodes[first : first + NODES_PER_SLICE]
        read = dict.fromkeys(n for node in part for n in reads(node))
        inputs = [n for n in read if n in infos and maker.get(n, -1) != first // NODES_PER_SLICE]
        outputs = [o for node in part for o in node.output if o in crossing or o in wanted]
        if outputs:
            constants = [initializers[n] for n in read if n in initializers]
            slices.append(_model(source, part, [infos[n] for n in inputs], outputs, constants))
    return slices


def _has_static_type(value: onnx.ValueInfoProto) -> bool:
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
    whole = source.model
    model = onnx.ModelProto(
        ir_version=whole.ir_version, opset_import=whole.opset_import, graph=graph, functions=whole.functions
    )
    return LightModel(model, {t.name: source.constants[t.name] for t in constants if t.name in source.constants})
