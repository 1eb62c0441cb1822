"""y = clip(RNE(fl32(x/s)) + z), per tensor or per channel. NaN becomes the minimum of the type."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import float32
from qverify.arithmetic.linear import along_axis
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def parameters(spec: TensorSpec) -> tuple[Array, Array]:
    """Returns scale (float32) and zero point of a tensor, shaped to broadcast against it."""
    axis = max(spec.channel_axis, 0)
    return along_axis(spec.scale, len(spec.shape), axis).astype(np.float32), along_axis(
        spec.zero_point, len(spec.shape), axis
    )


def as_quantized(x: Array, spec: TensorSpec, y: TensorSpec) -> Array:
    """Returns x with the quantization of y: unchanged if scale and zero point are equal, else dequantized and quantized
    again."""
    if not y.scale or (spec.scale, spec.zero_point, spec.dtype) == (y.scale, y.zero_point, y.dtype):
        return x
    return float32.quantize(float32.dequantize(x, *parameters(spec)), *parameters(y), y.dtype)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    assert inputs[0] is not None
    y = graph.spec(node.outputs[0])
    return (float32.quantize(inputs[0], *parameters(y), y.dtype),)
