"""The biases of the nodes that read dequantized weights, in steps of the node's sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.onnx_model.graph_view import GraphView

Array = npt.NDArray[Any]
WITH_BIAS = ("Conv", "ConvTranspose", "Gemm")


def find_stored_biases(view: GraphView, dequantizer: Any) -> list[Array]:
    """Returns the constant biases of the nodes that read the weights of a DequantizeLinear: the stored integers, or those that
    a float bias would need. A node without a bias, or whose scales are not constants, has none."""
    readers = view.consumers.get(str(dequantizer.output[0]), [])
    weights = view.constants.get(dequantizer.input[1])
    found = []
    for node in readers:
        if (
            node.op_type in WITH_BIAS
            and len(node.input) > 2
            and node.input[1] == dequantizer.output[0]
            and node.input[2]
        ):
            stored = _read(view, str(node.input[0]), str(node.input[2]), weights)
            found += [stored] if stored is not None else []
    return found


def _read(view: GraphView, data: str, bias: str, weights: Array | None) -> Array | None:
    maker = view.producer.get(bias)
    if maker is not None and maker.op_type == "DequantizeLinear":
        value = view.constants.get(maker.input[0])
        return None if value is None else value.astype(np.float64).reshape(-1)
    value, source = view.constants.get(bias), view.producer.get(data)
    if value is None or weights is None or source is None or source.op_type != "DequantizeLinear":
        return None
    scale = view.constants.get(source.input[1])
    if scale is None or scale.size != 1:
        return None
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        steps = float(scale.reshape(-1)[0]) * weights.astype(np.float64).reshape(-1)
        return np.asarray(value.astype(np.float64).reshape(-1) / steps) if steps.size in (1, value.size) else None
