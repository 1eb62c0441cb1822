"""Draws other values for integer and bool inputs that a node reads as indices, conditions, dividends or elements to
move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.integer_functions import FUNCTIONS
from qverify.model_bin.units import Unit

Array = npt.NDArray[Any]
Rng = np.random.Generator
BORDERS = ("quantize", "dequantize")
TRUE_SHARE = 0.03  # of sparse conditions
CHANGED_SHARE = 0.1  # of elements of an input that is otherwise as recorded
MOVING_OPS = (  # which only move or compare elements, so that any value is legal
    "concat",
    "cum_sum",
    "depth_to_space",
    "elementwise_integer",
    "gather",
    "gather_elements",
    "gather_nd",
    "pad",
    "reshape",
    "resize_nearest",
    "scatter_elements",
    "scatter_nd",
    "slice",
    "split",
    "tile",
    "top_k",
    "transpose",
    "trilu",
    "where",
)
Dims = tuple[int, ...]
INDEXED: dict[
    str, Callable[[Dims, Dims, Dims], Dims]
] = {  # sizes that indices stay below, from dims of x, words and dims of indices
    "gather": lambda x, words, indices: (x[words[0]],),
    "gather_elements": lambda x, words, indices: (x[words[0]],),
    "scatter_elements": lambda x, words, indices: (x[words[0]],),
    "gather_nd": lambda x, words, indices: x[words[0] : words[0] + indices[-1]],
    "scatter_nd": lambda x, words, indices: x[: indices[-1]],
}
TUPLES = ("gather_nd", "scatter_nd")  # whose indices are tuples along the last dim
MAX_MOVED = 1000  # largest absolute value of elements that are moved


def draw_integers(graph: Graph, unit: Unit, name: str, values: Array, kind: str, rng: Rng) -> Array:
    """Returns other values for an input of the unit, in its shape and dtype, that are legal for the node that reads it.
    Returns the recorded ones if it is not known which are legal. values: the recorded ones, bool, int32 or int64. kind:
    kind of experiment."""
    work = [node for node in unit.nodes if node.op not in BORDERS]
    readers = [node for node in unit.nodes if name in node.inputs]
    if len(work) != 1 or readers != work or not values.size:
        return values
    draw = _find_draw(graph, work[0], name, values, kind)
    if draw is None:
        return values
    if kind == "shuffled":
        is_tuple = work[0].op in TUPLES and name == work[0].inputs[1]  # whose parts stay at their places
        return rng.permutation(values.reshape(-1, values.shape[-1] if is_tuple else 1)).reshape(values.shape)
    drawn = np.asarray(draw(rng)).astype(values.dtype)
    return np.where(rng.random(values.shape) < CHANGED_SHARE, drawn, values) if kind == "nearby" else drawn


def _find_draw(graph: Graph, node: Node, name: str, values: Array, kind: str) -> Callable[[Rng], Array] | None:
    """Returns a function that draws legal values, or None if it is not known how the node uses the input."""
    at = [k for k, n in enumerate(node.inputs) if n == name]
    if values.dtype == bool:
        return (lambda rng: _conditions(values.shape, kind, rng)) if node.op in MOVING_OPS else None
    if 1 in at and node.op in INDEXED:
        sizes = INDEXED[node.op](graph.spec(node.inputs[0] or "").shape, node.words, values.shape)
        return lambda rng: _indices(sizes, values.shape, kind, rng)
    divides = node.op == "mod" or (node.op == "elementwise_integer" and node.words[0] == FUNCTIONS["div"].number)
    if divides and (1 in at or node.inputs[1] not in graph.constants):
        return None  # a divisor of 0 ends the run
    if node.op == "mod" and at == [0]:
        return lambda rng: _dividends(graph.constants[node.inputs[1] or ""], values, kind, rng)
    if node.op in MOVING_OPS:
        return lambda rng: _within(-MAX_MOVED, MAX_MOVED, values.shape, kind, rng)
    return None


def _indices(sizes: tuple[int, ...], shape: tuple[int, ...], kind: str, rng: Rng) -> Array:
    """Returns indices below the size, also negative ones; for several sizes, tuples of indices along the last dim."""
    if len(sizes) == 1:
        return _within(-sizes[0], sizes[0] - 1, shape, kind, rng)
    return np.stack([_within(-size, size - 1, shape[:-1], kind, rng) for size in sizes], -1)


def _conditions(shape: tuple[int, ...], kind: str, rng: Rng) -> Array:
    share = {"sparse": TRUE_SHARE, "level": 1 - CHANGED_SHARE}.get(kind, 0.5)
    return rng.random(shape) < share


def _within(low: int, high: int, shape: tuple[int, ...], kind: str, rng: Rng) -> Array:
    if kind == "extremes":
        return rng.choice(np.unique(np.clip([low, low + 1, -1, 0, high - 1, high], low, high)), shape)
    if kind == "level":
        start = int(rng.integers(low, high + 1))
        return rng.integers(start, min(start + 2, high) + 1, shape)
    return rng.integers(low, high + 1, shape)


def _dividends(divisors: Array, values: Array, kind: str, rng: Rng) -> Array:
    """Returns dividends up to some multiples of the divisors, around whole multiples, or at the ends of the type."""
    most = int(min(np.abs(divisors.astype(np.float64)).max(), 2.0**28))
    near = rng.integers(-4 * most, 4 * most + 1, values.shape)
    if kind == "extremes":
        info = np.iinfo(values.dtype)
        return rng.choice(np.array([info.min, info.min + 1, info.max, -most, most, -1, 0, 1, 2 * most]), values.shape)
    if kind == "level":
        multiples = np.broadcast_to(divisors, np.broadcast_shapes(divisors.shape, values.shape))
        if multiples.shape == values.shape:
            return multiples.astype(np.int64) % (1 << 30) * rng.integers(-3, 4, values.shape) + rng.integers(-1, 2)
    return rng.integers(-(2**30), 2**30, values.shape) if kind == "uniform" else near
