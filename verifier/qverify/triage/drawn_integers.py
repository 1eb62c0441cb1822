"""Draws other values of integer and bool inputs that a node reads as indices, conditions, dividends or elements to move."""

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
FEW, SOME = 0.03, 0.1  # share of true conditions, and of elements that are not as recorded
MOVED = (
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
INDEXED: dict[str, Callable[[Dims, Dims, Dims], Dims]] = {  # dims of x, words, dims of the indices: sizes to stay below
    "gather": lambda x, words, indices: (x[words[0]],),
    "gather_elements": lambda x, words, indices: (x[words[0]],),
    "scatter_elements": lambda x, words, indices: (x[words[0]],),
    "gather_nd": lambda x, words, indices: x[words[0] : words[0] + indices[-1]],
    "scatter_nd": lambda x, words, indices: x[: indices[-1]],
}
WIDE = 1000  # moved elements lie within this of 0


def draw_integers(graph: Graph, unit: Unit, name: str, values: Array, kind: str, rng: Rng) -> Array:
    """Returns other values of an input of the unit, of its shape and dtype, and legal for the node that reads it; the
    given ones where that is not known. values: as recorded, bool, int32 or int64. kind: of experiment."""
    work = [node for node in unit.nodes if node.op not in BORDERS]
    readers = [node for node in unit.nodes if name in node.inputs]
    if len(work) != 1 or readers != work or not values.size:
        return values
    fresh = _drawing(graph, work[0], name, values, kind)
    if fresh is None:
        return values
    if kind == "shuffled":
        return rng.permutation(values.reshape(-1)).reshape(values.shape)
    drawn = np.asarray(fresh(rng)).astype(values.dtype)
    return np.where(rng.random(values.shape) < SOME, drawn, values) if kind == "nearby" else drawn


def _drawing(graph: Graph, node: Node, name: str, values: Array, kind: str) -> Callable[[Rng], Array] | None:
    """Returns what draws legal values, or None where the node's use of the input is not known."""
    at = [k for k, n in enumerate(node.inputs) if n == name]
    if values.dtype == bool:
        return (lambda rng: _conditions(values.shape, kind, rng)) if node.op in MOVED else None
    if 1 in at and node.op in INDEXED:
        sizes = INDEXED[node.op](graph.spec(node.inputs[0] or "").shape, node.words, values.shape)
        return lambda rng: _indices(sizes, values.shape, kind, rng)
    divides = node.op == "mod" or (node.op == "elementwise_integer" and node.words[0] == FUNCTIONS["div"].number)
    if divides and (1 in at or node.inputs[1] not in graph.constants):
        return None  # a divisor of 0 ends the run
    if node.op == "mod" and at == [0]:
        return lambda rng: _dividends(graph.constants[node.inputs[1] or ""], values, kind, rng)
    if node.op in MOVED:
        return lambda rng: _within(-WIDE, WIDE, values.shape, kind, rng)
    return None


def _indices(sizes: tuple[int, ...], shape: tuple[int, ...], kind: str, rng: Rng) -> Array:
    """Returns indices below a size; with several sizes tuples of them along the last dim."""
    if len(sizes) == 1:
        return _within(-sizes[0], sizes[0] - 1, shape, kind, rng)
    return np.stack([_within(-size, size - 1, shape[:-1], kind, rng) for size in sizes], -1)


def _conditions(shape: tuple[int, ...], kind: str, rng: Rng) -> Array:
    share = {"sparse": FEW, "level": 1 - SOME}.get(kind, 0.5)
    return rng.random(shape) < share


def _within(low: int, high: int, shape: tuple[int, ...], kind: str, rng: Rng) -> Array:
    if kind == "extremes":
        return rng.choice(np.unique(np.clip([low, low + 1, -1, 0, high - 1, high], low, high)), shape)
    if kind == "level":
        start = int(rng.integers(low, high + 1))
        return rng.integers(start, min(start + 2, high) + 1, shape)
    return rng.integers(low, high + 1, shape)


def _dividends(divisors: Array, values: Array, kind: str, rng: Rng) -> Array:
    """Returns dividends of some multiples of the divisors, and around whole multiples or the type's ends."""
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
