"""resize_linear samples at other places: another coordinate rule on one or both axes, fixed-point coordinates, or
another neighbour beyond the last row or column."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np

from qverify.triage.altered_kernels.bilinear_resize import (
    NEIGHBOURS,
    Corners,
    Samples,
    bilinear,
    by_weights,
    corners,
    fits_a_plane,
    own_samples,
    resized_with,
    shaped,
    source_shape,
    stored,
)
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "resize-linear-samples"
OPS = ("resize_linear",)
Position = Callable[[int, int], Array]
F = np.float32


def _f32(i: Array) -> Array:
    return i.astype(np.float32)


COORDINATES: dict[str, Position] = {
    "asymmetric coordinates, i * in / out (no half-pixel offset)": lambda n, out: _f32(np.arange(out) * n) / F(out),
    "asymmetric coordinates, i * (in / out) with the ratio in float32": lambda n, out: (
        _f32(np.arange(out)) * F(n / out)
    ),
    "aligned corners, i * (in - 1) / (out - 1)": lambda n, out: _f32(np.arange(out) * (n - 1)) / F(max(out - 1, 1)),
    "aligned corners, i * ((in - 1) / (out - 1)) with the ratio in float32": lambda n, out: (
        _f32(np.arange(out)) * F((n - 1) / max(out - 1, 1))
    ),
    "half-pixel centres, (i + 0.5) * in / out - 0.5": lambda n, out: (
        (_f32(np.arange(out)) + F(0.5)) * F(n) / F(out) - F(0.5)
    ),
    "half-pixel centres with the ratio in float32": lambda n, out: (
        (_f32(np.arange(out)) + F(0.5)) * F(n / out) - F(0.5)
    ),
    "half-pixel centres without the last - 0.5": lambda n, out: (_f32(np.arange(out)) + F(0.5)) * F(n) / F(out),
    "i * (in - 1) / out": lambda n, out: _f32(np.arange(out) * (n - 1)) / F(out),
    "i * in / (out - 1)": lambda n, out: _f32(np.arange(out) * n) / F(max(out - 1, 1)),
    "i * in / out - 0.5": lambda n, out: _f32(np.arange(out) * n) / F(out) - F(0.5),
    "half-pixel centres, (i + 0.5) * in / out - 0.5, in float64": lambda n, out: (np.arange(out) + 0.5) * n / out - 0.5,
    "asymmetric coordinates, i * in / out in float64": lambda n, out: np.arange(out) * n / out,
    "aligned corners, i * (in - 1) / (out - 1) in float64": lambda n, out: np.arange(out) * (n - 1) / max(out - 1, 1),
}
EDGES = {
    "": lambda p, n: np.clip(p, 0, n - 1),
    ", not limited at the first row or column (extrapolated)": lambda p, n: np.minimum(p, n - 1),
    ", not limited at either end": lambda p, n: p,
}
AXES = {"rows and columns": (0, 1), "rows only": (0,), "columns only": (1,)}


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = bilinear(case)
    if inner is None:
        return
    for where, axes in AXES.items():
        for rare, (phrase, position) in enumerate(_positions().items()):
            for edge, limit in EDGES.items():
                if phrase.startswith("half") and not edge and "float64" in phrase:
                    continue
                text = f"resize: {where} are placed by {phrase}{edge}"
                yield from _judged(
                    case,
                    text,
                    partial(_placed, axes=axes, position=position, limit=limit),
                    1.0 + 0.05 * rare + bool(edge),
                )
    for way in NEIGHBOURS[1:]:
        for where, axes in AXES.items():
            text = _NEIGHBOUR[way].format(where)
            yield from _judged(case, text, partial(_ended, axes=axes, way=way), 1.5)
    for phrase, change in _WEIGHTS.items():
        for where, axes in AXES.items():
            yield from _judged(
                case, f"resize: {phrase} ({where})", partial(resized_with, axes=axes, change=change), 2.0
            )
    for cost, phrase, order in _corner_orders():
        yield from _judged(case, f"resize: {phrase}", partial(_cornered, order=order), cost)
    for phrase, formula in _PLANES.items():
        yield from _judged(case, f"resize: {phrase}", partial(_planar, formula=formula), 1.5)
    for phrase, exchanged in (("columns take the table of the rows", 1), ("rows take the table of the columns", 0)):
        yield from _judged(case, f"resize: {phrase}", partial(_of_other, axis=exchanged), 2.0)


CORNERS = ("top left", "top right", "bottom left", "bottom right")


def _corner_orders() -> Iterator[tuple[float, str, tuple[int, ...]]]:
    """Yields wrong orders of the samples that the four weights multiply."""
    for order in product(range(4), repeat=4):
        wrong = [k for k in range(4) if order[k] != k]
        if wrong:
            parts = ", ".join(f"the {CORNERS[k]} weight multiplies the {CORNERS[order[k]]} sample" for k in wrong)
            yield 1.5 + len(wrong), parts, order


def _cornered(case: Case, plane: int | None, order: tuple[int, ...]) -> Array:
    samples_of_axes = own_samples(case)
    of = corners(case, *samples_of_axes, plane=plane)
    a, b, c, d = (of.values[k] for k in order)
    return stored(case, by_weights(Corners((a, b, c, d), *samples_of_axes)))


Formula = Callable[[Array, Array, Array, Array, Array, Array], Array]  # output from four samples and the shares dx, dy
_PLANES: dict[str, Formula] = {
    "the bottom right sample is dropped: top left + dx*(top right - top left) + dy*(bottom left - top left), a plane through three corners": lambda a, b, c, d, x, y: (
        a + x * (b - a) + y * (c - a)
    ),
    "the top left sample is dropped, a plane through the other three corners": lambda a, b, c, d, x, y: (
        d + (1 - x) * (c - d) + (1 - y) * (b - d)
    ),
    "a plane through the three corners nearest to the point (two triangles, split from top right to bottom left)": lambda a, b, c, d, x, y: (
        np.where(x + y <= 1, a + x * (b - a) + y * (c - a), d + (1 - x) * (c - d) + (1 - y) * (b - d))
    ),
    "two triangles, split from top left to bottom right": lambda a, b, c, d, x, y: np.where(
        x >= y, a + x * (b - a) + y * (d - b), a + y * (c - a) + x * (d - c)
    ),
    "top left + dx*(top right - top left) + dy*(bottom left - top left) + dx*dy*(bottom right - top left)": lambda a, b, c, d, x, y: (
        a + x * (b - a) + y * (c - a) + x * y * (d - a)
    ),
    "top left + dx*(top right - top left) + dy*(bottom left - top left) + dx*dy*(top left + bottom right - top right - bottom left), in this order": lambda a, b, c, d, x, y: (
        a + x * (b - a) + y * (c - a) + x * y * (a + d - b - c)
    ),
    "only the columns are interpolated (the upper row is taken)": lambda a, b, c, d, x, y: a * (1 - x) + b * x,
    "only the rows are interpolated (the left column is taken)": lambda a, b, c, d, x, y: a * (1 - y) + c * y,
    "only the columns are interpolated (of the lower row)": lambda a, b, c, d, x, y: c * (1 - x) + d * x,
    "only the rows are interpolated (of the right column)": lambda a, b, c, d, x, y: b * (1 - y) + d * y,
    "the four samples are averaged": lambda a, b, c, d, x, y: (a + b + c + d) * np.float32(0.25) + 0 * x * y,
    "the diagonal alone is interpolated, by dx": lambda a, b, c, d, x, y: a + x * (d - a) + 0 * y,
    "the weights are (1 - dx)*(1 - dy), dx, dy and dx*dy": lambda a, b, c, d, x, y: (
        (1 - x) * (1 - y) * a + x * b + y * c + x * y * d
    ),
    "the larger of the four samples is taken": lambda a, b, c, d, x, y: (
        np.maximum(np.maximum(a, b), np.maximum(c, d)) + 0 * x * y
    ),
    "the shares are smoothed (3t^2 - 2t^3)": lambda a, b, c, d, x, y: _mixed(
        a, b, c, d, x * x * (3 - 2 * x), y * y * (3 - 2 * y)
    ),
    "the shares are squared": lambda a, b, c, d, x, y: _mixed(a, b, c, d, x * x, y * y),
}


def _mixed(a: Array, b: Array, c: Array, d: Array, x: Array, y: Array) -> Array:
    return (a * (1 - x) + b * x) * (1 - y) + (c * (1 - x) + d * x) * y


def _planar(case: Case, plane: int | None, formula: Formula) -> Array:
    rows, columns = own_samples(case)
    of = corners(case, rows, columns, plane=plane)
    return stored(case, formula(*of.values, columns.share, rows.share[:, None]))


_NEIGHBOUR = {
    "next in memory": "resize: the second sample is always the next one in memory, also behind the last ({}): there it is of the next row or plane",
    "wrapped": "resize: the sample behind the last is the first one, wrapping around ({})",
    "zero": "resize: the sample behind the last is raw 0 ({})",
    "zero point": "resize: the sample behind the last is real zero ({})",
    "mirrored": "resize: the sample behind the last is the one before it ({})",
}


def _judged(case: Case, text: str, flat: Callable[..., Array], cost: float) -> list[FaultVariant]:
    """Returns the fault as a list of one, or [] if it fails on the elements that differ in a plane."""
    return [FaultVariant(text, partial(shaped, flat=flat), cost)] if fits_a_plane(case, flat) else []


def _positions() -> dict[str, Position]:
    positions = dict(COORDINATES)
    for k in (16, 8, 10, 11, 12, 7, 6, 5, 4):
        for rule, rounded in (("down", np.floor), ("to the nearest", np.rint)):
            positions[f"half-pixel centres in fixed point of {k} bits, rounded {rule}"] = partial(
                _fixed, k=k, rounded=rounded
            )
            positions[f"i * (in / out), the ratio in fixed point of {k} bits, rounded {rule}"] = partial(
                _ratio, k=k, rounded=rounded
            )
    return positions


def _fixed(n: int, out: int, k: int, rounded: Callable[[Array], Array]) -> Array:
    return np.asarray(rounded(((np.arange(out) + 0.5) * n / out - 0.5) * 2.0**k) / 2.0**k)


def _ratio(n: int, out: int, k: int, rounded: Callable[[Array], Array]) -> Array:
    return np.arange(out) * np.float64(rounded(np.array(n / out * 2.0**k))) / 2.0**k


def samples(position: Array, size: int) -> Samples:
    """Returns the samples at real positions; the second one may lie beyond the end."""
    first = np.minimum(np.maximum(np.floor(position), 0).astype(np.int64), size - 1)
    share = (position - first).astype(np.float32)
    return Samples(first, first + 1, share, np.float32(1) - share)


def _placed(
    case: Case, plane: int | None, axes: tuple[int, ...], position: Position, limit: Callable[[Array, int], Array]
) -> Array:
    of, (size, out) = list(own_samples(case)), (source_shape(case)[-2:], case.spec.shape[-2:])
    for axis in axes:
        of[axis] = samples(limit(position(size[axis], out[axis]), size[axis]), size[axis])
    return stored(case, by_weights(corners(case, of[0], of[1], plane=plane)))


def _ended(case: Case, plane: int | None, axes: tuple[int, ...], way: str) -> Array:
    of = [Samples(s.first, s.first + 1, s.share, s.rest) if k in axes else s for k, s in enumerate(own_samples(case))]
    ends = (way if 0 in axes else "clamped", way if 1 in axes else "clamped")
    return stored(case, by_weights(corners(case, of[0], of[1], ends=ends, plane=plane)))


_WEIGHTS: dict[str, Callable[[Samples], Samples]] = {
    "the weights of the two samples are exchanged": lambda s: Samples(s.first, s.second, s.rest, s.share),
    "only the first sample is read (no interpolation)": lambda s: Samples(s.first, s.first, s.share, s.rest),
    "only the second sample is read (no interpolation)": lambda s: Samples(s.second, s.second, s.share, s.rest),
    "the nearest of the two samples is read, halves up": lambda s: _nearest(s, s.share >= 0.5),
    "the nearest of the two samples is read, halves down": lambda s: _nearest(s, s.share > 0.5),
    "both samples weigh one half": lambda s: Samples(
        s.first, s.second, np.full_like(s.share, 0.5), np.full_like(s.share, 0.5)
    ),
    "the weights are those of the output one before": lambda s: Samples(
        s.first, s.second, np.append(s.share[:1], s.share[:-1]), np.append(s.rest[:1], s.rest[:-1])
    ),
    "the weights are those of the first output": lambda s: Samples(
        s.first, s.second, np.full_like(s.share, s.share[0]), np.full_like(s.rest, s.rest[0])
    ),
    "the samples are one too early": lambda s: Samples(
        np.maximum(s.first - 1, 0), np.maximum(s.second - 1, 0), s.share, s.rest
    ),
    "the samples are one too far": lambda s: Samples(s.first + 1, s.second + 1, s.share, s.rest),
    "the first sample's weight is lost at the end (not limited)": lambda s: Samples(
        s.first, s.second, s.share, np.where(s.first == s.second, 0, s.rest)
    ),
}


def _nearest(axis_samples: Samples, second: Array) -> Samples:
    place = np.where(second, axis_samples.second, axis_samples.first)
    return Samples(place, place, axis_samples.share, axis_samples.rest)


def _of_other(case: Case, plane: int | None, axis: int) -> Array:
    of = list(own_samples(case))
    other, count, size = of[1 - axis], case.spec.shape[axis - 2], source_shape(case)[axis - 2]
    first, second = (np.minimum(np.resize(v, count), size - 1) for v in (other.first, other.second))
    of[axis] = Samples(first, second, np.resize(other.share, count), np.resize(other.rest, count))
    return stored(case, by_weights(corners(case, of[0], of[1], plane=plane)))
