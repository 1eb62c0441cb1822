"""GroupNormalization and InstanceNormalization (groups of one channel), on a float stream -> group_norm.

Before opset 21 GroupNormalization had one scale per group; ONNX's checker refuses that form as deprecated."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY, only
from qverify.compiler.builder import float_word
from qverify.compiler.float_stream import FloatStream
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES: dict[str, dict[str, frozenset[Any] | None]] = {
    "GroupNormalization": {"epsilon": ANY, "num_groups": ANY, "stash_type": only(1)},
    "InstanceNormalization": {"epsilon": ANY},
}


def lower_float(stream: FloatStream, node: Any) -> None:
    stream.check_float32(node)
    attrs, channels = attributes(node), stream.view.shape(node.input[0])[1]
    groups = channels if node.op_type == "InstanceNormalization" else attrs["num_groups"]
    inputs: list[str | None] = [stream.source(name) for name in node.input]
    words = [groups, float_word(attrs.get("epsilon", 1e-5))]
    stream.builder.node("group_norm", inputs, stream.declare(node), words, (), False)
