"""A linear resize of int8 on a board that runs LiteRT: its own kernels take the places of samples in whole 1024ths of an
element, so that they drift with the size of the output; XNNPACK takes the exact ones. Two right boards are then many LSB
apart, and each is held to what its own kernel gives for the inputs that it recorded (NUMERICS.md section 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce

import numpy as np

from qverify.arithmetic.resize_places import MODES, ONE, exact, fixed_point
from qverify.compare.error_bounds.bounded_values import Array, Reals, Whole, Wholes, integers
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit

NEAR = 2.0**-10  # of an element: places of one mode in float32
PLACES = 255 * 2.0**-21  # LSB for each element of the longer axis: places in float32, of values 255 apart
WEIGHTS = 255 * 2.0**-11  # of rows and columns, which have 11 bits
XNNPACK = "litert-xnnpack"
Axis = tuple[Array, Array, Array]  # the two samples of each output, and the weight of the second one


def has_own_places(unit: Unit, graph: Graph, kernels: str) -> bool:
    """Returns whether these kernels of the board take places of their own for this unit."""
    node = unit.nodes[0]
    if len(unit.nodes) > 1 or node.op != "resize_linear" or not kernels.startswith("litert-"):
        return False
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    return x.dtype == y.dtype == "int8" and (x.scale, x.zero_point) == (y.scale, y.zero_point)


def own_places(unit: Unit, graph: Graph, given: Mapping[str, Array], at: Array, kernels: str) -> Whole | None:
    """Returns the integers that the board's kernel may give at these flat positions of the output; None where the node's
    places are those of no mode of LiteRT. IndexError where LiteRT's own kernel reads beyond its input."""
    node = unit.nodes[0]
    x = given[node.inputs[0] or ""]
    to = graph.spec(node.outputs[0]).shape[-2:]
    planes = x.reshape(-1, *x.shape[-2:]).astype(np.int64)
    plane, row, column = np.unravel_index(at, (len(planes), *to))
    sizes = np.transpose([x.shape[-2:], to]).tolist()
    index, weight = (graph.constants[n or ""] for n in node.inputs[1:])
    found = []
    for mode in _modes(index, weight, sizes):
        tables = [_axis(size, wide, mode, kernels) for size, wide in sizes]
        whole = _between(planes, plane, (tables[0], row), (tables[1], column))
        found.append(_exact(whole, np.max(sizes)) if kernels == XNNPACK else _fixed(whole))
    return reduce(_either, found) if found else None


def _modes(index: Array, weight: Array, sizes: list[list[int]]) -> Iterator[tuple[bool, bool]]:
    """Yields the modes whose places are the node's, in fixed point or in floats."""
    starts = np.cumsum([0, *(2 * to for _, to in sizes)])
    axes = [
        (size, to, (index[s : s + to], index[s + to : s + 2 * to], weight[s : s + to], weight[s + to : s + 2 * to]))
        for s, (size, to) in zip(starts, sizes, strict=False)
    ]
    for mode in MODES:
        if all(_is_mode(size, to, own, mode) for size, to, own in axes):
            yield mode


def _is_mode(size: int, to: int, own: tuple[Array, ...], mode: tuple[bool, bool]) -> bool:
    first, second, _, part = own
    if part.dtype.kind == "i":
        return all(map(np.array_equal, own, fixed_point(size, to, *mode)))
    place = first + np.where(first == second, 0.0, part.astype(np.float64) * (second - first))
    return np.allclose(place, exact(size, to, *mode), rtol=0.0, atol=NEAR)


def _axis(size: int, to: int, mode: tuple[bool, bool], kernels: str) -> Axis:
    if kernels != XNNPACK:
        first, second, _, part = fixed_point(size, to, *mode)
        if (first >= size).any():
            raise IndexError(f"places beyond {size} elements")
        return first, second, part
    place = exact(size, to, *mode)
    first = np.floor(place).astype(np.int64)
    return first, np.minimum(first + 1, size - 1), place - first


def _between(planes: Wholes, plane: Array, *axes: tuple[Axis, Array]) -> Array:
    """Returns the weighted values at these places, times ONE^2 where the weights are in fixed point."""
    (r1, r2, dy), (c1, c2, dx) = ([part[at] for part in table] for table, at in axes)
    one_y, one_x = ((ONE - d if d.dtype.kind == "i" else 1.0 - d) for d in (dy, dx))
    upper = planes[plane, r1, c1] * one_x + planes[plane, r1, c2] * dx
    lower = planes[plane, r2, c1] * one_x + planes[plane, r2, c2] * dx
    return np.asarray(upper * one_y + lower * dy)


def _exact(value: Reals, longest: int) -> Whole:
    error = np.full(value.shape, WEIGHTS + PLACES * longest)
    limits = np.iinfo(np.int8)
    return integers(value, error, 0, (int(limits.min), int(limits.max)))


def _fixed(value: Wholes) -> Whole:
    half = ONE * ONE // 2
    rounded = np.sign(value) * ((np.abs(value) + half) // (ONE * ONE))
    return Whole(rounded, rounded, np.zeros(value.shape))


def _either(one: Whole, two: Whole) -> Whole:
    """Returns what either mode may give; both have the same error."""
    return replace(one, low=np.minimum(one.low, two.low), high=np.maximum(one.high, two.high))
