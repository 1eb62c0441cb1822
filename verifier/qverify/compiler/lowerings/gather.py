"""Gather -> gather, of constant or computed indices; -> lookup, if its indices are the stored integers of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.attributes import ANY
from qverify.compiler.builder import Builder
from qverify.compiler.stored_tables import plain_unit, quantized_unit
from qverify.compiler.unit import Activation, LoweredUnit
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor, attributes
from qverify.tensors.spec import TensorSpec

ONNX_TYPES = {"Gather": {"axis": ANY}}
EIGHT_BIT_KERNELS = ("Gather",)


def match(view: GraphView, node: Any, y: QuantizedTensor, act: Activation) -> LoweredUnit | None:
    return None if act.clamps(y.dtype) else quantized_unit(view, node, y)


def match_float(view: GraphView, node: Any) -> LoweredUnit | None:
    return plain_unit(view, node)


def move(builder: Builder, view: GraphView, node: Any, source: str, outputs: list[str]) -> None:
    rank = len(view.shape(node.input[0]))
    indices = indices_of(builder, view, node, f"{outputs[0]}/indices")
    builder.node("gather", [source, indices], outputs, [attributes(node).get("axis", 0) % rank])


def indices_of(builder: Builder, view: GraphView, node: Any, new_name: str) -> str:
    """Returns the name of the model.bin tensor for the node's indices, its second input.

    new_name: the name for constant indices, which are stored as int64. Raises UnsupportedError unless the type is int32
    or int64."""
    name = node.input[1]
    if name in view.constants:
        return builder.new_constant(new_name, view.constants[name].astype(np.int64))
    dtype = view.dtype(name)
    if dtype not in ("int32", "int64"):
        raise UnsupportedError(f"{node.name} ({node.op_type}): its indices are {dtype}, wanted int32 or int64")
    return builder.tensor(TensorSpec(name, dtype, view.shape(name)))
