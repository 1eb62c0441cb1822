"""Evaluates a linear resize of int8 on a board that runs LiteRT. LiteRT's own kernels compute the places of samples in
whole 1024ths of an element, so that they drift with the size of the output; XNNPACK computes exact places. Two correct
boards may then differ by many LSB, and each is compared with the result of its own kernel for the inputs that it
recorded (NUMERICS.md section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

import numpy as np

from qverify.arithmetic.resize_places import ONE, exact, find_modes, fixed_point
from qverify.compare.error_bounds.bounded_values import Array, Reals, Whole, Wholes, round_interval
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit

PLACES = 255 * 2.0**-21  # error of places in float32, in LSB per element of the longer axis, of values 255 apart
WEIGHTS = 255 * 2.0**-11  # error of the weights of rows and columns, which have 11 bits, in LSB
XNNPACK = "litert-xnnpack"
Axis = tuple[Array, Array, Array]  # the two samples of each output, and the weight of the second one


def has_own_places(unit: Unit, graph: Graph, kernels: str) -> bool:
    """Returns whether these kernels take samples at places of their own for this unit."""
    node = unit.nodes[0]
    if len(unit.nodes) > 1 or node.op != "resize_linear" or not kernels.startswith("litert-"):
        return False
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    return x.dtype == y.dtype == "int8" and (x.scale, x.zero_point) == (y.scale, y.zero_point)


def evaluate_own_places(unit: Unit, graph: Graph, given: Mapping[str, Array], at: Array, kernels: str) -> Whole | None:
    """Returns the integers that the board's kernel may compute at these flat positions of the output, or None if the
    node's places are those of no mode of LiteRT. Raises IndexError if LiteRT's own kernel would read beyond its
    input."""
    node = unit.nodes[0]
    x = given[node.inputs[0] or ""]
    to = graph.spec(node.outputs[0]).shape[-2:]
    planes = x.reshape(-1, *x.shape[-2:]).astype(np.int64)
    plane, row, column = np.unravel_index(at, (len(planes), *to))
    sizes = np.transpose([x.shape[-2:], to]).tolist()
    index, weight = (graph.constants[n or ""] for n in node.inputs[1:])
    by_mode = []
    for mode in find_modes(index, weight, sizes):
        tables = [_make_axis(size, wide, mode, kernels) for size, wide in sizes]
        samples = _interpolate(planes, plane, (tables[0], row), (tables[1], column))
        by_mode.append(_round_exact(samples, np.max(sizes)) if kernels == XNNPACK else _round_fixed_point(samples))
    return reduce(_unite, by_mode) if by_mode else None


def _make_axis(size: int, to: int, mode: tuple[bool, bool], kernels: str) -> Axis:
    """Returns the samples and weights of one axis. Raises IndexError for places beyond the axis."""
    if kernels != XNNPACK:
        first, second, _, part = fixed_point(size, to, *mode)
        if (first >= size).any():
            raise IndexError(f"places beyond {size} elements")
        return first, second, part
    place = exact(size, to, *mode)
    first = np.floor(place).astype(np.int64)
    return first, np.minimum(first + 1, size - 1), place - first


def _interpolate(planes: Wholes, plane: Array, *axes: tuple[Axis, Array]) -> Array:
    """Returns the weighted values at these places, times ONE^2 if the weights are in fixed point."""
    (r1, r2, dy), (c1, c2, dx) = ([part[at] for part in table] for table, at in axes)
    one_y, one_x = ((ONE - d if d.dtype.kind == "i" else 1.0 - d) for d in (dy, dx))
    upper = planes[plane, r1, c1] * one_x + planes[plane, r1, c2] * dx
    lower = planes[plane, r2, c1] * one_x + planes[plane, r2, c2] * dx
    return np.asarray(upper * one_y + lower * dy)


def _round_exact(value: Reals, longest: int) -> Whole:
    """Returns the integers to which XNNPACK may round these values."""
    error = np.full(value.shape, WEIGHTS + PLACES * longest)
    limits = np.iinfo(np.int8)
    return round_interval(value, error, 0, (int(limits.min), int(limits.max)))


def _round_fixed_point(value: Wholes) -> Whole:
    """Returns the integers to which LiteRT's own kernels round these values."""
    half = ONE * ONE // 2
    rounded = np.sign(value) * ((np.abs(value) + half) // (ONE * ONE))
    return Whole(rounded, rounded, np.zeros(value.shape))


def _unite(a: Whole, b: Whole) -> Whole:
    """Returns the intervals that contain the results of both modes, whose errors are equal."""
    return replace(a, low=np.minimum(a.low, b.low), high=np.maximum(a.high, b.high))
