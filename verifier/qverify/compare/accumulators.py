"""The accumulator of a node that scales one integer sum, before it is requantized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from qverify.arithmetic import exact_matmul
from qverify.arithmetic.linear import SUMS_ALONE, along_axis, as_integers, is_wide
from qverify.compare.error_bounds import integer_sums
from qverify.compare.error_bounds.bounded_values import Array, Reals
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
FEW = 64  # sums that are computed one by one faster than all
WIDE_LIMITS = (int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max))
IDENTITY = np.array([[1], [0]], np.int32)  # multiplier 1, shift 0


def has_sums(node: Node, graph: Graph) -> bool:
    """Returns whether the node scales one integer sum, and its output is no float."""
    float_output = graph.spec(node.outputs[0]).numpy_dtype.kind == "f"
    return node.op in CHANNEL_AXIS and not float_output and (node.inputs[-1] or "") in graph.constants


def accumulate(node: Node, graph: Graph, given: Mapping[str, Array]) -> Array | None:
    """Returns the accumulator of a node, in the shape of its output, or None if the op has none or its output is float:
    int64 where the node accumulates in int64, else int32. It is computed by the op's own page, which does not requantize
    it."""
    if not has_sums(node, graph):
        return None
    name, rq = node.outputs[0], node.inputs[-1] or ""
    changed = replace(
        graph,
        tensors={**graph.tensors, name: replace(graph.spec(name), dtype=_type_of_sums(node, graph), zero_point=(0,))},
        constants={**graph.constants, rq: IDENTITY},
        rounding=SUMS_ALONE,
    )
    return simulate_node(changed, node, given)[name]


def _type_of_sums(node: Node, graph: Graph) -> str:
    names = [n for n in (*node.inputs[:2], node.outputs[0]) if n is not None and n in graph.tensors]
    return "int64" if is_wide(*(graph.spec(n).dtype for n in names)) else "int32"


class NodeSums:
    """The accumulator of a node, flat, of which nothing is computed before it is asked for."""

    def __init__(self, node: Node, graph: Graph, given: Mapping[str, Array]):
        self._node, self._graph, self._given = node, graph, given

    @cached_property
    def whole(self) -> Array | None:
        """The accumulator as accumulate() returns it; None if the node has none."""
        return accumulate(self._node, self._graph, self._given)

    @property
    def is_computed(self) -> bool:
        """Whether the whole accumulator has been computed."""
        return "whole" in self.__dict__

    def flat(self) -> Array:
        """Returns the whole accumulator, flat. The node must have one."""
        assert self.whole is not None
        return self.whole.reshape(-1)

    def take(self, at: Array) -> Array:
        """Returns the sums at these flat positions, int64. Of a few, only these are computed."""
        if self.is_computed or len(at) > FEW:
            return self.flat()[at].astype(np.int64, copy=False)
        sums = integer_sums.SUMS[self._node.op](WholeOperands(self._node, self._graph, dict(self._given)), at)
        return as_integers(sums.value, _type_of_sums(self._node, self._graph)).astype(np.int64, copy=False)


class WholeOperands(integer_sums.SumOperands):
    """Operands whose sums are not scaled, and are exact in float64."""

    def centred(self, at: int) -> Array:
        spec = self.graph.spec(self.node.inputs[at] or "")
        zero = along_axis(spec.zero_point, len(spec.shape), max(spec.channel_axis, 0))
        return exact_matmul.centred(self.stored(at), zero, exact_matmul.narrow_type(spec.dtype))

    @property
    def rq(self) -> Reals:
        return np.ones(1)

    def dot(self, x: Reals, w: Reals, channel: Array, bias: Reals | None) -> integer_sums.IntegerSums:
        value = (x.astype(np.float64) * w).sum(-1) + (0.0 if bias is None else bias)
        return integer_sums.IntegerSums(value, np.abs(value), x.shape[-1])


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
    """Returns the sums of the magnitudes of the products that accumulate() adds, without the bias; None as there,
    and for operands of more than 8 bits."""
    operands = [n or "" for n in node.inputs[:2]]
    if any(graph.spec(n).numpy_dtype.itemsize > 1 for n in operands):
        return None
    magnitudes = {n: _take_magnitudes(graph.constants.get(n, given.get(n)), graph.spec(n)) for n in operands}
    biases = [n for n in node.inputs[2:-1] if n is not None]
    changed = replace(
        graph,
        tensors=graph.tensors | {n: replace(graph.spec(n), dtype="uint8", zero_point=(0,)) for n in operands},
        constants=graph.constants | magnitudes | {n: np.zeros_like(graph.constants[n]) for n in biases},
    )
    return accumulate(node, changed, {})


def _take_magnitudes(stored: Array | None, spec: TensorSpec) -> Array:
    """Returns the distances of stored integers of 8 bits from their zero point, as uint8."""
    assert stored is not None
    zero = along_axis(spec.zero_point, len(spec.shape), max(spec.channel_axis, 0))
    return np.abs(stored.astype(np.int16) - np.asarray(zero, np.int16)).astype(np.uint8)
