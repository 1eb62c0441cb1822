"""Writes the inner steps of an operator as integer nodes of the ONNX: parts of its output, which no comparison expects."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from qverify.arithmetic.forms import NAMES, multiplier_of
from qverify.tflite_model.checks import require
from qverify.tflite_model.writer import INT8, INT64, Array, Writer

HALF, WHOLE = 1 << 30, 1 << 31
PLACES = 1 << 16
INNER = "part"  # as of model_bin.units


class IntegerParts:
    """The inner steps of one operator, all of int64 unless something else is said. name: of its output."""

    def __init__(self, writer: Writer, name: str):
        self._writer, self._name, self._count = writer, name, 0

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Adds a node and returns the name of its output."""
        self._count += 1
        return self._writer.node(kind, inputs, f"{self._name}@{INNER}{self._count}", **attributes)

    def numbers(self, value: ArrayLike, dtype: str = "int64") -> str:
        """Returns the name of a constant."""
        array = np.asarray(value, dtype)
        if array.ndim == 0:
            return self._writer.constant(f"@{dtype}={array}", array)
        self._count += 1
        return self._writer.constant(f"{self._name}@numbers{self._count}", array)

    def wide(self, source: str) -> str:
        """Returns a tensor as int64."""
        return self.node("Cast", source, to=INT64)

    def bytes_of(self, source: str) -> str:
        """Returns a tensor as int8."""
        return self.node("Cast", source, to=INT8)

    def products(self, source: str, zero: int, weights: Array) -> str:
        """Returns the sums of (source - zero) * weights. source: int8, its last axis is summed. weights: int8, [inputs, outputs]."""
        zero_point = self.numbers(zero, "int8")
        return self.wide(self.node("MatMulInteger", source, self.numbers(weights, "int8"), zero_point))

    def sum(self, a: str, b: str) -> str:
        """Returns a + b."""
        return self.node("Add", a, b)

    def product(self, a: str, b: str) -> str:
        """Returns a * b."""
        return self.node("Mul", a, b)

    def clip(self, source: str, low: int, high: int) -> str:
        """Returns a tensor within limits."""
        return self.node("Clip", source, self.numbers(low), self.numbers(high))

    def divided(self, source: str, bits: ArrayLike) -> str:
        """Returns source / 2^bits, to the nearest integer, halves away from zero. bits: of all elements, or for each of the last
        axis."""
        steps = np.left_shift(1, np.asarray(bits, np.int64))
        if (steps == 1).all():
            return source
        half = self.product(self.node("Sign", source), self.numbers(steps // 2))
        return self.node("Div", self.sum(source, half), self.numbers(steps))

    def scaled(self, source: str, scale: ArrayLike, most: int) -> str:
        """Returns source * scale as gemmlowp rounds it: with a multiplier of 31 bits, rounded twice. scale: of all elements, or for
        each of the last axis. most: the largest absolute value of the source. Raises UnsupportedError for products beyond 64
        bits."""
        multiplier, shift = multiplier_of(NAMES["gemmlowp"], np.asarray(scale, np.float64))
        left, right = np.maximum(31 - shift, 0), np.maximum(shift - 31, 0)
        require(
            bool((np.left_shift(1, left) * most < WHOLE).all()) and right.max() < 31, "sums that may exceed 32 bits"
        )
        factor = np.left_shift(multiplier, left)
        single = factor.size == 1
        high = self.product(source, self.numbers(factor[0] if single else factor))
        offset = self.sum(high, self.numbers(HALF + (WHOLE << 31)))  # so that the division rounds down
        rounded = self.node("Sub", self.node("Div", offset, self.numbers(WHOLE)), self.numbers(WHOLE))
        return self.divided(rounded, right[0] if single else right)

    def looked_up(self, source: str, key: str, table: Array) -> str:
        """Returns the elements of a table of every int16, from the lowest, at these places. key: a name for the table."""
        stored = self._writer.constant(f"@{key}", table.astype(np.int32))
        return self.wide(self.node("Gather", stored, self.sum(source, self.numbers(PLACES // 2))))

    def reshaped(self, source: str, dims: list[int]) -> str:
        """Returns a tensor with other dims."""
        return self.node("Reshape", source, self.numbers(dims))

    def columns(self, source: str, start: int, stop: int) -> str:
        """Returns these places of the last of two axes."""
        return self.node("Slice", source, *(self.numbers([n]) for n in (start, stop, 1)))
