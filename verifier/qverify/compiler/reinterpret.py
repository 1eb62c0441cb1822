"""Gives every integer tensor one scale and zero point, where a model reads its integers with others.

ONNX states scale and zero point at the operators, model.bin at the tensors. The integers of a QuantizeLinear may be
read by a DequantizeLinear with another scale; a copy of the tensor then has the reader's:

  x -> Q(s) -> t -> DQ(r)       becomes   x -> Q(s) -> t -> Cast -> t/reinterpreted -> DQ(r)

The Cast is to the tensor's own type, so that the integers stay the same. The copy of a constant is a constant."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from qverify.compiler.lowerings import lowerings
from qverify.compiler.stated_quantization import Quantization, Stated
from qverify.onnx_model.graph_view import attributes
from qverify.onnx_model.held_data import value_of

QUANTIZED_TYPES = {getattr(onnx.TensorProto, name) for name in ("UINT8", "INT8", "UINT16", "INT16", "INT32")}
Places = tuple[tuple[int, int, int], ...]  # numbers of a tensor, its scale and its zero point
OPERANDS: dict[str, Places] = {  # inputs of each operator on integers
    "DequantizeLinear": ((0, 1, 2),),
    "MatMulIntegerToFloat": ((0, 2, 4), (1, 3, 5)),
    "QGemm": ((0, 1, 2), (3, 4, 5)),
    "QLinearAdd": ((0, 1, 2), (3, 4, 5)),
    "QLinearAveragePool": ((0, 1, 2),),
    "QLinearConv": ((0, 1, 2), (3, 4, 5)),
    "QLinearGlobalAveragePool": ((0, 1, 2),),
    "QLinearLeakyRelu": ((0, 1, 2),),
    "QLinearMatMul": ((0, 1, 2), (3, 4, 5)),
    "QLinearMul": ((0, 1, 2), (3, 4, 5)),
    "QLinearSigmoid": ((0, 1, 2),),
    "QLinearSoftmax": ((0, 1, 2),),
    "QLinearWhere": ((1, 2, 3), (4, 5, 6)),
}
RESULTS: dict[str, tuple[int, int]] = {  # inputs that are scale and zero point of the first output
    "QGemm": (7, 8),
    "QLinearAdd": (6, 7),
    "QLinearAveragePool": (3, 4),
    "QLinearConcat": (0, 1),
    "QLinearConv": (6, 7),
    "QLinearGlobalAveragePool": (3, 4),
    "QLinearLeakyRelu": (3, 4),
    "QLinearMatMul": (6, 7),
    "QLinearMul": (6, 7),
    "QLinearSigmoid": (3, 4),
    "QLinearSoftmax": (3, 4),
    "QLinearWhere": (7, 8),
    "QuantizeLinear": (1, 2),
}
# inputs of operators that copy integers besides those of the movements; the first output is quantized as they are
COPIED = {"Clip": (0,), "ScatterElements": (0, 2), "ScatterND": (0, 2), "TopK": (0,), "Where": (1, 2)}


def reinterpret(model: onnx.ModelProto, known: Stated | None = None) -> tuple[onnx.ModelProto, Stated]:
    """Returns the model with a copy of each integer tensor that is read with another scale or zero point than it has,
    and the quantization of every computed integer tensor; if there is no such tensor, the model itself, and the
    quantization of the inputs that only nodes of COPIED read, as the reader behind these states it.

    model: its nodes are in running order and its value_info is complete. known: the quantization of tensors that another file
    states."""
    graph = _Graph(model, known or {})
    nodes = graph.with_copies()
    if not graph.declarations and not graph.constants:
        return model, {name: graph.quantizations[name] for name in graph.moved_inputs}
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.node[:]
    changed.graph.node.extend(nodes)
    changed.graph.value_info.extend(graph.declarations)
    changed.graph.initializer.extend(graph.constants)
    return changed, graph.quantizations


class _Graph:
    """The integer tensors of one model.

    Attributes:
        quantizations: the quantization of each tensor that has one.
        declarations: types and shapes of the computed copies.
        constants: the copies of constants.
        moved_inputs: network inputs whose quantization only a reader behind a node of COPIED states.
    """

    def __init__(self, model: onnx.ModelProto, known: Stated):
        graph, self._known = model.graph, known
        self._nodes = list(graph.node)
        self._constants = {i.name: i for i in graph.initializer}
        self._infos = {v.name: v for v in [*graph.value_info, *graph.input, *graph.output]}
        self._taken = {*self._infos, *self._constants, *(o for n in graph.node for o in n.output)}
        self.declarations: list[onnx.ValueInfoProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.quantizations: Stated = {}
        self.moved_inputs = {i.name for i in graph.input}
        self._find_quantizations()

    def _find_quantizations(self) -> None:
        """Fills in the quantization of every tensor: what its node states; for a copy of integers that of its source;
        else what its first reader states, also behind copies."""
        found, read = self.quantizations, Stated()
        found |= {name: stated for name, stated in self._known.items() if self._kind(name) in QUANTIZED_TYPES}
        for node in self._nodes:
            if (result := self._of_result(node)) is not None:
                found[node.output[0]] = result
            for at, stated in self._of_operands(node):
                read.setdefault(node.input[at], stated)
        copies = {o: n for n in self._nodes if self._copied(n) for o in n.output if self._kind(o) in QUANTIZED_TYPES}
        self.moved_inputs -= {*found, *read}
        for output, node in reversed(copies.items()):
            for name in self._copied(node) if output in read and _is_single(read[output]) else ():
                read.setdefault(name, read[output])
        for name, stated in read.items():
            if name not in copies:
                found.setdefault(name, stated)
        for output, node in copies.items():
            if output in self._known:
                continue
            sources = [found[n] for n in self._copied(node) if n in found and _is_single(found[n])]
            if sources or output in read:
                found[output] = sources[0] if sources else read[output]
        self.moved_inputs &= {n for c in copies.values() if c.op_type in COPIED for n in self._copied(c) if n in found}

    def with_copies(self) -> list[onnx.NodeProto]:
        """Returns the nodes with a copy before the first reader of each tensor that states another quantization."""
        after, copies = list[onnx.NodeProto](), dict[tuple[str, Quantization], str]()
        for node in self._nodes:
            wanted = self._of_operands(node)
            if (of_output := self.quantizations.get(node.output[0])) is not None:
                wanted = [*wanted, *((at, of_output) for at in self._places_copied(node))]
            reader = node
            for at, stated in wanted:
                name = node.input[at]
                if self.quantizations.get(name, stated) == stated:
                    continue
                if (name, stated) not in copies:
                    copies[name, stated] = self._copy(name, stated)
                    if name not in self._constants:
                        to, copy = self._kind(name), copies[name, stated]
                        after.append(helper.make_node("Cast", [name], [copy], name=copy, to=to))
                if reader is node:
                    reader = onnx.NodeProto.FromString(node.SerializeToString())
                reader.input[at] = copies[name, stated]
            after.append(reader)
        return after

    def _copy(self, name: str, stated: Quantization) -> str:
        """Declares a computed copy of the tensor, or adds the copy of a constant, and returns its name."""
        copy = f"{name}/reinterpreted"
        while copy in self._taken:
            copy += "~"
        self._taken.add(copy)
        self.quantizations[copy] = stated
        proto = self._constants.get(name) or self._infos[name]
        same = type(proto).FromString(proto.SerializeToString())
        same.name = copy
        if isinstance(same, onnx.TensorProto):
            self.constants.append(same)
        else:
            self.declarations.append(same)
        return copy

    def _of_result(self, node: onnx.NodeProto) -> Quantization | None:
        """Returns the quantization that the node states for its first output."""
        at = RESULTS.get(node.op_type)
        return None if at is None or _input(node, at[0]) == "" else self._read(node, node.output[0], *at)

    def _of_operands(self, node: onnx.NodeProto) -> list[tuple[int, Quantization]]:
        """Returns the numbers of the node's inputs whose quantization it states, with that."""
        places = OPERANDS.get(node.op_type, ())
        if node.op_type == "QLinearConcat":
            places = tuple((at, at + 1, at + 2) for at in range(2, len(node.input) - 1, 3))
        found = ((at, self._read(node, node.input[at], scale, zero)) for at, scale, zero in places)
        return [(at, stated) for at, stated in found if stated is not None]

    def _read(self, node: onnx.NodeProto, name: str, scale_at: int, zero_at: int) -> Quantization | None:
        """Returns the quantization that the node states for the tensor, None if its parameters are not constants. None
        for a bias, too, a constant whose quantization model.bin does not contain."""
        scale, zero_name = self._constants.get(_input(node, scale_at)), _input(node, zero_at)
        zero = self._constants.get(zero_name)
        is_bias = name in self._constants and self._kind(name) == onnx.TensorProto.INT32
        if self._kind(name) not in QUANTIZED_TYPES or is_bias or scale is None:
            return None
        if (zero_name and zero is None) or attributes(node).get("block_size"):
            return None
        scales = value_of(scale).reshape(-1).astype(np.float64)
        zeros = np.zeros(1) if zero is None else value_of(zero).reshape(-1)
        if zeros.size not in (1, scales.size):
            return None  # refused later
        axis = attributes(node).get("axis", 1) % (self._rank(name) or 1) if scales.size > 1 else -1
        zero_points = np.broadcast_to(zeros.astype(np.int64), scales.shape)
        return Quantization(tuple(scales.tolist()), tuple(zero_points.tolist()), axis)

    def _copied(self, node: onnx.NodeProto) -> list[str]:
        """Returns the tensors that the node copies the integers of, if it does."""
        return [node.input[at] for at in self._places_copied(node)]

    def _places_copied(self, node: onnx.NodeProto) -> list[int]:
        if node.domain not in ("", "ai.onnx") or not node.input or self._kind(node.output[0]) not in QUANTIZED_TYPES:
            return []
        places: tuple[int, ...] = COPIED.get(node.op_type, ())
        if lowerings().moves(node):
            places = (0,)
        elif node.op_type == "Concat":
            places = tuple(range(len(node.input)))
        inputs = [
            (at, node.input[at]) for at in places if at < len(node.input) and node.input[at] not in self._constants
        ]
        return [at for at, name in inputs if self._kind(name) == self._kind(node.output[0])]

    def _kind(self, name: str) -> int:
        """Returns ONNX's number of the tensor's element type, 0 if it is unknown."""
        if name in self._constants:
            return int(self._constants[name].data_type)
        return int(self._infos[name].type.tensor_type.elem_type) if name in self._infos else 0

    def _rank(self, name: str) -> int:
        constant = self._constants.get(name)
        return len(self._infos[name].type.tensor_type.shape.dim if constant is None else constant.dims)


def _is_single(quantization: Quantization) -> bool:
    return len(quantization.scale) == 1


def _input(node: Any, at: int) -> str:
    return str(node.input[at]) if len(node.input) > at else ""
