"""max_pool compares other elements: padding counts as a value, taps or edges are left out, the maximum starts from
another value, or the values have another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify import ops
from qverify.arithmetic.windows import as_planes
from qverify.triage.altered_kernels.inner_node import finished, inner_case
from qverify.triage.altered_kernels.variant_checks import check_where_it_differs, operand
from qverify.triage.case import Array, Case, limits
from qverify.triage.hypotheses import FaultVariant

NAME = "max-pool-window"
OPS = ("max_pool",)
# Whether a tap is read, from its row and column and the kernel's height and width.
Taps = Callable[[int, int, int, int], bool]
Rows = Callable[[Array, int], Array]  # which places on an axis are read, from the places and the size of the axis


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = inner_case(case)
    if inner is None or inner.last.op != "max_pool":
        return
    for cost, text, settings in _ways(inner):
        yield from check_where_it_differs(case, f"max_pool: {text}", partial(_compute_output, **settings), cost)


def _ways(inner: Case) -> Iterator[tuple[float, str, dict[str, Any]]]:
    spec = inner.spec
    values = {"0": 0}
    if spec.quantized:
        low, high = limits(spec)
        values |= {
            "the zero point": spec.zero_point[0],
            "the highest value": high,
            "half of the range": (low + high + 1) // 2,
            "-128": -128,
            "-1": -1,
        }
    for text, value in values.items():
        yield 1.0, f"padded positions count as {text} instead of being left out", {"pad": value}
        for side in ("top", "left", "bottom", "right"):
            yield (
                2.0,
                f"positions in the {side} padding count as {text} instead of being left out",
                {"pad": value, "side": side},
            )
        yield 1.5, f"the maximum of a window starts from {text}: none is less", {"start": value}
    axes = {"column": 1, "row": 0}
    for name, axis in axes.items():
        for m in (2, 4, 8, 16, 32):
            yield (
                1.0 + m / 32,
                f"{name}s of the input after the last whole {m} are never looked at",
                {"inside": (axis, partial(_whole, m=m))},
            )
        yield 1.2, f"the last {name} of the input is never looked at", {"inside": (axis, lambda p, n: p < n - 1)}
        yield 1.2, f"the first {name} of the input is never looked at", {"inside": (axis, lambda p, n: p > 0)}
        yield 1.5, f"beyond the last {name} the window reads the last one again", {"edge": (axis, "clamp")}
        yield (
            1.5,
            f"beyond the edge {name}s the window continues in memory, in the next or previous {'row' if axis else 'plane'}",
            {"edge": (axis, "memory")},
        )
        yield 1.5, f"beyond the edge {name}s the window wraps around", {"edge": (axis, "wrap")}
    for text, taps in _TAPS.items():
        yield 2.0, f"{text} of a window not looked at", {"taps": taps}
    for a in range(ops.words(inner.last).get("kernel_h", 1)):
        for b in range(ops.words(inner.last).get("kernel_w", 1)):
            yield 3.0, f"tap ({a}, {b}) of a window is not looked at", {"taps": partial(_not_one, a=a, b=b)}
    for text, key in _keys(spec.dtype):
        yield 1.5, text, {"key": key}
    yield 1.5, "the minimum is taken", {"least": True}
    for pick in ("first", "last"):
        yield 1.5, f"the {pick} tap that lies inside the input is taken instead of the maximum", {"pick": pick}
    for text, carry in _CARRIED.items():
        yield 1.5, f"the running maximum is not reset: {text}", {"carry": carry}


def _over(best: Array, axes: int, back: int) -> Array:
    """Returns the running maximum along the last `axes` axes in row-major order, over all elements or the last
    `back`."""
    flat = best.reshape(*best.shape[: best.ndim - axes], -1)
    if not back:
        return np.maximum.accumulate(flat, -1).reshape(best.shape)
    before = np.concatenate([flat[..., :1], flat[..., :-1]], -1)
    return np.maximum(flat, before).reshape(best.shape)


def _in_tail(best: Array, m: int) -> Array:
    """Returns the maximum that continues from the last column of the last whole group of m through the columns after
    it."""
    base = best.shape[-1] // m * m
    if base in (0, best.shape[-1]):
        return best
    return np.concatenate([best[..., :base], np.maximum.accumulate(best[..., base - 1 :], -1)[..., 1:]], -1)


_CARRIED: dict[str, Callable[[Array], Array]] = {
    **{
        f"in the columns after the last whole {m} each output is the maximum of its own window and those to its left from there on": partial(
            _in_tail, m=m
        )
        for m in (2, 4, 8, 16)
    },
    "along a row each output is the maximum of its own window and all windows to its left": partial(
        _over, axes=1, back=0
    ),
    "in a plane each output is the maximum of its own window and all windows before it": partial(_over, axes=2, back=0),
    "over the whole tensor each output is the maximum of its own window and all windows before it": partial(
        _over, axes=4, back=0
    ),
    "each output is the maximum of its own window and the one to its left": partial(_over, axes=1, back=1),
    "down a column each output is the maximum of its own window and all windows above it": lambda v: (
        np.maximum.accumulate(v, -2)
    ),
    "each output is the maximum of its own window and that of the same place in all channels before": lambda v: (
        np.maximum.accumulate(v, 1)
    ),
}


def _whole(p: Array, n: int, m: int) -> Array:
    return p < n // m * m


def _not_one(i: int, j: int, h: int, w: int, a: int, b: int) -> bool:
    return (i, j) != (a, b)


_TAPS: dict[str, Taps] = {
    "the last column is": lambda i, j, h, w: j < w - 1 or w == 1,
    "the last row is": lambda i, j, h, w: i < h - 1 or h == 1,
    "the first column is": lambda i, j, h, w: j > 0 or w == 1,
    "the first row is": lambda i, j, h, w: i > 0 or h == 1,
    "the last tap is": lambda i, j, h, w: (i, j) != (h - 1, w - 1) or h * w == 1,
    "all rows but the first are": lambda i, j, h, w: i == 0,
    "all columns but the first are": lambda i, j, h, w: j == 0,
    "all taps but the first are": lambda i, j, h, w: i == j == 0,
    "all taps but the last are": lambda i, j, h, w: (i, j) == (h - 1, w - 1),
    "all taps but the middle one are": lambda i, j, h, w: (i, j) == (h // 2, w // 2),
    "all taps but those of an even column are": lambda i, j, h, w: j % 2 == 0,
    "the odd column left after pairs is": lambda i, j, h, w: j < w // 2 * 2 or w == 1,
    "the odd row left after pairs is": lambda i, j, h, w: i < h // 2 * 2 or h == 1,
    "all taps but those of the diagonal are": lambda i, j, h, w: i == j,
}


def _keys(dtype: str) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """Yields other orders of the values. Each key contains the value in its last bits, from which it is restored."""
    if np.dtype(dtype).kind not in "iu":
        return
    half = 1 << 8 * np.dtype(dtype).itemsize - 1
    if np.dtype(dtype).kind == "i":
        yield "values are compared as unsigned numbers: negative ones are the largest", lambda v: v % (2 * half)
    else:
        yield (
            "values are compared as signed numbers: those of the upper half are the smallest",
            lambda v: (v + half) % (2 * half) - half,
        )
    if np.dtype(dtype).itemsize == 2:
        yield "values are compared by their low byte", lambda v: v % 256
        yield "values are compared by their high byte alone, the first of equal ones wins", lambda v: v >> 8
    yield "absolute values are compared", np.abs


def _compute_output(
    case: Case,
    pad: int | None = None,
    side: str = "",
    start: int | None = None,
    inside: tuple[int, Rows] | None = None,
    edge: tuple[int, str] | None = None,
    taps: Taps | None = None,
    key: Callable[[Array], Array] | None = None,
    least: bool = False,
    pick: str = "",
    carry: Callable[[Array], Array] | None = None,
) -> Array:
    inner = inner_case(case)
    assert inner is not None
    w = ops.words(inner.last)
    x = as_planes(operand(inner, inner.last.inputs[0] or "")).astype(np.float64)
    out = (1, *inner.spec.shape[2:])[-2:] if len(inner.spec.shape) < 4 else inner.spec.shape[2:]
    rows, columns = (_places(w, s, n) for s, n in zip(("h", "w"), out, strict=True))
    size = x.shape[2:]
    best = np.full((*x.shape[:2], *out), -np.inf) if start is None else np.full((*x.shape[:2], *out), float(start))
    chosen = best.copy()
    flat = x.reshape(-1)
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], 1, 1) * size[0] * size[1]
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            if taps is not None and not taps(i, j, len(rows), len(columns)):
                continue
            r, good_row = _edge(row, size[0], edge[1] if edge and edge[0] == 0 else "")
            c, good_column = _edge(column, size[1], edge[1] if edge and edge[0] == 1 else "")
            if inside is not None:
                good_row = good_row & (inside[1](r, size[0]) if inside[0] == 0 else True)
                good_column = good_column & (inside[1](c, size[1]) if inside[0] == 1 else True)
            where = planes + r[:, None] * size[1] + c
            value = flat[np.clip(where, 0, flat.size - 1)]
            good = good_row[:, None] & good_column
            if pad is not None:
                sides = {
                    "top": (row < 0)[:, None],
                    "bottom": (row >= size[0])[:, None],
                    "left": column < 0,
                    "right": column >= size[1],
                }
                counts = np.broadcast_to(sides[side] & ~good if side else ~good, good.shape)
                value, good = np.where(counts, float(pad), value), good | counts
            rank = value if key is None else key(value.astype(np.int64)).astype(np.float64)
            rank = np.where(good, -rank if least else rank, -np.inf)
            better = rank > best
            if pick:
                better = good & ((best == -np.inf) if pick == "first" else np.ones_like(better))
            best, chosen = np.where(better, rank, best), np.where(better, value, chosen)
    chosen = chosen if carry is None else carry(chosen)
    if not np.isfinite(chosen).all():
        chosen = np.where(np.isfinite(chosen), chosen, limits(inner.spec)[0] if inner.spec.quantized else chosen)
    result = chosen.astype(inner.spec.numpy_dtype).reshape(inner.spec.shape)
    return finished(case, result).reshape(case.spec.shape)


def _places(w: dict[str, int], side: str, count: int) -> Array:
    """Returns the place that every tap of every output reads on one axis, [kernel, outputs]."""
    pad = w[{"h": "pad_top", "w": "pad_left"}[side]]
    step = np.arange(count) * w[f"stride_{side}"] - pad
    return step + np.arange(w[f"kernel_{side}"])[:, None] * w.get(f"dilation_{side}", 1)


def _edge(places: Array, size: int, way: str) -> tuple[Array, Array]:
    if way == "clamp":
        return np.clip(places, 0, size - 1), np.ones(len(places), bool)
    if way == "wrap":
        return places % size, np.ones(len(places), bool)
    if way == "memory":
        return places, np.ones(len(places), bool)
    return np.clip(places, 0, size - 1), (places >= 0) & (places < size)
