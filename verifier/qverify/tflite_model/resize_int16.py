"""Converts RESIZE_BILINEAR of int16: weights in 1024ths, rounded once, as LiteRT's reference kernels (LITERT.md)."""

from __future__ import annotations

import numpy as np

from qverify.tflite_model.integer_parts import IntegerParts
from qverify.tflite_model.read_tflite import TfliteTensor
from qverify.tflite_model.writer import INT16, Array, Writer

ONE, BITS = 1024, 20  # of a weight; fraction bits of a product of two


def resize_int16(writer: Writer, x: TfliteTensor, y: TfliteTensor, align: bool, half: bool) -> None:
    """Writes the operator. align, half: its align_corners and half_pixel_centers."""
    parts = IntegerParts(writer, writer.name(y.index))
    made = parts.wide(writer.in_file_order(x.index))
    for axis, dims in ((1, [-1, 1, 1]), (2, [-1, 1])):
        low, high, weight = _places(x.shape[axis], y.shape[axis], align, half)
        near, far = (parts.node("Gather", made, parts.numbers(at), axis=axis) for at in (low, high))
        made = parts.sum(
            parts.product(near, parts.numbers((ONE - weight).reshape(dims))),
            parts.product(far, parts.numbers(weight.reshape(dims))),
        )
    writer.from_file_order(y.index, "Cast", [parts.divided(made, BITS)], to=INT16)


def _places(size: int, wanted: int, align: bool, half: bool) -> tuple[Array, Array, Array]:
    """Returns the two places that each output place lies between, and the weight of the second, in 1024ths."""
    ends = int(align and wanted > 1)
    step = (ONE * (size - ends) + (wanted - ends) // 2) // (wanted - ends)
    at = np.arange(wanted, dtype=np.int64) * step + (step // 2 - ONE // 2 if half else 0)
    low = np.maximum(at // ONE, 0)
    high = np.clip((at + ONE - 1) // ONE, 0, size - 1)
    return np.minimum(low, size - 1), high, at - ONE * low
