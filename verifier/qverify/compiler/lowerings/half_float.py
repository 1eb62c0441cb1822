"""Cast to float16 and back -> half_float (onnx_model/widen_float16.py writes these two after nodes that compute in
float16)."""

from __future__ import annotations

from typing import Any

from qverify.compiler.builder import Builder
from qverify.compiler.lowerings.cast import ONNX_TYPES as ONNX_TYPES
from qverify.compiler.unit import LoweredUnit
from qverify.onnx_model.graph_view import GraphView
from qverify.tensors.spec import TensorSpec


def match_float(view: GraphView, node: Any) -> LoweredUnit | None:
    """Returns the unit of a Cast from float16 to float32 that reads a Cast from float32, or None for other nodes."""
    first, y = view.producer.get(node.input[0]), node.output[0]
    if view.foreign.get(node.input[0]) != "float16" or first is None or first.op_type != "Cast":
        return None
    x = first.input[0]
    if any(n in view.foreign or view.dtype(n) != "float32" for n in (x, y)):
        return None

    def lower(builder: Builder) -> None:
        builder.tensor(TensorSpec(x, "float32", view.shape(x)))
        builder.tensor(TensorSpec(y, "float32", view.shape(y)))
        builder.node("half_float", [x], [y], (), (), False)

    return LoweredUnit(y, lower, covers=(first.name, node.name))
