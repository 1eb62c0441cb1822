"""Rewrites products of uint8 by int8 so that onnxruntime computes them exactly on every host.

Its x86 kernels without VNNI (AVX2, AVX-512) add two products in 16 bits, which saturates; those for uint8 by uint8 do
not (VERDICTS.md, "What the reference computes")."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from qverify.onnx_model.canary import failing_kinds, run_canaries
from qverify.onnx_model.held_data import value_of
from qverify.onnx_model.light_model import Array, LightModel, is_large, lent_tensor
from qverify.onnx_model.node_order import reads

# For each operator: the input number of its first operand's zero point (None if that operand is always uint8), and the
# input numbers of its second operands and of their zero points.
OPERANDS: dict[str, tuple[int | None, tuple[tuple[int, int], ...]]] = {
    "QLinearConv": (2, ((3, 5),)),
    "QLinearMatMul": (2, ((3, 5),)),
    "QGemm": (2, ((3, 5),)),
    "MatMulInteger": (2, ((1, 3),)),
    "ConvInteger": (2, ((1, 3),)),
    "MatMulIntegerToFloat": (4, ((1, 5),)),
    "QAttention": (6, ((1, 7),)),
    "DynamicQuantizeMatMul": (None, ((1, 3),)),
    "DynamicQuantizeLSTM": (None, ((1, 9), (2, 11))),
}
SHIFT = 128
# Operators whose output has the type of their first input
SAME_TYPE = {
    *("Concat", "Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape", "Slice", "Squeeze", "Tile", "Transpose"),
    "Unsqueeze",
}


@cache
def inexact_kernels() -> frozenset[str]:
    """Returns the operators whose products of uint8 by int8 are wrong on this host, according to the canary."""
    return frozenset(failing_kinds(run_canaries(), mixed=True)) & OPERANDS.keys()


def unsure_products(model: onnx.ModelProto, kinds: frozenset[str] | None = None) -> set[str]:
    """Returns the outputs of nodes that may multiply uint8 by int8, judging by what the model declares.

    kinds: the operators to look at, None for inexact_kernels()."""
    wanted = inexact_kernels() if kinds is None else kinds
    operands = _Operands(model)
    unsure = (node for node in model.graph.node if node.op_type in wanted and operands.mixed(node) is not False)
    return {o for node in unsure for o in node.output}


def with_exact_products(source: LightModel, kinds: frozenset[str] | None = None) -> LightModel:
    """Returns the model with every product of uint8 by int8 turned into one of uint8 by uint8, or the same object if
    there is none: 128 is added to the second operand and to its zero point, which leaves every sum of products
    unchanged.

    kinds: the operators to look at, None for inexact_kernels()."""
    wanted = inexact_kernels() if kinds is None else kinds
    if not any(node.op_type in wanted for node in source.model.graph.node):
        return source
    return _OperandShifter(source).rewrite(wanted)


def _input(node: onnx.NodeProto, at: int) -> str:
    return str(node.input[at]) if at < len(node.input) else ""


class _Operands:
    """The element types of a model's tensors, as far as the model declares them."""

    def __init__(self, model: onnx.ModelProto):
        graph = model.graph
        self.constants = {i.name: i for i in graph.initializer}
        self._makers = {o: node for node in graph.node for o in node.output if o}
        self._types = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.value_info, *graph.output)}
        self.names = {*self.constants, *self._makers, *self._types}

    def mixed(self, node: onnx.NodeProto) -> bool | None:
        """Returns whether the node multiplies uint8 by int8, or None if that is unknown."""
        first_zero, seconds = OPERANDS[node.op_type]
        first = TensorProto.UINT8 if first_zero is None else self._type(_input(node, first_zero), node.input[0])
        second_types = {self._type(_input(node, second), _input(node, zero)) for second, zero in seconds}
        if first == TensorProto.INT8 or second_types == {TensorProto.UINT8}:
            return False
        return True if first == TensorProto.UINT8 and second_types == {TensorProto.INT8} else None

    def _type(self, *names: str) -> int:
        """Returns the element type that these tensors share, from the first that is known; 0 if none is."""
        return next(filter(None, map(self._type_of, names)), 0)

    def _type_of(self, name: str) -> int:
        if name in self.constants:
            return int(self.constants[name].data_type)
        maker = self._makers.get(name)
        if maker is not None and maker.op_type == "DynamicQuantizeLinear" and name != maker.output[1]:
            return int(TensorProto.UINT8)
        if maker is not None and maker.op_type in SAME_TYPE and not self._types.get(name):
            return self._type_of(maker.input[0])
        return int(self._types.get(name, 0))


class _OperandShifter:
    """Builds a copy of a model in which 128 is added to second operands."""

    def __init__(self, source: LightModel):
        self._source, self._operands = source, _Operands(source.model)
        self._constants, self._taken = self._operands.constants, self._operands.names
        self._lent = dict[str, Array]()  # large new constants
        self._nodes, self._new_constants = list[onnx.NodeProto](), list[TensorProto]()
        self._shifted_names = dict[str, str]()  # int8 tensor to its shifted copy

    def rewrite(self, kinds: frozenset[str]) -> LightModel:
        """Returns the model with the products of these operators rewritten; the same object if there are none."""
        for node in self._source.model.graph.node:
            mixed = node.op_type in kinds and self._operands.mixed(node)
            self._nodes.append(self._with_shift(node) if mixed else node)
        return self._model() if self._new_constants else self._source

    def _with_shift(self, node: onnx.NodeProto) -> onnx.NodeProto:
        node = onnx.NodeProto.FromString(node.SerializeToString())
        for second, at in OPERANDS[node.op_type][1]:
            node.input.extend([""] * (at + 1 - len(node.input)))
            zero = node.input[at]
            node.input[second] = self._shift(node.input[second])
            node.input[at] = self._shift(zero) if zero else self._add("zero", np.array(SHIFT, np.uint8))
        return node

    def _shift(self, name: str) -> str:
        """Returns the name of an int8 tensor's copy with 128 added, as uint8; creates it on the first call."""
        if name not in self._shifted_names:
            self._shifted_names[name] = (
                self._shift_constant(name) if name in self._constants else self._shift_computed(name)
            )
        return self._shifted_names[name]

    def _shift_constant(self, name: str) -> str:
        lent = self._source.constants.get(name)
        value = value_of(self._constants[name]) if lent is None else lent
        return self._add(name, np.asarray(value.view(np.uint8) ^ np.uint8(SHIFT)))

    def _shift_computed(self, name: str) -> str:
        by = self._add("shift", np.array(SHIFT, np.int32))
        wide, sums, narrow = (self._free(f"{name}/{step}") for step in ("wide", "sum", "uint8"))
        self._nodes += [
            helper.make_node("Cast", [name], [wide], to=TensorProto.INT32),
            helper.make_node("Add", [wide, by], [sums]),
            helper.make_node("Cast", [sums], [narrow], to=TensorProto.UINT8),
        ]
        return narrow

    def _add(self, name: str, value: Array) -> str:
        """Adds a constant and returns its name."""
        new_name = self._free(f"{name}/uint8")
        if is_large(value):
            self._lent[new_name] = value
            self._new_constants.append(lent_tensor(new_name, value))
        else:
            self._new_constants.append(numpy_helper.from_array(value, new_name))
        return new_name

    def _free(self, name: str) -> str:
        """Returns the name with `~` appended until no tensor has it, and reserves it."""
        while name in self._taken:
            name += "~"
        self._taken.add(name)
        return name

    def _model(self) -> LightModel:
        """Returns the model of the new nodes, without the constants that nothing reads any more."""
        model, graph = onnx.ModelProto(), self._source.model.graph
        model.CopyFrom(self._source.model)
        del model.graph.node[:], model.graph.initializer[:]
        model.graph.node.extend(self._nodes)
        read = {n for node in self._nodes for n in reads(node)} | {o.name for o in graph.output}
        shifted = self._shifted_names.keys() - read
        model.graph.initializer.extend(i for i in (*graph.initializer, *self._new_constants) if i.name not in shifted)
        for at in reversed(
            [at for at, i in enumerate(model.graph.input) if i.name in shifted & self._constants.keys()]
        ):
            del model.graph.input[at]  # old files list constants among the inputs, too
        lent: Mapping[str, Array] = {n: v for n, v in self._source.constants.items() if n not in shifted}
        return LightModel(model, {**lent, **self._lent})
