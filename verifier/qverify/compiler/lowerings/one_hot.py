"""OneHot -> one_hot."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {"OneHot": {"axis": ANY}}


def lower_float(stream: FloatStream, node: Any) -> None:
    view, where = stream.view, f"{node.name} (OneHot)"
    if node.input[1] not in view.constants:
        raise UnsupportedError(f"{where}: its depth is computed at run time; wanted a constant")
    dtype = view.dtype(node.input[0])
    if dtype not in ("int32", "int64"):
        raise UnsupportedError(f"{where}: its indices are {dtype}, wanted int32 or int64")
    axis = attributes(node).get("axis", -1) % len(view.shape(node.output[0]))
    inputs: list[str | None] = [stream.source(node.input[0]), stream.source(node.input[2])]
    stream.builder.node("one_hot", inputs, stream.declare(node), [axis])
