"""BatchNormalization -> batch_norm, on a float stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.attributes import ANY, only
from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError
from qverify.model_bin.folded_norm import FoldedNorm
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {
    "BatchNormalization": {"epsilon": ANY, "momentum": ANY, "training_mode": only(0), "spatial": only(1)},
}


def lower_float(stream: FloatStream, node: Any) -> None:
    scale, beta, mean, variance = (stream.view.float_constant(n) for n in node.input[1:5])
    if scale is None or beta is None or mean is None or variance is None:
        raise UnsupportedError(f"{node.name} (BatchNormalization): a parameter is not a constant")
    epsilon = np.float32(attributes(node).get("epsilon", 1e-5))
    k = (scale * (np.float32(1) / np.sqrt((variance + epsilon).astype(np.float32)))).astype(np.float32)
    b = (beta - (mean * k).astype(np.float32)).astype(np.float32)
    name = node.output[0]
    constants = [stream.builder.new_constant(f"{name}/k", k), stream.builder.new_constant(f"{name}/b", b)]
    outputs = stream.declare(node)
    stream.builder.node("batch_norm", [stream.source(node.input[0]), *constants], outputs, (), (), False)
    stream.builder.folded_norms[outputs[0]] = FoldedNorm(scale, beta, mean, variance, float(epsilon))
