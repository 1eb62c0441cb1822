"""MatMulInteger -> matmul_integer."""

from __future__ import annotations

from typing import Any

from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError

ONNX_TYPES: dict[str, Any] = {"MatMulInteger": {}}


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError for a vector, or zero points along the rows of the first operand."""
    view = stream.view
    if min(len(view.shape(n)) for n in node.input[:2]) < 2:
        raise UnsupportedError(f"{node.name} ({node.op_type}): an operand of rank 1; wanted rank 2 or more, reshape it")
    operands = integer_operands(stream, node, view.shape(node.input[1])[-1])
    stream.builder.node("matmul_integer", operands, stream.declare(node))


def integer_operands(
    stream: FloatStream, node: Any, channels: int, input_names: tuple[str, ...] = ()
) -> list[str | None]:
    """Returns the names of both operands and of their zero points, None for omitted ones.

    channels: the number of zero points that the second operand may have. input_names: these four names, if the node's
    inputs have another order. Raises UnsupportedError for any other number of zero points."""
    names = list(input_names) or [*node.input, "", ""][:4]
    for name, counts in zip(names[2:], ({1}, {1, channels}), strict=True):
        shape = stream.view.shape(name) if name else ()
        if len(shape) > 1 or (shape[0] if shape else 1) not in counts:
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): zero points {name!r} of shape {list(shape)}; wanted {' or '.join(map(str, sorted(counts)))} of rank 1"
            )
    return [stream.source(n) if n else None for n in names]
