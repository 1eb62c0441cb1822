"""Runners with a fault at one node: an onnxruntime that computes a changed QDQ model, or changed values of its last
tensor, judged as the main job does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.compiler.compile_model import CompiledModel, CompilerOptions, compile_model
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.units import units
from qverify.onnx_model.engine import Engine
from qverify.report.document import ReportDocument
from qverify.session.node_evidence import NodeEvidence
from qverify.session.recorded_causes import CauseFinder
from qverify.sides.reference import Reference
from qverify.sides.simulator import Simulator

from tests.ops.qdq import Qdq
from tests.plain.fused_boards import record_runner

Array = np.ndarray
Change = Callable[["Board"], None]


@dataclass
class Board:
    """The model that a board computes, to be changed: constants by name, nodes by their first output. after: changes of
    the values that it shows, by tensor."""

    constants: dict[str, Any]
    nodes: dict[str, onnx.NodeProto]
    after: dict[str, Callable[[Array], Array]] = field(default_factory=dict)

    def first(self, kind: str) -> onnx.NodeProto:
        """Returns the first node of a type."""
        return next(node for node in self.nodes.values() if node.op_type == kind)

    def last(self, kind: str) -> onnx.NodeProto:
        """Returns the last node of a type."""
        return next(node for node in reversed(self.nodes.values()) if node.op_type == kind)

    def set(self, node: onnx.NodeProto, **attributes: Any) -> None:
        """Replaces attributes of a node."""
        kept = [a for a in node.attribute if a.name not in attributes]
        del node.attribute[:]
        node.attribute.extend([*kept, *(helper.make_attribute(n, v) for n, v in attributes.items())])

    def insert(self, source: str, kind: str, *more: Any, **attributes: Any) -> None:
        """Inserts an operator before the nodes that read a tensor. more: its further inputs."""
        names = [f"{source}/{kind}/{at}" for at in range(len(more))]
        self.constants |= {name: np.asarray(value) for name, value in zip(names, more, strict=True)}
        made = f"{source}/{kind}"
        for node in self.nodes.values():
            for at, name in enumerate(node.input):
                if name == source:
                    node.input[at] = made
        nodes = dict[str, onnx.NodeProto]()
        for name, node in self.nodes.items():
            nodes[name] = node
            if source in node.output:
                nodes[made] = helper.make_node(kind, [source, *names], [made], **attributes)
        self.nodes = nodes


def change_board(m: Qdq, change: Change | None) -> tuple[onnx.ModelProto, Board]:
    """Returns the model as the board computes it, and its changes of values."""
    model = m.model()
    constants = {i.name: numpy_helper.to_array(i).copy() for i in model.graph.initializer}
    board = Board(constants, {n.output[0]: n for n in onnx.ModelProto.FromString(model.SerializeToString()).graph.node})
    if change is not None:
        change(board)
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(board.nodes.values())
    model.graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(v).reshape(np.shape(v)), n) for n, v in board.constants.items()
    )
    return model, board


def run_board(m: Qdq, change: Change | None, feed: Mapping[str, Array], shown: list[str]) -> dict[str, Array]:
    """Returns the tensors that the board shows, for this feed."""
    model, board = change_board(m, change)
    finals = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in shown if n not in finals)
    values = Engine(model.SerializeToString(), level="disable_all").run(dict(feed), shown)
    for name, alter in board.after.items():
        values[name] = np.ascontiguousarray(alter(values[name]))
        final = name.removesuffix("_q") + "_dq"
        if final in values:
            scale, zero = (board.constants[name.removesuffix("_q") + end] for end in ("_scale", "_zp"))
            values[final] = (values[name].astype(np.float32) - np.float32(zero)) * np.float32(scale)
    return values


@dataclass
class Judged:
    """A model whose runs on a board are judged, frame by frame."""

    m: Qdq
    compiled: CompiledModel = field(init=False)
    causes: CauseFinder = field(default_factory=CauseFinder)

    def __post_init__(self) -> None:
        self.quantized = self.m.model().SerializeToString()
        self.compiled = compile_model(self.quantized, "q.onnx", CompilerOptions(check=False))
        graph = self.compiled.graph
        self.reference = Reference(self.compiled.integer_onnx, graph, self.quantized)
        self.simulator = Simulator(graph)

    def report(
        self, change: Change | None, seed: int = 5, frame: int = 0, shown: list[str] | None = None
    ) -> ReportDocument:
        """Returns the report on a run on random inputs, with the cause of its blame. shown: the tensors that the board
        shows, all of them if None."""
        graph = self.compiled.graph
        prepared = prepared_inputs(graph, InputRequest(seed=seed))
        sides = {"reference": self.reference.run(prepared), "simulator": self.simulator.run(prepared)}
        arrays = prepared.arrays()
        shown = [n for n in graph.observable() if n not in arrays] if shown is None else shown
        values = run_board(self.m, change, {n: arrays[n] for n in self.m.feed}, shown)
        sides["board"] = record_runner(graph, values)
        runs = {"reference": self.reference.run_unit, "simulator": self.simulator.run_unit}
        report = judge_all(sides, graph, units(graph), Options(dump_all=True, frame=frame), runs, None, arrays)
        self.causes.add(report, NodeEvidence(sides, graph, arrays), frame)
        return report
