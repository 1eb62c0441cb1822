"""Copies the body of a Loop or a Scan once for each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from qverify.onnx_model.fold_constants import constants_to_initializers
from qverify.onnx_model.inline_branches import rename
from qverify.onnx_model.loop_form import LoopForm, Stacked, first_output, name_of
from qverify.onnx_model.node_order import graphs_of, inner_nodes, outer_reads, sort_nodes
from qverify.onnx_model.rewriter import Rewriter

MAX_PARTS = 32  # of one Concat: a node of model.bin has at most 64 inputs
AXES_ARE_INPUT = 13  # the opset from which on the axes of Unsqueeze are an input


class StepCopies:
    """Writes the steps of one Loop or Scan as nodes of a Rewriter.

    node: its current node. form: its form, whose body is changed."""

    def __init__(self, r: Rewriter, node: onnx.NodeProto, form: LoopForm):
        self._r, self._form, self._name = r, form, name_of(node)
        self._shared = dict[str, str]()  # tensors of the body that are the same in all steps: to the new name
        self._ends = dict[str, str]()  # tensors of the last step that are outputs of the node: to the output's name
        self._numbers = dict[tuple[int, tuple[int, ...]], str]()  # constants
        sort_nodes(form.body, self._name)
        self._share_constants(form.body)
        self._fixed, self._varying = _split_by_inputs(form.body)
        self._read = {n for node in self._varying for n in outer_reads(node)}
        self._inside = {n for node in self._varying for n in _names_inside(node)}
        self._read |= {s.result for s in form.states} | {s.result for s in form.stacked}

    def tensors_each(self) -> int:
        """Returns the number of tensors of a step, with its slices and their places."""
        slices = 2 * len(self._form.sliced) + len(self._form.counters) + len(self._form.stacked)
        return sum(len(node.output) for node in self._varying) + slices

    def branch_on_values(self) -> onnx.NodeProto | None:
        """Returns the first If of the body whose condition depends on what is sliced, on a state or on a tensor outside of
        the body that is no constant; None if there is none. A state that starts as a constant may count the steps."""
        constants = self._r.initializers.keys()
        varying = {s.inside for s in self._form.sliced}
        varying |= {s.inside for s in self._form.states if s.start not in constants}
        inside = {v.name for v in self._form.body.input} | {o for n in self._form.body.node for o in n.output}
        for node in [*self._fixed, *self._varying]:
            outer = {n for n in node.input if n and n not in inside and n not in constants}
            if node.op_type in ("Shape", "Size"):
                continue
            if outer or varying.intersection(node.input):
                if node.op_type == "If" and (node.input[0] in varying or node.input[0] in outer):
                    return node
                varying.update(filter(None, node.output))
        return None

    def write(self, steps: int) -> None:
        """Writes all steps, then the outputs of the node."""
        for node in self._fixed if steps else ():
            self._copy(node, self._shared, "")
        states = [self._visible(s.start) for s in self._form.states]
        slices = list[list[str]]()  # of each step
        for step in range(steps):
            names = self._shared | self._inputs(step, steps, states)
            self._ends = self._last_names() if step == steps - 1 else {}
            for node in self._varying:
                self._copy(node, names, f"step{step}/")
            states = [names.get(s.result, s.result) for s in self._form.states]
            slices.append([names.get(s.result, s.result) for s in self._form.stacked])
        for state, last in zip(self._form.states, states, strict=True):
            if state.final and last != state.final:
                self._node("Identity", [last], state.final)
        for at, stacked in enumerate(self._form.stacked):
            if stacked.final and steps:
                self._stack(stacked, [each[at] for each in slices])

    def _share_constants(self, graph: onnx.GraphProto) -> None:
        """Makes the constants of the body, and of the graphs inside it, constants of the model, in place. A constant
        that a graph inside it returns stays there."""
        constants_to_initializers(graph)
        for inner in [g for node in graph.node for g in graphs_of(node)]:
            self._share_constants(inner)
        is_body = graph is self._form.body
        returned = set[str]() if is_body else {o.name for o in graph.output}
        constants = [onnx.TensorProto.FromString(i.SerializeToString()) for i in graph.initializer]
        names = {i.name: self._fresh(i.name) for i in constants if i.name not in returned}
        del graph.initializer[:]
        graph.initializer.extend(i for i in constants if i.name in returned)
        for constant in constants:
            if constant.name not in returned:
                constant.name = names[constant.name]
                self._add_constant(constant)
        for node in graph.node:
            rename(node, names)
        if is_body:
            self._shared |= names

    def _inputs(self, step: int, steps: int, states: list[str]) -> dict[str, str]:
        """Writes the slices and the numbers that a step reads. Returns the new names of the body's inputs."""
        names = {s.inside: now for s, now in zip(self._form.states, states, strict=True)}
        for sliced in self._form.sliced:
            if sliced.inside in self._read:
                at = self._number(steps - 1 - step if sliced.backward else step)
                names[sliced.inside] = self._fresh(f"step{step}/{sliced.inside}")
                self._node("Gather", [sliced.source, at], names[sliced.inside], axis=sliced.axis)
        for counter, value in zip(self._form.counters, (np.array(step), np.array(True)), strict=False):
            if counter.name in self._read:
                shape = [1] * len(counter.type.tensor_type.shape.dim)
                names[counter.name] = self._constant(f"step{step}/{counter.name}", value.reshape(shape))
        return names

    def _visible(self, state: str) -> str:
        """Returns the name of a state at the start; that of a copy if a subgraph in the body has a tensor of its name."""
        if state not in self._inside:
            return state
        copy = self._fresh(state)
        self._node("Identity", [state], copy)
        return copy

    def _last_names(self) -> dict[str, str]:
        """Returns the tensors of the body that get the name of an output in the last step, and that name."""
        computed = {o for node in self._varying for o in node.output}
        ends = dict[str, str]()
        for state in self._form.states:
            if state.final and state.final not in self._inside and state.result in computed:
                ends.setdefault(state.result, state.final)
        return ends

    def _copy(self, node: onnx.NodeProto, names: dict[str, str], step: str) -> None:
        """Writes a copy of a node of the body, and adds the new names of its outputs to `names`. step: what the new
        names begin with."""
        fresh = {o: self._fresh(f"{step}{o}") for o in node.output if o}
        names |= {o: self._ends.get(o, new) for o, new in fresh.items()}
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        rename(copy, names)
        copy.name = f"{fresh[first_output(node)]}/{node.op_type}"
        self._r.nodes.append(copy)

    def _stack(self, stacked: Stacked, slices: list[str]) -> None:
        """Writes the output that stacks these slices."""
        if len(slices) == 1:
            self._unsqueeze(slices[0], stacked.final, stacked.axis)
            return
        made = {s: self._r.fresh_of(s, "slice") for s in dict.fromkeys(slices)}
        for source, slice_ in made.items():
            self._unsqueeze(source, slice_, stacked.axis)
        parts = [made[s] for s in (reversed(slices) if stacked.backward else slices)]
        while len(parts) > MAX_PARTS:
            groups = [parts[at : at + MAX_PARTS] for at in range(0, len(parts), MAX_PARTS)]
            parts = [self._r.fresh_of(stacked.final, f"part{at}") for at in range(len(groups))]
            for group, part in zip(groups, parts, strict=True):
                self._node("Concat", group, part, axis=stacked.axis)
        self._node("Concat", parts, stacked.final, axis=stacked.axis)

    def _unsqueeze(self, source: str, to: str, axis: int) -> None:
        if self._r.opset < AXES_ARE_INPUT:
            self._node("Unsqueeze", [source], to, axes=[axis])
        else:
            self._node("Unsqueeze", [source, self._number(axis, [1])], to)

    def _node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> None:
        name = output if output.startswith(f"{self._name}/") else f"{self._name}/{output}"
        self._r.nodes.append(helper.make_node(kind, inputs, [output], f"{name}/{kind}", **attributes))

    def _number(self, value: int, shape: Sequence[int] = ()) -> str:
        """Returns the name of an int64 constant, which is added once."""
        key = (value, tuple(shape))
        if key not in self._numbers:
            what = f"{'axis' if shape else 'place'}{value}"
            self._numbers[key] = self._constant(what, np.full(shape, value, np.int64))
        return self._numbers[key]

    def _constant(self, what: str, value: npt.NDArray[Any]) -> str:
        """Adds a constant and returns its name."""
        name = self._fresh(what)
        self._add_constant(numpy_helper.from_array(value, name))
        return name

    def _add_constant(self, constant: onnx.TensorProto) -> None:
        self._r.constants.append(constant)
        self._r.initializers[constant.name] = constant

    def _fresh(self, what: str) -> str:
        return self._r.fresh_of(self._name, what)


def _split_by_inputs(body: onnx.GraphProto) -> tuple[list[onnx.NodeProto], list[onnx.NodeProto]]:
    """Returns the nodes of a body that are the same in all steps, and those that depend on its inputs."""
    varying, fixed, others = {v.name for v in body.input}, list[onnx.NodeProto](), list[onnx.NodeProto]()
    for node in body.node:
        if varying.isdisjoint(outer_reads(node)):
            fixed.append(node)
        else:
            varying.update(filter(None, node.output))
            others.append(node)
    return fixed, others


def _names_inside(node: onnx.NodeProto) -> Iterator[str]:
    """Yields the names of the tensors that the node's subgraphs define."""
    for graph in (graph for inner in inner_nodes(node) for graph in graphs_of(inner)):
        yield from (v.name for v in (*graph.input, *graph.initializer))
        yield from (o for inner in graph.node for o in inner.output)
