"""Reads strides, dilations and padding of windows."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.errors import UnsupportedError
from qverify.tflite_model.checks import require
from qverify.tflite_model.read_tflite import TfliteOperator

MAX_STEP = 1 << 16  # of strides and dilations


def strides_of(operator: TfliteOperator) -> list[int]:
    """Returns the strides of height and width."""
    return _positive(operator, "StrideH", "StrideW")


def dilations_of(operator: TfliteOperator) -> list[int]:
    """Returns the dilations of height and width."""
    if "DilationHFactor" not in operator.options:
        return [1, 1]
    return _positive(operator, "DilationHFactor", "DilationWFactor")


def _positive(operator: TfliteOperator, *fields: str) -> list[int]:
    """Returns these options. Raises UnsupportedError unless they are from 1 to MAX_STEP."""
    values = [int(operator.options[f]) for f in fields]
    require(all(1 <= v <= MAX_STEP for v in values), f"{fields[0]} and {fields[1]} of {values}")
    return values


def pads_of(operator: TfliteOperator, before: Sequence[int], after: Sequence[int], kernel: Sequence[int]) -> list[int]:
    """Returns ONNX's pads: top, left, bottom, right.

    before, after: height and width of input and output. Raises UnsupportedError if they contradict the window."""
    begins, ends = [], []
    for size, out, taps, stride, step in zip(
        before, after, kernel, strides_of(operator), dilations_of(operator), strict=True
    ):
        extent = (taps - 1) * step + 1
        if operator.options["Padding"] == 0:  # SAME
            computed = -(-size // stride)
            needed = max((computed - 1) * stride + extent - size, 0)
        elif operator.options["Padding"] == 1:  # VALID
            computed, needed = (size - extent) // stride + 1, 0
        else:
            raise UnsupportedError(f"padding {operator.options['Padding']}")
        require(computed == out and 1 <= extent <= size + needed, f"a window of {extent} on {size} that makes {out}")
        begins.append(needed // 2)
        ends.append(needed - needed // 2)
    return [*begins, *ends]
