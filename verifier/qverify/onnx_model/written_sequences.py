"""Writes sequences of tensors out where constants and shapes determine what they contain: the elements that are read become
Slices, Identities and Concats. torch exports chunk, split and lists of tensors as sequences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qverify.onnx_model.held_data import value_of
from qverify.onnx_model.node_order import outer_reads

MAX_PARTS = 64  # of a Concat: a node of model.bin has at most so many inputs
AXES_ARE_INPUT = 13  # the opset from which on the axes of Squeeze and Unsqueeze are an input
SLICES_BY_INPUT = 10  # the opset from which on those of Slice are
Types = Mapping[str, tuple[int, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a sequence: a tensor, or a part of it.

    part: None for the whole tensor; otherwise axis, first and end. squeezed: whether the axis is removed."""

    tensor: str
    part: tuple[int, int, int] | None = None
    squeezed: bool = False


def write_sequences_out(graph: onnx.GraphProto, types: Types, opset: int) -> bool:
    """Writes out what is read from sequences that are known, in place, and removes the nodes of sequences that nothing
    reads any more. Returns whether there was any. types: the known types of tensors. Nodes must be in running order."""
    if opset < SLICES_BY_INPUT or not any("Sequence" in node.op_type for node in graph.node):
        return False
    writer = _SequenceWriter(graph, types, opset)
    nodes = list[onnx.NodeProto]()
    for node in graph.node:
        made = writer.written(node)
        nodes += [onnx.NodeProto.FromString(node.SerializeToString())] if made is None else made
    if not writer.changed:
        return False
    nodes = _without_unread(nodes, {o.name for o in graph.output}, writer.sequences.keys())
    del graph.node[:]
    graph.node.extend(nodes)
    return True


class _SequenceWriter:
    """Follows the sequences of a graph. sequences: the known ones, by name. changed: whether a node was written out."""

    def __init__(self, graph: onnx.GraphProto, types: Types, opset: int):
        self._graph, self._types, self._opset = graph, types, opset
        self._constants = {i.name: i for i in graph.initializer}
        self._taken = {*self._constants, *types, *(n for node in graph.node for n in (*node.input, *node.output))}
        self.sequences = dict[str, list[Element]]()
        self.changed = False
        self._makers: dict[str, Callable[[onnx.NodeProto], list[Element] | None]] = {
            "SequenceEmpty": lambda node: [],
            "SequenceConstruct": lambda node: [Element(name) for name in node.input],
            "SplitToSequence": self._split,
            "SequenceInsert": self._inserted,
            "SequenceErase": self._erased,
            "Identity": lambda node: self.sequences.get(node.input[0]),
        }

    def written(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """Returns the nodes that replace this one, or None if it stays; remembers the sequence that it makes."""
        if node.domain not in ("", "ai.onnx"):
            return None
        if maker := self._makers.get(node.op_type):
            elements = maker(node)
            if elements is not None:
                self.sequences[node.output[0]] = elements
            return None
        elements = self.sequences.get(node.input[0]) if node.input else None
        nodes: list[onnx.NodeProto] | None = None
        if elements is not None and node.op_type == "SequenceAt":
            at = self._position(node, 1, len(elements), len(elements) - 1)
            nodes = None if at is None else self._element(elements[at], node.output[0])
        elif elements is not None and node.op_type == "SequenceLength":
            self._add_constant(node.output[0], np.array(len(elements), np.int64))
            nodes = []
        elif elements and node.op_type == "ConcatFromSequence":
            nodes = self._concatenated(node, elements)
        self.changed |= nodes is not None
        return nodes

    def _split(self, node: onnx.NodeProto) -> list[Element] | None:
        attributes = {a.name: a.i for a in node.attribute}
        x, axis = node.input[0], attributes.get("axis", 0)
        dims = self._types[x][1] if x in self._types else None
        if dims is None or not -len(dims) <= axis < len(dims):
            return None
        axis, size = axis % len(dims), dims[axis]
        if len(node.input) < 2 or not node.input[1]:
            squeezed = not attributes.get("keepdims", 1)
            return [Element(x, (axis, at, at + 1), squeezed) for at in range(size)]
        split = self._value(node.input[1])
        if split is None or split.size == 0 or split.min() < 1:
            return None
        if split.ndim == 0:
            ends = [*range(int(split), size, int(split)), size]
        else:
            ends = [int(end) for end in np.cumsum(split)]
        if ends[-1] != size:
            return None
        return [Element(x, (axis, first, end)) for first, end in zip([0, *ends], ends, strict=False)]

    def _inserted(self, node: onnx.NodeProto) -> list[Element] | None:
        elements = self.sequences.get(node.input[0])
        at = None if elements is None else self._position(node, 2, len(elements) + 1, len(elements))
        if elements is None or at is None:
            return None
        return [*elements[:at], Element(node.input[1]), *elements[at:]]

    def _erased(self, node: onnx.NodeProto) -> list[Element] | None:
        elements = self.sequences.get(node.input[0])
        at = None if elements is None else self._position(node, 1, len(elements), len(elements) - 1)
        return None if elements is None or at is None else elements[:at] + elements[at + 1 :]

    def _position(self, node: onnx.NodeProto, number: int, count: int, default: int) -> int | None:
        """Returns the position that input `number` states, from 0 to count - 1, or None if that is not known. A negative
        one counts from the end; without the input it is the default."""
        if len(node.input) <= number or not node.input[number]:
            return default if default >= 0 else None
        value = self._value(node.input[number])
        if value is None or value.size != 1:
            return None
        at = int(value.reshape(-1)[0])
        at += (count if node.op_type != "SequenceInsert" else count - 1) if at < 0 else 0
        return at if 0 <= at < count else None

    def _element(self, element: Element, to: str) -> list[onnx.NodeProto]:
        """Returns the nodes that compute an element as the tensor `to`."""
        if element.part is None:
            return [helper.make_node("Identity", [element.tensor], [to], f"{to}/Identity")]
        axis, first, end = element.part
        whole = self._fresh(f"{to}/slice") if element.squeezed else to
        bounds = [self._ints(f"{to}/{what}", n) for what, n in (("first", first), ("end", end), ("axis", axis))]
        nodes = [helper.make_node("Slice", [element.tensor, *bounds], [whole], f"{to}/Slice")]
        return nodes + ([self._along("Squeeze", whole, to, axis)] if element.squeezed else [])

    def _concatenated(self, node: onnx.NodeProto, elements: list[Element]) -> list[onnx.NodeProto] | None:
        attributes, to = {a.name: a.i for a in node.attribute}, node.output[0]
        axis, stacks = attributes.get("axis", 0), attributes.get("new_axis", 0)
        if len(elements) > MAX_PARTS:
            return None
        nodes, parts = list[onnx.NodeProto](), list[str]()
        for number, element in enumerate(elements):
            part = element.tensor
            if element.part is not None:
                part = self._fresh(f"{to}/element{number}")
                nodes += self._element(element, part)
            if stacks:
                source, part = part, self._fresh(f"{to}/row{number}")
                nodes.append(self._along("Unsqueeze", source, part, axis))
            parts.append(part)
        return [*nodes, helper.make_node("Concat", parts, [to], f"{to}/Concat", axis=axis)]

    def _along(self, kind: str, source: str, to: str, axis: int) -> onnx.NodeProto:
        """Returns a Squeeze or an Unsqueeze of one axis."""
        if self._opset < AXES_ARE_INPUT:
            return helper.make_node(kind, [source], [to], f"{to}/{kind}", axes=[axis])
        return helper.make_node(kind, [source, self._ints(f"{to}/axis", axis)], [to], f"{to}/{kind}")

    def _value(self, name: str) -> np.ndarray | None:
        return value_of(self._constants[name]) if name in self._constants else None

    def _ints(self, name: str, value: int) -> str:
        return self._add_constant(self._fresh(name), np.array([value], np.int64))

    def _add_constant(self, name: str, value: np.ndarray) -> str:
        self._constants[name] = numpy_helper.from_array(value, name)
        self._graph.initializer.append(self._constants[name])
        return name

    def _fresh(self, name: str) -> str:
        while name in self._taken:
            name += "~"
        self._taken.add(name)
        return name


def _without_unread(nodes: list[onnx.NodeProto], finals: set[str], sequences: Collection[str]) -> list[onnx.NodeProto]:
    """Returns the nodes without those that make sequences which nothing reads. finals: the outputs of the graph."""
    read, kept = set(finals), list[onnx.NodeProto]()
    for node in reversed(nodes):
        if node.output and node.output[0] in sequences and not read.intersection(node.output):
            continue
        read |= outer_reads(node)
        kept.append(node)
    return kept[::-1]
