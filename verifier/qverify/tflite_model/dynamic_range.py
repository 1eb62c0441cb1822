"""Quantizes the input of an operator on floats whose weights are integers, as LiteRT's kernels do when they run ("dynamic
range"): all in float32, with results that are whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qverify.tflite_model.writer import Writer

LEAST = 1e-30  # stands for a range of 0, all of whose elements are 0


class Steps:
    """Writes float nodes whose outputs are parts of the computation of one tensor, and are not compared."""

    def __init__(self, writer: Writer, name: str):
        self.writer, self._name, self._count = writer, name, 0

    def __call__(self, kind: str, *inputs: str, **attributes: object) -> str:
        self._count += 1
        return self.writer.node(kind, inputs, f"{self._name}@step{self._count}", **attributes)

    def constant(self, value: float) -> str:
        return self.writer.constant(f"@{value:.9g}", np.array(value, np.float32))

    def rounded(self, x: str) -> str:
        """Returns x rounded to the nearest integer, halves away from zero, exactly."""
        size = self("Abs", x)
        whole = self("Floor", size)
        rest = self("Sub", size, whole)
        up = self("Floor", self("Add", rest, rest))
        return self("Mul", self("Add", whole, up), self("Sign", x))


def quantized_symmetric(writer: Writer, x: str, name: str, axes: Sequence[int]) -> tuple[str, str]:
    """Returns the names of x in steps of its scale, -127 to 127, and of the scale.

    name: of the tensor that the operator makes. axes: those over which a scale is common."""
    step = Steps(writer, name)
    largest = step("ReduceMax", step("Abs", x), axes=list(axes), keepdims=1)
    largest = step("Max", largest, step.constant(LEAST))
    whole = step.rounded(step("Mul", x, step("Div", step.constant(127.0), largest)))
    whole = step("Clip", whole, step.constant(-127.0), step.constant(127.0))
    return whole, step("Div", largest, step.constant(127.0))


def quantized_asymmetric(writer: Writer, x: str, name: str, axes: Sequence[int]) -> tuple[str, str]:
    """Returns the names of x in steps of its scale, less the zero point of its range, and of the scale; otherwise as
    quantized_symmetric()."""
    step = Steps(writer, name)
    zero = step.constant(0.0)
    low = step("Min", step("ReduceMin", x, axes=list(axes), keepdims=1), zero)
    high = step("Max", step("ReduceMax", x, axes=list(axes), keepdims=1), zero)
    width = step("Max", step("Sub", high, low), step.constant(LEAST))
    scale = step("Div", width, step.constant(255.0))
    point = step.rounded(step("Sub", step.constant(-128.0), step("Div", low, scale)))
    point = step("Clip", point, step.constant(-128.0), step.constant(127.0))
    inverse = step("Div", step.constant(1.0), scale)
    whole = step.rounded(step("Add", step("Mul", x, inverse), point))
    whole = step("Clip", whole, step.constant(-128.0), step.constant(127.0))
    return step("Sub", whole, point), scale
