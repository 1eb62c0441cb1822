"""Source indices and weights of Resize with more than two taps along an axis, computed in float32 in the same order as
onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.resize_positions import Array, positions
from qverify.onnx_model.graph_view import GraphView, attributes

ONE = np.float32(1)
Table = tuple[Array, Array]  # source indices (int32) and weights (float32), both [output, tap]


def cubic_weights(view: GraphView, node: Any, size: int, out: int, scale: np.float32) -> Table:
    """Returns the four taps of each output along an axis. Taps outside the input repeat its border, or are ignored with
    exclude_outside."""
    if scale == 1 and size == out:
        return _copies(out, 4)
    p = positions(view, node, size, out, scale)
    first = np.floor(p)
    index = first.astype(np.int64)[:, None] + np.arange(-1, 3)
    weight = np.stack(_cubic((p - first).astype(np.float32), _coefficient(node)), 1)
    if attributes(node).get("exclude_outside", 0):
        weight = np.where((index < 0) | (index >= size), np.float32(0), weight)
        total = np.zeros(out, np.float32)
        for tap in weight.T:
            total = total + tap
        weight = weight / total[:, None]
    return np.clip(index, 0, size - 1).astype(np.int32), weight.astype(np.float32)


def _coefficient(node: Any) -> np.float32:
    return np.float32(attributes(node).get("cubic_coeff_a", -0.75))


def _cubic(s: Array, a: np.float32) -> list[Array]:
    """Returns the weights of the taps at -1, 0, 1, 2 for a position at distance s after tap 0."""
    two, three, four, five, eight = (np.float32(v) for v in (2, 3, 4, 5, 8))
    far, back, behind = s + ONE, ONE - s, two - s
    return [
        ((a * far - five * a) * far + eight * a) * far - four * a,
        ((a + two) * s - (a + three)) * s * s + ONE,
        ((a + two) * back - (a + three)) * back * back + ONE,
        ((a * behind - five * a) * behind + eight * a) * behind - four * a,
    ]


def antialias_weights(view: GraphView, node: Any, size: int, out: int, scale: np.float32) -> Table:
    """Returns the taps of each output along an axis. The filter is widened by the factor by which the axis shrinks."""
    if scale == 1 and size == out:
        return _copies(out, 1)
    cubic, inverse = attributes(node)["mode"] == b"cubic", ONE / scale
    support = np.float32(2 if cubic else 1) * max(inverse, ONE)
    by = ONE / max(inverse, ONE)
    centre = np.float32(0.5) + positions(view, node, size, out, scale)
    first = np.floor(centre - support + np.float32(0.5)).astype(np.int64)
    end = np.floor(centre + support + np.float32(0.5)).astype(np.int64)
    if attributes(node).get("exclude_outside", 0):
        first, end = np.maximum(first, 0), np.minimum(end, size)
    taps = np.arange(int((end - first).max()))
    at = first[:, None] + taps
    distance = np.abs((at.astype(np.float32) - centre[:, None] + np.float32(0.5)) * by)
    near = _cubic_filter(distance, _coefficient(node)) if cubic else np.maximum(ONE - distance, np.float32(0))
    weight = np.where(at < end[:, None], near, np.float32(0)).astype(np.float32)
    total = np.zeros(out, np.float32)
    for tap in weight.T:
        total = total + tap
    return np.clip(at, 0, size - 1).astype(np.int32), (weight * (ONE / total)[:, None]).astype(np.float32)


def _cubic_filter(x: Array, a: np.float32) -> Array:
    """Returns the cubic filter at distances x."""
    two, three, four, five, eight = (np.float32(v) for v in (2, 3, 4, 5, 8))
    inner = ((a + two) * x - (a + three)) * x * x + ONE
    outer = (((x - five) * x + eight) * x - four) * a
    return np.where(x < ONE, inner, np.where(x < two, outer, np.float32(0))).astype(np.float32)


def _copies(out: int, taps: int) -> Table:
    """Returns the table of an axis that keeps its size."""
    weight = np.zeros((out, taps), np.float32)
    weight[:, 0] = 1
    return np.repeat(np.arange(out, dtype=np.int32)[:, None], taps, 1), weight
