"""MatMulIntegerToFloat -> matmul_integer_scaled; onnxruntime's DynamicQuantizeMatMul is split into
DynamicQuantizeLinear and this when the file is loaded."""

from __future__ import annotations

from typing import Any

from qverify.compiler.builder import Builder
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings import matmul
from qverify.compiler.lowerings.matmul_integer import integer_operands
from qverify.compiler.unit import LoweredUnit
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView

OPERATORS: dict[str, Any] = {"MatMulIntegerToFloat": {}}


def from_operator(view: GraphView, node: Any) -> LoweredUnit:
    """Returns the unit of A B a_scale b_scale a_zero_point? b_zero_point? bias?. With constant parameters and no bias
    it is a matmul, whose result is rounded once. Raises UnsupportedError."""
    parameters = [n for n in node.input[2:6] if n]
    if all(n in view.constants for n in parameters) and not (len(node.input) > 6 and node.input[6]):
        return matmul.to_float(view, node)
    if min(len(view.shape(n)) for n in node.input[:2]) < 2:
        raise UnsupportedError(f"{node.name} ({node.op_type}): an operand of rank 1; wanted rank 2 or more, reshape it")
    return LoweredUnit(node.output[0], lambda builder: _lower(builder, view, node), [node])


def _lower(builder: Builder, view: GraphView, node: Any) -> None:
    stream = FloatStream(builder, view, set())
    a, b, scale_a, scale_b, zero_a, zero_b, bias = [*node.input, "", "", ""][:7]
    columns = view.shape(b)[-1]
    for name, counts in ((scale_a, {1}), (scale_b, {1, columns})):
        shape = view.shape(name)
        if len(shape) > 1 or (shape[0] if shape else 1) not in counts:
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): scales {name!r} of shape {list(shape)}; wanted {' or '.join(map(str, sorted(counts)))} of rank 1"
            )
    operands = integer_operands(stream, node, columns, (a, b, zero_a, zero_b))
    floats = [stream.source(n) if n else None for n in (scale_a, scale_b, bias)]
    builder.node("matmul_integer_scaled", [*operands, *floats], stream.declare(node), (), (), False)
