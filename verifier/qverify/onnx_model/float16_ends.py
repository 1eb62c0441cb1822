"""Keeps the float16 inputs and outputs of a graph whose inside was widened to float32 (widen_float16.py).

A float16 input is cast to float32 once, behind the input, and the nodes read the result NAME/float32. A float16 output
is a Cast of the float32 value NAME/float32 that the nodes compute, or the Cast that rounds its value, if there is
one."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import helper

from qverify.errors import UnsupportedError
from qverify.onnx_model.rewriter import Rewriter

FLOAT, FLOAT16 = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16


def float16_ends(model: onnx.ModelProto) -> set[str]:
    """Returns the names of the graph's inputs and outputs that are float16."""
    return {v.name for v in [*model.graph.input, *model.graph.output] if v.type.tensor_type.elem_type == FLOAT16}


def check_ends(model: onnx.ModelProto, name: str) -> None:
    """Raises UnsupportedError for an input or output of the graph that is bfloat16: onnxruntime takes no such
    arrays."""
    for word, values, cast in (("input", model.graph.input, "to"), ("output", model.graph.output, "from")):
        for value in values:
            if value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16:
                raise UnsupportedError(
                    f"{name}: the graph's {word} {value.name!r} is bfloat16. Make it float32, with a Cast {cast} bfloat16 inside the graph"
                )


def set_ends(model: onnx.ModelProto, names: set[str], kind: int) -> None:
    """Gives these inputs and outputs an element type, in place."""
    for value in [*model.graph.input, *model.graph.output]:
        if value.name in names:
            value.type.tensor_type.elem_type = kind


def restore_ends(model: onnx.ModelProto, names: set[str]) -> onnx.ModelProto:
    """Returns the widened model with these inputs and outputs, which are float32 in it, as float16."""
    restored = onnx.ModelProto()
    restored.CopyFrom(model)
    ends = _Ends(restored)
    for name in [o.name for o in restored.graph.output if o.name in names]:
        ends.restore_output(name)
    for name in [i.name for i in restored.graph.input if i.name in names]:
        ends.restore_input(name)
    ends.write()
    set_ends(restored, names, FLOAT16)
    return restored


class _Ends:
    """Rewrites the nodes at the ends of one widened model. write() stores the result in the model."""

    def __init__(self, model: onnx.ModelProto):
        self._graph, self._names = model.graph, Rewriter(model)
        self._infos = {v.name: v for v in [*model.graph.value_info, *model.graph.output, *model.graph.input]}
        self._nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in model.graph.node]
        self._declared: list[onnx.ValueInfoProto] = []

    def restore_output(self, name: str) -> None:
        """Makes a node compute the output as float16, unless it is an input or a constant."""
        maker = next((n for n in self._nodes if name in n.output), None)
        if maker is None:
            return
        wide, narrow = self._wide(name), self._rounding_before(maker)
        self._rename(name, wide)
        if narrow is None:
            self._nodes.append(_cast(wide, name, f"{name}/Cast", FLOAT16))
            return
        maker.input[0] = narrow.output[0] = name
        if not any(wide in n.input for n in self._nodes):
            self._nodes.remove(maker)

    def restore_input(self, name: str) -> None:
        """Makes the nodes read the input as float32 behind one Cast. An Identity of the input, which was a Cast to
        float32, becomes this Cast."""
        readers = [n for n in self._nodes if name in n.input]
        if not readers:
            return
        before = next((n for n in readers if n.op_type == "Identity"), None)
        if before is not None:
            self._nodes.remove(before)
            readers.remove(before)
        wide = self._wide(name) if before is None else before.output[0]
        for node in readers:
            node.input[:] = [wide if n == name else n for n in node.input]
        self._nodes.insert(0, _cast(name, wide, f"{wide}/Cast" if before is None else before.name, FLOAT))

    def write(self) -> None:
        """Stores nodes and types in the model."""
        del self._graph.node[:]
        self._graph.node.extend(self._nodes)
        self._graph.value_info.extend(self._declared)

    def _wide(self, name: str) -> str:
        """Declares the float32 tensor of an end and returns its name."""
        declared = onnx.ValueInfoProto()
        declared.CopyFrom(self._infos[name])
        declared.name = self._names.fresh_of(name, "float32")
        self._declared.append(declared)
        return declared.name

    def _rounding_before(self, node: Any) -> Any:
        """Returns the Cast to float16 that this Cast back to float32 alone reads, or None for any other node."""
        if node.op_type != "Cast" or node.input[0] not in self._infos:
            return None
        narrow = next((n for n in self._nodes if node.input[0] in n.output), None)
        alone = sum(node.input[0] in n.input for n in self._nodes) == 1
        kind = self._infos[node.input[0]].type.tensor_type.elem_type
        return narrow if kind == FLOAT16 and alone and narrow is not None and narrow.op_type == "Cast" else None

    def _rename(self, name: str, to: str) -> None:
        """Renames a tensor in every node."""
        for node in self._nodes:
            node.input[:] = [to if n == name else n for n in node.input]
            node.output[:] = [to if n == name else n for n in node.output]


def _cast(source: str, to: str, name: str, kind: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [to], name, to=kind)
