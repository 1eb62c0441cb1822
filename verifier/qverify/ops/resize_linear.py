"""y = ((dx2*dy2*X11 + dx1*dy2*X21) + dx2*dy1*X12) + dx1*dy1*X22, every step in float32, weights multiplied first."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import float32
from qverify.model_bin.graph import Graph, Node
from qverify.ops.quantize import parameters

Array = npt.NDArray[Any]
WORDS = ("truncate",)


def prepare(node: Node, graph: Graph) -> None:
    return None


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, index, weight = inputs
    spec, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    assert x is not None and index is not None and weight is not None
    rows, columns = y.shape[-2:]
    cuts = [rows, 2 * rows, 2 * rows + columns]
    row1, row2, column1, column2 = np.split(index, cuts)
    dy2, dy1, dx2, dx1 = np.split(weight, cuts)
    if spec.dtype == "float32" or node.words[0]:
        real = x.astype(np.float32)
    else:
        real = float32.dequantize(x, *parameters(spec))
    top, bottom = real[..., row1, :], real[..., row2, :]
    value = (dx2 * dy2[:, None]) * top[..., column1]
    value += (dx1 * dy2[:, None]) * top[..., column2]
    value += (dx2 * dy1[:, None]) * bottom[..., column1]
    value += (dx1 * dy1[:, None]) * bottom[..., column2]
    if y.dtype == "float32":
        return (value,)
    if node.words[0]:
        return (np.trunc(value).astype(y.dtype),)
    return (float32.quantize(value, *parameters(y), y.dtype),)
