"""A bilinear resize in steps that a hypothesis can change: the places that each output samples, the weights, and the
arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import float32
from qverify.ops.quantize import parameters
from qverify.triage.altered_kernels.inner_node import finished, inner_case
from qverify.triage.case import Case, element_bits, limits

Array = npt.NDArray[Any]
NEIGHBOURS = ("clamped", "next in memory", "wrapped", "zero", "zero point", "mirrored")


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples along one axis.

    Attributes:
        first, second: places of the two samples of each output, which may lie beyond the end.
        share, rest: weights of the second and of the first sample, float32.
    """

    first: Array
    second: Array
    share: Array
    rest: Array


@dataclass(frozen=True, slots=True)
class Corners:
    """The four samples of every output (top left, top right, bottom left, bottom right) as float32 [planes, rows,
    columns], in real values or steps, and the samples along both axes."""

    values: tuple[Array, Array, Array, Array]
    rows: Samples
    columns: Samples


def bilinear(case: Case) -> Case | None:
    """Returns the case of the unit's resize_linear node alone, or None if the unit has no other function."""
    inner = inner_case(case)
    return inner if inner is not None and inner.last.op == "resize_linear" else None


def own_samples(case: Case) -> tuple[Samples, Samples]:
    """Returns the samples for rows and columns from the node's tables."""
    rows, columns = case.spec.shape[-2:]
    cuts = [rows, 2 * rows, 2 * rows + columns]
    index = np.split(case.graph.constants[case.last.inputs[1] or ""].astype(np.int64), cuts)
    weight = np.split(case.graph.constants[case.last.inputs[2] or ""], cuts)
    return Samples(index[0], index[1], weight[1], weight[0]), Samples(index[2], index[3], weight[3], weight[2])


def source_shape(case: Case) -> tuple[int, ...]:
    """Returns the input's shape."""
    return case.graph.spec(case.last.inputs[0] or "").shape


def corners(
    case: Case,
    rows: Samples,
    columns: Samples,
    stepwise: bool = False,
    ends: tuple[str, str] = ("clamped", "clamped"),
    plane: int | None = None,
) -> Corners:
    """Returns the four samples of every output.

    Args:
        stepwise: whether the samples are q - zero point instead of real values.
        ends: what is read beyond the last row and the last column, each one of NEIGHBOURS.
        plane: number of the only plane to read, or None for all.
    """
    name = case.last.inputs[0] or ""
    x, spec = case.inputs[name], case.graph.spec(name)
    height, width = x.shape[-2:]
    if spec.dtype == "float32" or case.last.words[0]:
        real = x.astype(np.float32)
    elif stepwise:
        real = x.astype(np.float32) - np.float32(spec.zero_point[0])
    else:
        real = float32.dequantize(x, *parameters(spec))
    flat = real.reshape(-1)
    zeros = {"zero": np.float32(0), "zero point": -np.float32(0)}
    if spec.quantized and not case.last.words[0]:
        step = np.float32(1 if stepwise else spec.scale[0])
        zeros["zero"] = -np.float32(spec.zero_point[0]) * step
    chosen = np.arange(flat.size // (height * width)) if plane is None else np.array([plane])
    planes = chosen[:, None, None] * (height * width)

    def read(row: Array, column: Array) -> Array:
        r, no_row = _ended(row, height, ends[0])
        c, no_column = _ended(column, width, ends[1])
        where = planes + r[:, None] * width + c
        values = flat[np.clip(where, 0, flat.size - 1)]
        for none, way in ((no_row[:, None], ends[0]), (no_column, ends[1])):
            if way in zeros and none.any():
                values = np.where(none, zeros[way], values)
        return values

    four = (read(r, c) for r in (rows.first, rows.second) for c in (columns.first, columns.second))
    a, b, c, d = four
    return Corners((a, b, c, d), rows, columns)


def _ended(places: Array, size: int, way: str) -> tuple[Array, Array]:
    beyond = (places >= size) | (places < 0)
    if way == "next in memory":
        return places, beyond
    if way == "wrapped":
        return places % size, beyond
    if way == "mirrored":
        return np.clip(np.where(places >= size, 2 * size - 2 - places, np.abs(places)), 0, size - 1), beyond
    return np.clip(places, 0, size - 1), beyond


def four_weights(rows: Samples, columns: Samples) -> list[Array]:
    """Returns the weights of the four samples, [rows, columns] each."""
    return [dx * dy[:, None] for dy in (rows.rest, rows.share) for dx in (columns.rest, columns.share)]


def by_weights(of: Corners, rounded: Callable[[Array], Array] | None = None) -> Array:
    """Returns the sum of the four samples times their weights, added in the kernel's order. rounded: rounds the
    weights."""
    weights = four_weights(of.rows, of.columns)
    if rounded is not None:
        weights = [rounded(w).astype(np.float32) for w in weights]
    total = weights[0] * of.values[0]
    for weight, value in zip(weights[1:], of.values[1:], strict=True):
        total = total + weight * value
    return np.asarray(total)


def by_axes(
    of: Corners, between: Callable[[Array], Array] | None = None, vertical: bool = False, lerp: bool = False
) -> Array:
    """Returns the samples interpolated along one axis and then along the other.

    Args:
        between: rounds the result of the first interpolation.
        vertical: whether rows are interpolated first.
        lerp: whether the formula is a + (b - a) * share.
    """
    a, b, c, d = of.values
    down, across = (of.rows.share[:, None], of.rows.rest[:, None]), (of.columns.share, of.columns.rest)

    def mixed(p: Array, q: Array, by: tuple[Array, Array]) -> Array:
        share, rest = by
        return np.asarray(p + (q - p) * share if lerp else p * rest + q * share)

    first, second = (mixed(a, c, down), mixed(b, d, down)) if vertical else (mixed(a, b, across), mixed(c, d, across))
    if between is not None:
        first, second = between(first).astype(np.float32), between(second).astype(np.float32)
    return mixed(first, second, across if vertical else down)


def stored(case: Case, value: Array, stepwise: bool = False, rounded: Callable[[Array], Array] | None = None) -> Array:
    """Returns the flat output from real values or, if stepwise, from the input's steps. rounded: replaces the rounding
    to nearest, ties to even."""
    y, x = case.spec, case.graph.spec(case.last.inputs[0] or "")
    if y.dtype == "float32":
        return value.reshape(-1).astype(np.float32)
    low, high = limits(y)
    if case.last.words[0]:
        whole = (rounded or np.trunc)(value)
        return np.clip(whole, low, high).astype(y.dtype).reshape(-1)
    if stepwise and (x.scale, x.zero_point) == (y.scale, y.zero_point):
        steps = value
    elif stepwise:
        steps = value * np.float32(x.scale[0] / y.scale[0])
    else:
        steps = value / np.float32(y.scale[0])
    whole = (rounded or np.rint)(steps) + y.zero_point[0]
    return np.clip(whole, low, high).astype(y.dtype).reshape(-1)


def fits_a_plane(case: Case, flat: Callable[[Case, int | None], Array]) -> bool:
    """Returns whether flat(resize, plane) gives the recorded bytes of the elements that differ in one plane, that of
    the middle one of these elements."""
    inner = bilinear(case)
    assert inner is not None
    size = case.spec.shape[-1] * case.spec.shape[-2]
    plane = int(case.differing[len(case.differing) // 2]) // size
    part = slice(plane * size, (plane + 1) * size)
    differs = element_bits(case.recorded)[part] != element_bits(case.healthy)[part]
    return bool((element_bits(finished(case, flat(inner, plane))) == element_bits(case.recorded)[part])[differs].all())


def shaped(case: Case, flat: Callable[[Case, int | None], Array]) -> Array:
    """Returns the unit's whole output from flat(resize, None), in its shape."""
    inner = bilinear(case)
    assert inner is not None
    return finished(case, flat(inner, None)).reshape(case.spec.shape)


def resized_with(case: Case, plane: int | None, axes: tuple[int, ...], change: Callable[[Samples], Samples]) -> Array:
    """Returns the output, or one plane of it, with the samples changed along these axes (0: rows, 1: columns)."""
    rows, columns = (change(s) if k in axes else s for k, s in enumerate(own_samples(case)))
    return stored(case, by_weights(corners(case, rows, columns, plane=plane)))
