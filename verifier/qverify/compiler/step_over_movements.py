"""Rewrites movements between DequantizeLinear and an operator, or an operator and QuantizeLinear, to move integers.

The results have the same bits, because a movement copies elements, and with one scale each element is quantized and
dequantized by itself:

  x -> DQ -> move -> op        becomes   x -> move -> DQ -> op
  op -> move -> Q -> y         becomes   op -> Q -> move -> y

The float tensor that op reads or computes, and y, keep their names. The integer tensor in between is new and called
NAME/quantized."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qverify.compiler.integer_kernels import EIGHT_BIT_FROM
from qverify.compiler.lowerings import lookup, lowerings
from qverify.onnx_model.fold_constants import fold_constants
from qverify.onnx_model.held_data import value_of
from qverify.onnx_model.opsets import standard_opset

COPIES = {"Identity", "Dropout"}
MOVEMENTS = {*COPIES, *lookup.SHAPE_ONLY, "Transpose", "Slice", "Gather", "Split", *(EIGHT_BIT_FROM.keys() - {"Clip"})}
MOVED_TYPES = {
    getattr(onnx.TensorProto, name) for name in ("UINT8", "INT8", "UINT16", "INT16", "INT32")
}  # onnxruntime moves no float8 and no 4 bits in most of these operators
IN_TABLES = {*lookup.ONNX_TYPES} - MOVEMENTS  # functions that one lookup table can contain, together with reshapes
Dims = tuple[int, ...]


def step_over_movements(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model with integers moved instead of floats wherever the integer form of an operator needs that, or
    the model itself if there is no such place.

    model: its nodes are in running order and its value_info is complete."""
    places = _Places(model)
    after = places.before_quantize(places.behind_dequantize(list(model.graph.node)))
    if not places.declarations:
        return model
    stepped = onnx.ModelProto()
    stepped.CopyFrom(model)
    del stepped.graph.node[:]
    stepped.graph.node.extend(after)
    stepped.graph.value_info.extend(places.declarations)
    stepped.graph.initializer.extend(places.borders)
    if any(node.input[0] in places.constants and node.op_type in MOVEMENTS for node in after if node.input):
        fold_constants(stepped, places.types())
    return stepped


class _Places:
    """Finds and rewrites the places in one model.

    Attributes:
        constants: the model's initializers.
        declarations: types and shapes of the integer tensors that were added.
        borders: new initializers, the values that a Pad of integers fills in.
    """

    def __init__(self, model: onnx.ModelProto):
        graph = model.graph
        self.constants = {i.name: i for i in graph.initializer}
        self.declarations: list[onnx.ValueInfoProto] = []
        self.borders: list[onnx.TensorProto] = []
        self._opset = standard_opset(model)
        self._ends = {o.name for o in graph.output}
        self._infos = {v.name: v for v in [*graph.value_info, *graph.input, *graph.output]}
        self._taken = {*self._infos, *self.constants, *(o for n in graph.node for o in n.output)}

    def types(self) -> dict[str, tuple[int, Dims]]:
        """Returns the type and dims of every tensor whose shape is known."""
        every = ((n, v.type.tensor_type.elem_type, self._dims(n)) for n, v in self._infos.items())
        return {n: (kind, dims) for n, kind, dims in every if dims is not None}

    def behind_dequantize(self, nodes: list[Any]) -> list[Any]:
        """Returns the nodes with movements of dequantized tensors put before their DequantizeLinear."""
        needed, makers, after = self._needed(nodes), dict[str, Any](), list[Any]()
        for node in nodes:
            replacement = [node]
            if node.op_type == "Concat" and node.output[0] in needed:
                replacement = self._join([makers.get(n) for n in node.input], node)
            elif node.op_type in MOVEMENTS and needed.intersection(node.output):
                dequantize = makers.get(node.input[0])
                if (
                    dequantize is not None
                    and dequantize.op_type == "DequantizeLinear"
                    and self._moves(node, dequantize.input[0])
                ):
                    replacement = self._swap(dequantize, node)
            after += replacement
            makers |= {o: n for n in replacement for o in n.output}
        return after

    def _needed(self, nodes: list[Any]) -> set[str]:
        """Returns the tensors that must come directly from a DequantizeLinear, because the integer form of an operator
        reads them, and those from which movements lead to such a tensor or to a QuantizeLinear."""
        match, quantized, in_tables = lowerings().match, set[str](), set[str]()
        needed = self._gathered_constants(nodes)
        for node in reversed(nodes):
            if node.op_type == "QuantizeLinear":
                quantized.add(node.input[0])
            elif node.op_type in MOVEMENTS:
                if node.op_type not in (*COPIES, *lookup.SHAPE_ONLY):
                    needed |= in_tables.intersection(node.output)
                if needed.intersection(node.output) or quantized.intersection(node.output):
                    needed.add(node.input[0])
            elif node.op_type == "Concat" and node.output[0] in quantized:
                needed.discard(node.output[0])  # it has an integer form of its own
                needed.update(node.input)
            elif node.op_type in match:
                needed.update(node.input)
            elif node.op_type in IN_TABLES:
                in_tables.update(node.input)
        return needed

    def _gathered_constants(self, nodes: list[Any]) -> set[str]:
        """Returns the tensors that a Gather reads from a dequantized constant, such as the table of an embedding, which
        model.bin then holds as integers."""
        tables = {n.output[0] for n in nodes if n.op_type == "DequantizeLinear" and n.input[0] in self.constants}
        return {node.output[0] for node in nodes if node.op_type == "Gather" and node.input[0] in tables}

    def _swap(self, back: Any, move: Any) -> list[Any]:
        """Returns a movement of integers followed by a DequantizeLinear for each of its outputs, or the movement alone
        if that is impossible. back: the DequantizeLinear before the movement."""
        axis = self._axis(back, move)
        if axis is None or self._ends.intersection(move.output):
            return [move]
        wholes = [self._integer(o, back.input[0]) for o in move.output]
        if not all(wholes):
            return [move]
        moved = _copy(move, [back.input[0], *self._further_inputs(move, back, wholes[0])], wholes)
        return [moved, *(_dequantize_like(back, w, o, axis) for w, o in zip(wholes, move.output, strict=True))]

    def _join(self, backs: list[Any], concat: Any) -> list[Any]:
        """Returns a Concat of integers followed by a DequantizeLinear if all inputs are quantized alike, else the
        Concat alone. backs: the nodes that compute the inputs."""
        first, end = backs[0] if backs else None, concat.output[0]
        if first is None or end in self._ends or any(b is None or b.op_type != "DequantizeLinear" for b in backs):
            return [concat]
        alike = all(self._one_scale(b) and self._parameters(b) == self._parameters(first) for b in backs)
        whole = self._integer(end, first.input[0]) if alike else ""
        if not whole:
            return [concat]
        return [_copy(concat, [b.input[0] for b in backs], [whole]), _dequantize_like(first, whole, end, -1)]

    def _parameters(self, back: Any) -> tuple[Any, ...]:
        """Returns scale, zero point and input type of a DequantizeLinear in a form that can be compared."""
        constants = [self.constants.get(n) if n else None for n in back.input[1:3]]
        values = [None if c is None else value_of(c).reshape(-1).tolist() for c in constants]
        return (self._kind(back.input[0]), back.domain, len(back.input), *back.input[3:], *map(str, values))

    def before_quantize(self, nodes: list[Any]) -> list[Any]:
        """Returns the nodes with QuantizeLinear put before the movements between it and an operator."""
        makers = {o: at for at, node in enumerate(nodes) for o in node.output if o}
        readers: dict[str, int] = {}
        for name in (n for node in nodes for n in dict.fromkeys(node.input)):
            readers[name] = readers.get(name, 0) + 1
        read_once = {n for n, count in readers.items() if count == 1} - self._ends
        for last in reversed(range(len(nodes))):
            at = last
            while (first := self._movement_before(nodes, makers, read_once, at)) is not None:
                move, quantize = nodes[first], nodes[at]
                whole = self._integer(move.input[0], quantize.output[0])
                if not whole:
                    break
                nodes[first] = _copy(quantize, [move.input[0], *quantize.input[1:]], [whole])
                nodes[at] = _copy(move, [whole, *self._further_inputs(move, quantize, whole)], [quantize.output[0]])
                at = first
        return nodes

    def _movement_before(self, nodes: list[Any], makers: dict[str, int], read_once: set[str], at: int) -> int | None:
        """Returns the position of the movement whose result node `at` quantizes, or None if they must stay in order."""
        quantize = nodes[at]
        if quantize.op_type != "QuantizeLinear" or not self._one_scale(quantize) or quantize.input[0] not in read_once:
            return None
        first = makers.get(quantize.input[0])
        if first is None or len(nodes[first].output) > 1 or not self._moves(nodes[first], quantize.output[0]):
            return None
        if nodes[first].input[0] not in read_once:
            return None
        return first if self._is_operator_result(nodes, makers, nodes[first].input[0]) else None

    def _is_operator_result(self, nodes: list[Any], makers: dict[str, int], name: str) -> bool:
        """Returns whether an operator that may have an integer form computes the tensor. False if it is a function of
        one dequantized tensor, because one lookup table then contains the function and the movement."""
        while name in makers:
            node = nodes[makers[name]]
            if node.op_type in lowerings().match:
                return True
            if node.op_type not in IN_TABLES and node.op_type not in MOVEMENTS:
                return node.op_type not in ("DequantizeLinear", "QuantizeLinear")
            name = node.input[0]
        return False

    def _moves(self, node: Any, whole: str) -> bool:
        """Returns whether the node only copies elements of its first input, all its other inputs are constants (except
        the indices of a Gather), and onnxruntime has a kernel for integers of the type of `whole`."""
        further = node.input[2:] if node.op_type == "Gather" else node.input[1:]
        if node.op_type not in MOVEMENTS or node.domain not in ("", "ai.onnx") or not all(node.output):
            return False
        if len(node.output) > 1 and node.op_type != "Split":
            return False
        if node.input[0] in node.input[1:] or any(n and n not in self.constants for n in further):
            return False
        if node.op_type in EIGHT_BIT_FROM and not self._moves_eight_bits(node, whole):
            return False
        return node.op_type != "Dropout" or not any(n and self._has_nonzero(n) for n in node.input[2:])

    def _moves_eight_bits(self, node: Any, whole: str) -> bool:
        """Returns whether onnxruntime has a kernel of this movement for `whole`, which must have 8 bits."""
        eight = self._kind(whole) in (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
        moves = self._pads_zeros(node) if node.op_type == "Pad" else lowerings().moves(node)
        return eight and moves and self._opset >= EIGHT_BIT_FROM[node.op_type]

    def _pads_zeros(self, pad: Any) -> bool:
        """Returns whether a Pad fills in copies of elements, or 0.0, which is the zero point as an integer."""
        value = pad.input[2] if len(pad.input) > 2 else ""
        return _mode(pad) != b"constant" or not value or not any(value_of(self.constants[value]).tobytes())

    def _further_inputs(self, move: Any, scaled: Any, whole: str) -> list[str]:
        """Returns the inputs after the first of a movement of integers; a Pad gets the zero point as its constant.

        scaled: the QuantizeLinear or DequantizeLinear next to the movement. whole: the name of the new integer
        tensor."""
        further = list(move.input[1:])
        if move.op_type != "Pad" or _mode(move) != b"constant":
            return further
        zero = scaled.input[2] if len(scaled.input) > 2 else ""
        kind, name = onnx.helper.tensor_dtype_to_np_dtype(self._kind(whole)), f"{whole}/border"
        while name in self._taken:
            name += "~"
        self._taken.add(name)
        value = value_of(self.constants[zero]).reshape(-1)[0] if zero else 0
        self.borders.append(numpy_helper.from_array(np.array(value, kind), name))
        return [further[0], name, *further[2:]]

    def _has_nonzero(self, name: str) -> bool:
        """Returns whether the constant has an element other than 0."""
        return bool(value_of(self.constants[name]).any())

    def _one_scale(self, node: Any) -> bool:
        """Returns whether the node has a single constant scale."""
        scale = self.constants.get(node.input[1])
        blocks = any(a.name == "block_size" and a.i for a in node.attribute)
        zero = all(not n or n in self.constants for n in node.input[2:])
        return scale is not None and zero and prod(scale.dims) == 1 and not blocks

    def _axis(self, back: Any, move: Any) -> int | None:
        """Returns the axis of the scales after the movement, -1 for one scale, or None if the movement breaks the axis
        up."""
        if self._one_scale(back):
            return -1
        before, after = self._dims(move.input[0]), self._dims(move.output[0])
        scale = self.constants.get(back.input[1])
        if before is None or after is None or scale is None or len(scale.dims) != 1:
            return None
        axis = next((a.i for a in back.attribute if a.name == "axis"), 1)
        blocks = any(a.name == "block_size" and a.i for a in back.attribute)
        return None if blocks or not -len(before) <= axis < len(before) else _axis_after(move, axis, before, after)

    def _dims(self, name: str) -> Dims | None:
        if name in self.constants:
            return tuple(self.constants[name].dims)
        info = self._infos.get(name)
        if info is None or not info.type.tensor_type.HasField("shape"):
            return None
        return tuple(d.dim_value for d in info.type.tensor_type.shape.dim)

    def _kind(self, name: str) -> int:
        """Returns ONNX's number of the tensor's element type, 0 if it is unknown."""
        if name in self.constants:
            return int(self.constants[name].data_type)
        return int(self._infos[name].type.tensor_type.elem_type) if name in self._infos else 0

    def _integer(self, real: str, like: str) -> str:
        """Declares a new integer tensor with the shape of `real` and the type of `like`, and returns its name; "" if
        the shape is unknown or the type is none that onnxruntime moves."""
        dims, name, kind = self._dims(real), f"{real}/quantized", self._kind(like)
        if dims is None or kind not in MOVED_TYPES:
            return ""
        while name in self._taken:
            name += "~"
        self._taken.add(name)
        self._infos[name] = helper.make_tensor_value_info(name, kind, dims)
        self.declarations.append(self._infos[name])
        return name


def _axis_after(move: Any, axis: int, before: Dims, after: Dims) -> int | None:
    """Returns the number of this axis after a movement, or None if the movement splits, merges or cuts it."""
    axis %= len(before)
    if move.op_type in COPIES:
        return axis
    if move.op_type == "Transpose":
        order = next((list(a.ints) for a in move.attribute if a.name == "perm"), list(range(len(before)))[::-1])
        return order.index(axis)
    if move.op_type not in lookup.SHAPE_ONLY:
        return None
    places = [at for at, size in enumerate(after) if size == before[axis] and prod(after[:at]) == prod(before[:axis])]
    return places[0] if len(places) == 1 else None


def _mode(pad: Any) -> bytes:
    """Returns the mode of a Pad."""
    return next((bytes(a.s) for a in pad.attribute if a.name == "mode"), b"constant")


def _copy(node: Any, inputs: list[str], outputs: list[str]) -> Any:
    """Returns a copy of the node with other inputs and outputs. A Dropout, which has no integer form, becomes an
    Identity."""
    if node.op_type in COPIES:
        return helper.make_node("Identity", inputs[:1], outputs, name=node.name)
    copy = onnx.NodeProto.FromString(node.SerializeToString())
    copy.input[:], copy.output[:] = inputs, outputs
    return copy


def _dequantize_like(back: Any, whole: str, output: str, axis: int) -> Any:
    """Returns a DequantizeLinear of `whole` with the parameters of `back`. axis: axis of the scales, -1 for one
    scale."""
    copy = _copy(back, [whole, *back.input[1:]], [output])
    copy.ClearField("name")  # the original keeps its name
    if axis >= 0:
        _set_axis(copy, axis)
    return copy


def _set_axis(node: Any, axis: int) -> None:
    kept = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in node.attribute if a.name != "axis"]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("axis", axis)])
