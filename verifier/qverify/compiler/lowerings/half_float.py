"""Cast to float16, from float16, or to float16 and back -> half_float; to bfloat16 and back -> elementwise_float.

onnx_model/widen_float16.py writes the two casts after nodes that compute in float16 or bfloat16; float16 itself is only
at the ends of the graph."""

from __future__ import annotations

from typing import Any

from qverify.compiler.builder import Builder
from qverify.compiler.lowerings.cast import ONNX_TYPES as ONNX_TYPES
from qverify.compiler.unit import LoweredUnit
from qverify.model_bin.float_functions import FUNCTIONS
from qverify.onnx_model.graph_view import GraphView
from qverify.tensors.spec import TensorSpec

INSIDE: tuple[str, ...] = ("float32 to float32",)
AT_AN_END: tuple[str, ...] = ("float16 to float32", "float32 to float16")


def match_float(view: GraphView, node: Any) -> LoweredUnit | None:
    """Returns the unit of a Cast between float32 and an end of the graph that is float16, or of a Cast from float16 or
    bfloat16 to float32 that reads a Cast from float32; None for other nodes."""
    x, y, legal = node.input[0], node.output[0], AT_AN_END
    covers: tuple[str, ...] = (node.name,)
    first = view.producer.get(x)
    narrow = view.foreign.get(x)
    if narrow in ("float16", "bfloat16") and first is not None and first.op_type == "Cast":
        x, covers, legal = first.input[0], (first.name, node.name), INSIDE
    if x not in view.types or y not in view.types:
        return None
    (source, shape), (target, _) = view.types[x], view.types[y]
    if f"{source} to {target}" not in legal:
        return None

    def lower(builder: Builder) -> None:
        builder.tensor(TensorSpec(x, source, shape))
        builder.tensor(TensorSpec(y, target, shape))
        if narrow == "bfloat16":
            builder.node("elementwise_float", [x], [y], [FUNCTIONS["bfloat16"].number, 0, 0], (), False)
        else:
            builder.node("half_float", [x], [y], (), (), False)

    return LoweredUnit(y, lower, covers=covers)
