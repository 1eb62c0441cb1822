"""MatMul, Gemm and FusedMatMul on a float stream -> matmul_float. MatMulNBits is unpacked to a MatMul before
(unpack_weights.py)."""

from __future__ import annotations

from typing import Any

from qverify.compiler import unpack_weights
from qverify.compiler.attributes import ANY, only
from qverify.compiler.builder import float_word
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings import fully_connected, matmul
from qverify.compiler.supported_types import check_float32
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {
    **matmul.ONNX_TYPES,
    "Gemm": fully_connected.ONNX_TYPES["Gemm"],
    "FusedMatMul": {"alpha": ANY, "transA": ANY, "transB": ANY, "transBatchA": only(0), "transBatchB": only(0)},
    "MatMulNBits": dict.fromkeys(unpack_weights.KNOWN),
}


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError for another type than float32."""
    attrs, view = attributes(node), stream.view
    if node.op_type == "MatMulNBits":
        initializers = {i.name: i for i in view.model.graph.initializer}
        raise UnsupportedError(f"{node.name} (MatMulNBits): {unpack_weights.obstacle(node, initializers)}")
    check_float32(view, node, *node.input[:2], node.output[0])
    beta = float(attrs.get("beta", 1.0))
    read = list(node.input) if beta else node.input[:2]
    a, b, c = [*(stream.source(n) if n else None for n in read), None][:3]
    words = [
        int(bool(attrs.get("transA", 0))),
        int(bool(attrs.get("transB", 0))),
        float_word(float(attrs.get("alpha", 1.0))),
        float_word(beta),
    ]
    stream.builder.node("matmul_float", [a, b, c], stream.declare(node), words, (), False)
