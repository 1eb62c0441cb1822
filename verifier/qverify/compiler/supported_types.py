"""Refuses tensors of unsupported types, naming the types that the operator supports."""

from __future__ import annotations

from typing import Any

from qverify.compiler.lowerings import lowerings
from qverify.errors import UnsupportedError

QUANTIZED = "tensors quantized to 8 or 16 bits between DequantizeLinear and QuantizeLinear"
OF_8_BITS = {  # float operators to the corresponding operator on integers
    "Conv": "ConvInteger on integers of 8 bits",
    "LSTM": "DynamicQuantizeLSTM with weights of 8 bits",
    "MatMul": "MatMulInteger on integers of 8 bits",
}


def supported_types(kind: str) -> str:
    """Returns the types that a float ONNX operator may have, as text for messages."""
    page = lowerings().lower_float.get(kind)
    integers = getattr(page, "INTEGERS_TOO", {}).get(kind, ())
    ways = ["float32 (float16 is computed in it)", *integers]
    ways += [QUANTIZED, *([OF_8_BITS[kind]] if kind in OF_8_BITS else [])]
    return f"{', '.join(ways[:-1])}, or {ways[-1]}"


def check_float32(view: Any, node: Any, *names: str) -> None:
    """Raises UnsupportedError for the first of these tensors of the node that is not float32."""
    for name in names:
        if view.dtype(name) != "float32":
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): {name!r} is {view.dtype(name)}; wanted {supported_types(node.op_type)}. "
                "Cast it to float32 before, or cut the model before it"
            )
