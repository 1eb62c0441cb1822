"""Finds the nodes that change the quantization of a tensor and compute no function."""

from __future__ import annotations

import numpy as np

from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec


def is_change_of_quantization(node: Node, graph: Graph) -> bool:
    """Returns whether a lookup changes the quantization of its input, and is not the table of a function."""
    x, y, table = (graph.spec(n or "") for n in (node.inputs[0], node.outputs[0], node.inputs[1]))
    if len(x.scale) != 1 or len(y.scale) != 1:
        return False
    limits, low = np.iinfo(y.dtype), int(np.iinfo(x.dtype).min)
    stored = graph.constants[table.name].astype(np.float64)
    every = (np.arange(low, low + len(stored)) - x.zero_point[0]) * (x.scale[0] / y.scale[0]) + y.zero_point[0]
    return bool((np.abs(np.clip(every, int(limits.min), int(limits.max)) - stored) <= 1).all())


def has_other_quantization(x: TensorSpec, y: TensorSpec) -> bool:
    """Returns whether an operand of concat is quantized otherwise than the output, which has one scale."""
    same = (x.dtype, x.scale, x.zero_point) == (y.dtype, y.scale, y.zero_point)
    return x.quantized and len(y.scale) == 1 and not same
