"""MaxPool -> max_pool: it selects elements, so x and y have equal quantization."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY, WINDOW, only
from qverify.compiler.builder import Builder
from qverify.compiler.pool_windows import flat, window_pads
from qverify.errors import UnsupportedError
from qverify.onnx_model.view import View, attributes

ONNX_TYPES = {"MaxPool": {**WINDOW, "ceil_mode": ANY, "storage_order": only(0)}}
EIGHT_BIT_KERNELS = ("MaxPool",)


def move(builder: Builder, view: View, node: Any, source: str, outputs: list[str]) -> None:
    attrs, shape, out = attributes(node), view.shape(node.input[0]), view.shape(node.output[0])
    window, spatial = attrs["kernel_shape"], len(attrs["kernel_shape"])
    if spatial > 2:
        raise UnsupportedError(f"{node.name} (MaxPool): {spatial}-D windows are not supported; 1-D and 2-D are")
    words = [
        *flat(window, spatial),
        *flat(attrs.get("strides", [1] * spatial), spatial),
        *window_pads(node, attrs, shape[2:], out[2:], tuple(window)),
        *flat(attrs.get("dilations", [1] * spatial), spatial),
    ]
    builder.node("max_pool", [source], outputs, words)
