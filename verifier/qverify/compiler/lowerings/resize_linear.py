"""Linear Resize between DQ and Q (rounded), or on integers in QOperator models (truncated)."""

from __future__ import annotations

from typing import Any

from qverify.compiler.builder import Builder
from qverify.compiler.lowerings.resize import linear_tables
from qverify.compiler.unit import Activation, Unit, operand
from qverify.errors import UnsupportedError
from qverify.onnx_model.view import Quantized, View, attributes

ONNX_TYPES = ("Resize",)


def match(view: View, node: Any, y: Quantized, act: Activation) -> Unit | None:
    x = view.dequantized(node.input[0])
    if x is not None and max(len(x.scale), len(y.scale)) > 1:
        raise UnsupportedError(
            f"{node.name} (Resize): between tensors quantized per channel; only per tensor is supported"
        )
    if x is None or x.value is not None or attributes(node).get("mode", b"nearest") != b"linear" or act.clamps(y.dtype):
        return None
    return Unit(y.name, lambda b: lower(b, view, node, x, y, 0))


def lower(builder: Builder, view: View, node: Any, x: Quantized, y: Quantized, truncate: int) -> None:
    shape, out = view.shape(x.name), view.shape(y.name)
    index, weight = linear_tables(view, node, shape, out)
    builder.tensor(y.spec(y.name, out))
    tables = [builder.made(f"{y.name}/index", index), builder.made(f"{y.name}/weight", weight)]
    builder.node("resize_linear", [operand(builder, x, shape), *tables], [y.name], [truncate])
