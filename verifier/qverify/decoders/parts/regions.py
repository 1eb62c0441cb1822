"""Connected regions of a map, and the rectangle of least area around each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.norms import norm

Array = npt.NDArray[Any]


def label_regions(inside: Array) -> list[Array]:
    """Returns the regions of a map of bool (H, W) whose pixels touch by sides or corners, each as int64 (K, 2): rows and
    columns, sorted; regions in the order of their first pixel."""
    starts, ends, rows = _list_runs(inside)
    parents = np.arange(len(starts))
    first_of_row = np.searchsorted(rows, np.arange(inside.shape[0] + 1))
    for row in range(1, inside.shape[0]):
        _join_rows(parents, starts, ends, first_of_row[row - 1 : row + 2])
    roots: dict[int, list[int]] = {}
    for at in range(len(starts)):
        roots.setdefault(_find_root(parents, at), []).append(at)
    return [
        np.concatenate([_list_pixels(int(rows[at]), int(starts[at]), int(ends[at])) for at in runs])
        for runs in roots.values()
    ]


def _list_runs(inside: Array) -> tuple[Array, Array, Array]:
    """Returns first column, end and row of each run of pixels in a row."""
    padded = np.zeros((inside.shape[0], inside.shape[1] + 2), np.int8)
    padded[:, 1:-1] = inside
    steps = np.diff(padded, axis=1)
    rows, starts = np.nonzero(steps == 1)
    return starts, np.nonzero(steps == -1)[1], rows


def _join_rows(parents: Array, starts: Array, ends: Array, bounds: Array) -> None:
    above, here, end = (int(b) for b in bounds)
    one, two = above, here
    while one < here and two < end:
        if starts[two] <= ends[one] and starts[one] <= ends[two]:
            first, second = _find_root(parents, one), _find_root(parents, two)
            parents[max(first, second)] = min(first, second)
        if ends[one] < ends[two]:
            one += 1
        else:
            two += 1


def _find_root(parents: Array, at: int) -> int:
    while parents[at] != at:
        parents[at] = parents[parents[at]]
        at = int(parents[at])
    return at


def _list_pixels(row: int, start: int, end: int) -> Array:
    columns = np.arange(start, end)
    return np.stack([np.full(len(columns), row), columns], axis=1)


def fit_rectangle(points: Array) -> Array:
    """Returns the corners (4, 2) of the rectangle of least area around points (N, 2) of x and y: one side lies on a side
    of their convex hull. It begins at the corner with the least x + y and goes clockwise (y points down)."""
    hull = _find_hull(points)
    if len(hull) < 3:
        low, high = hull.min(axis=0), hull.max(axis=0)
        along = hull[-1] - hull[0]
        if not along.all():
            return _order_corners(np.array([low, [high[0], low[1]], high, [low[0], high[1]]]))
        return _order_corners(np.array([hull[0], hull[-1], hull[-1], hull[0]]))
    sides = np.roll(hull, -1, axis=0) - hull
    lengths = np.sqrt((sides * sides).sum(axis=1))
    axes = sides / lengths[:, None]
    normals = np.stack([-axes[:, 1], axes[:, 0]], axis=1)
    along, across = hull @ axes.T, hull @ normals.T
    low, high = np.stack([along.min(axis=0), across.min(axis=0)]), np.stack([along.max(axis=0), across.max(axis=0)])
    best = int(np.argmin((high - low).prod(axis=0)))
    frame = np.stack([axes[best], normals[best]])
    (a, c), (b, d) = low[:, best], high[:, best]
    return _order_corners(np.array([[a, c], [b, c], [b, d], [a, d]]) @ frame)


def _find_hull(points: Array) -> Array:
    """Returns the convex hull by the monotone chain, counter-clockwise in x and y, without points on its sides."""
    order = np.lexsort((points[:, 1], points[:, 0]))
    ordered = points[order].tolist()
    ends: dict[float, tuple[float, float]] = {}
    for x, y in ordered:  # of each column the lowest and the highest point are enough
        low, high = ends.get(x, (y, y))
        ends[x] = min(low, y), max(high, y)
    few = [[x, y] for x, pair in ends.items() for y in dict.fromkeys(pair)]
    chains = []
    for path in (few, few[::-1]):
        chain: list[list[float]] = []
        for point in path:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        chains.append(chain[:-1])
    hull = chains[0] + chains[1]
    return np.array(hull or few[:1])


def _turn(a: list[float], b: list[float], c: list[float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _order_corners(corners: Array) -> Array:
    """Returns four corners clockwise (y down) from the one with the least x + y."""
    centre = corners.mean(axis=0)
    cross = float(_turn(corners[0].tolist(), corners[1].tolist(), centre.tolist()))
    clockwise = corners if cross >= 0 else corners[::-1]
    return np.roll(clockwise, -int(np.argmin(clockwise.sum(axis=1))), axis=0)


def grow_rectangle(corners: Array, unclip: float) -> Array:
    """Returns a rectangle (4, 2) grown on every side by area * unclip / perimeter."""
    sides = [corners[1] - corners[0], corners[3] - corners[0]]
    wide, high = (norm(side) for side in sides)
    if not wide or not high:
        return corners
    away = wide * high * unclip / (2.0 * (wide + high))
    x, y = sides[0] / wide * away, sides[1] / high * away
    return corners + np.array([-x - y, x - y, x + y, y - x])


def mean_inside(heat: Array, corners: Array) -> float:
    """Returns the mean of the map (H, W) over the pixels whose centres lie in a rectangle (4, 2), borders included."""
    low = np.maximum(np.floor(corners.min(axis=0)).astype(np.int64), 0)
    high = np.minimum(np.ceil(corners.max(axis=0)).astype(np.int64), np.array(heat.shape[::-1]) - 1)
    y, x = np.mgrid[low[1] : high[1] + 1, low[0] : high[0] + 1]
    points = np.stack([x, y], axis=-1) - corners[0]
    inside = np.ones(x.shape, bool)
    for side in (corners[1] - corners[0], corners[3] - corners[0]):
        length = float((side * side).sum())
        along = points @ side
        inside &= (along >= -1e-9) & (along <= length + 1e-9)
    chosen = heat[y[inside], x[inside]]
    return float(chosen.mean()) if chosen.size else 0.0
