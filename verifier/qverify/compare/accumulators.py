"""The accumulator of a node that scales one integer sum, before it is requantized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qverify.arithmetic.linear import along_axis
from qverify.compare.error_bounds.bounded_values import Array
from qverify.model_bin.graph import Graph, Node
from qverify.ops import simulate_node
from qverify.tensors.spec import TensorSpec

# The axis of the channels to which the scales belong, by op.
CHANNEL_AXIS = {
    "conv": 1,
    "conv_transpose": 1,
    "fully_connected": 1,
    "matmul": -1,
    "global_average_pool": 1,
    "reduce_mean": 1,
}
WIDE_LIMITS = (int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max))
IDENTITY = np.array([[1], [0]], np.int32)  # multiplier 1, shift 0


def accumulate(node: Node, graph: Graph, given: Mapping[str, Array]) -> Array | None:
    """Returns the int64 accumulator of a node, in the shape of its output, or None if the op has none or its output is
    float. It is computed by the op's own page with multiplier 1, shift 0, no zero point and no limits."""
    name, rq = node.outputs[0], node.inputs[-1] or ""
    spec = graph.spec(name)
    if node.op not in CHANNEL_AXIS or spec.numpy_dtype.kind == "f" or rq not in graph.constants:
        return None
    wide = replace(spec, dtype="int64", zero_point=(0,))
    changed = replace(
        graph,
        tensors={**graph.tensors, name: wide},
        constants={**graph.constants, rq: IDENTITY},
        rounding="pow2-floor",
    )
    return simulate_node(changed, replace(node, words=(*node.words[:-2], *WIDE_LIMITS)), given)[name]


def accumulate_taps(node: Node, graph: Graph, given: Mapping[str, Array]) -> Array:
    """Returns the int64 sums of an average pool, [N, C, ...], which are not divided yet."""
    name = node.outputs[0]
    changed = replace(
        graph,
        tensors={**graph.tensors, name: replace(graph.spec(name), dtype="int64", zero_point=(0,))},
        constants={**graph.constants, node.inputs[1] or "": np.repeat(IDENTITY, node.words[0] * node.words[1], 1)},
        rounding="pow2-floor",
    )
    return simulate_node(changed, replace(node, words=(*node.words[:-2], *WIDE_LIMITS)), given)[name]


def accumulate_sizes(node: Node, graph: Graph, given: Mapping[str, Array]) -> Array | None:
    """Returns the int64 sums of the magnitudes of the products that accumulate() adds, without the bias; None as there,
    and for operands of more than 8 bits."""
    operands = [n or "" for n in node.inputs[:2]]
    if any(graph.spec(n).numpy_dtype.itemsize > 1 for n in operands):
        return None
    magnitudes = {n: _take_magnitudes(graph.constants.get(n, given.get(n)), graph.spec(n)) for n in operands}
    biases = [n for n in node.inputs[2:-1] if n is not None]
    constants = {**magnitudes, **{n: np.zeros_like(graph.constants[n]) for n in biases}}
    changed = replace(
        graph,
        tensors=graph.tensors | {n: replace(graph.spec(n), dtype="uint8", zero_point=(0,)) for n in operands},
        constants=graph.constants | {n: v for n, v in constants.items() if n in graph.constants},
    )
    return accumulate(node, changed, {**given, **{n: v for n, v in magnitudes.items() if n not in graph.constants}})


def _take_magnitudes(stored: Array | None, spec: TensorSpec) -> Array:
    """Returns the distances of stored integers of 8 bits from their zero point, as uint8."""
    assert stored is not None
    zero = along_axis(spec.zero_point, len(spec.shape), max(spec.channel_axis, 0))
    return np.abs(stored.astype(np.int16) - np.asarray(zero, np.int16)).astype(np.uint8)
