"""The sums of oneDNN's kernels on x86-64 without VNNI, which OpenVINO uses: products of bytes are added in pairs of 16 bits
(verifier/ARITHMETICS.md, methods)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np

from qverify.compare.accumulators import CHANNEL_AXIS, WholeOperands
from qverify.compare.catalogue import BYTE_PAIRS
from qverify.compare.error_bounds import integer_sums
from qverify.compare.error_bounds.bounded_values import Array, Reals
from qverify.compare.scaled_sums import At, Pair, Sums
from qverify.model_bin.graph import Graph, Node

OPS = ("conv", "fully_connected", "matmul")
TERMS_AT_ONCE = 1 << 22
LIMITS = -(2**15), 2**15 - 1


def list_byte_pairs(node: Node, graph: Graph, given: Mapping[str, Array], scales: Reals) -> dict[str, _BytePairs]:
    """Returns the arithmetic of a convolution or product of bytes with constant int8 weights without zero points, by name;
    empty for any other node. scales: in LSB of the output."""
    x, w = (graph.spec(n or "") for n in node.inputs[:2])
    whole = len(x.zero_point) == 1 and not any(w.zero_point) and x.numpy_dtype.itemsize == 1
    if node.op not in OPS or not whole or w.dtype != "int8" or (node.inputs[1] or "") not in graph.constants:
        return {}
    return {BYTE_PAIRS: _BytePairs(node, graph, given, scales)}


class _BytePairs:
    """The output at flat positions."""

    def __init__(self, node: Node, graph: Graph, given: Mapping[str, Array], scales: Reals):
        self._node, self._graph, self._given, self._scales = node, graph, given, scales
        self._y = graph.spec(node.outputs[0])

    def __call__(self, at: At) -> Array:
        assert not isinstance(at, Sums | Pair)
        terms = max(1, self._graph.spec(self._node.inputs[1] or "").elements // len(self._scales))
        each = max(1, TERMS_AT_ONCE // terms)
        sums = [self._sum(at[start : start + each]) for start in range(0, len(at), each)]
        axis = CHANNEL_AXIS[self._node.op]
        inner = prod(self._y.shape[axis:][1:])
        number = at // inner % len(self._scales) if len(self._scales) > 1 else np.zeros_like(at)
        value = np.concatenate(sums) * self._scales[number] if sums else np.zeros(0)
        rounded = np.rint(value + self._y.zero_point[0])
        low, high = self._node.words[-2:]
        return np.clip(rounded, low, high).astype(self._y.dtype)

    def _sum(self, at: Array) -> Reals:
        return np.asarray(integer_sums.SUMS[self._node.op](self._operands, at).value)

    @cached_property
    def _operands(self) -> WholeOperands:
        x, w = (self._graph.spec(n or "") for n in self._node.inputs[:2])
        conv = self._node.op == "conv"
        each = w.shape[1] if conv else w.shape[-1 if self._node.op == "fully_connected" else -2]
        plain = conv and (w.shape[1] == 1 or (x.dtype == "int8" and (prod(w.shape[2:]) > 1 or x.zero_point[0] != 0)))
        if not plain:
            lowest = int(np.iinfo(x.dtype).min)
            return _Pairs(self._node, self._graph, dict(self._given), each, x.zero_point[0] - lowest)
        if x.dtype == "uint8" or x.zero_point[0]:  # one product in each pair, or products in float32
            return WholeOperands(self._node, self._graph, dict(self._given))
        halved = 2 * np.rint(self._graph.constants[w.name].astype(np.float64) / 2).astype(np.int16)
        changed = replace(self._graph, constants={**self._graph.constants, w.name: halved})
        return _Halved(self._node, changed, dict(self._given))


class _Halved(WholeOperands):
    """Operands of which the weights were halved, rounded half to even, and doubled again: they may be 128."""

    def centred(self, at: int) -> Array:
        return self.stored(at).astype(np.float64) if at else super().centred(at)


class _Pairs(WholeOperands):
    """Operands of which every two neighbouring products saturate to 16 bits.

    Args:
        each: number of channels, or of elements, that follow each other in pairs.
        zero: the zero point of x, counted from the lowest code.
    """

    __slots__ = ("each", "zero")

    def __init__(self, node: Node, graph: Graph, given: dict[str, Array], each: int, zero: int):
        super().__init__(node, graph, given)
        object.__setattr__(self, "each", each)
        object.__setattr__(self, "zero", zero)

    each: int
    zero: int

    def dot(self, x: Reals, w: Reals, channel: Array, bias: Reals | None) -> integer_sums.IntegerSums:
        products = ((x.astype(np.float64) + self.zero) * w).reshape(len(x), self.each, -1)
        if self.each % 2:
            products = np.pad(products, ((0, 0), (0, 1), (0, 0)))
        pairs = np.clip(products[:, 0::2] + products[:, 1::2], *LIMITS)
        value = pairs.sum((1, 2)) - self.zero * w.astype(np.float64).sum(-1)
        value = value + (0.0 if bias is None else bias)
        return integer_sums.IntegerSums(value, np.abs(value), x.shape[-1])
