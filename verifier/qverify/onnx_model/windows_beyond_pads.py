"""Tells by what number onnxruntime's AveragePool with count_include_pad divides a window that ends beyond the padded input."""

from __future__ import annotations

PART_INSIDE_FROM = 19  # opset that brought dilations, and onnxruntime's kernel for them


def divides_by_part_inside(opset: int, ceil_mode: int) -> bool:
    """Returns whether the elements of the window inside the padded input are counted, not those of the whole kernel.

    Windows end beyond it with ceil_mode, and where the kernel is larger than the padded input: onnxruntime rounds the
    negative quotient toward 0, so that one window remains, where ONNX has none."""
    return bool(ceil_mode) or opset >= PART_INSIDE_FROM
