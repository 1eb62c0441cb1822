"""ScatterND -> scatter_nd, of constant or computed indices."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import only
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings.gather import indices_of
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import attributes
from qverify.ops.scatter_nd import REDUCTIONS

READ = only(*(name.encode() for name in REDUCTIONS))
ONNX_TYPES = {"ScatterND": {"reduction": READ}}


def lower_float(stream: FloatStream, node: Any) -> None:
    inputs, reduction, exact = operands(stream, node)
    stream.builder.node("scatter_nd", inputs, stream.declare(node, like=inputs[0] or ""), [reduction], (), exact)


def operands(stream: FloatStream, node: Any) -> tuple[list[str | None], int, bool]:
    """Returns the inputs of a scattering node, the number of its reduction, and whether its result does not depend on
    the order in which floats are rounded. Raises UnsupportedError for a type that the reduction does not have."""
    reduction = REDUCTIONS.index(attributes(node).get("reduction", b"none").decode())
    dtype = stream.view.dtype(node.input[0])
    if reduction and dtype not in ("float32", "int32", "int64"):
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): reduction={REDUCTIONS[reduction]} of {dtype}; wanted float32, int32 or int64"
        )
    indices = indices_of(stream.builder, stream.view, node, f"{node.output[0]}/indices")
    exact = dtype != "float32" or REDUCTIONS[reduction] not in ("add", "mul")
    return [stream.source(node.input[0]), indices, stream.source(node.input[2])], reduction, exact
