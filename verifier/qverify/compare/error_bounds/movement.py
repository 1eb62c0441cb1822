"""Error bounds of ops that move values or choose among them. The bound of a value moves with it.

Each function that is named after an op takes a node, its bounded inputs and the graph, and returns the bounded outputs.
It raises NoBound if there is no bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qverify.arithmetic.windows import as_planes, plane_shape, window_of
from qverify.compare.error_bounds.bounded_values import (
    Array,
    BoundedValue,
    NoBound,
    Real,
    Whole,
    requantize_operand,
    require_certain,
)
from qverify.model_bin.graph import Graph, Node


def move_value(value: BoundedValue | None, move: Callable[[Array], Array]) -> BoundedValue:
    """Returns the value after a movement, with its bounds moved in the same way."""
    if isinstance(value, Real):
        return Real(move(value.value), move(value.error))  # `ours` and `lost`: see carry_through.py
    if isinstance(value, Whole):
        low = move(value.low)
        return Whole(low, low if value.high is value.low else move(value.high))
    raise NoBound("an absent input")


def reshape(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    return [move_value(inputs[0], lambda x: x.reshape(graph.spec(node.outputs[0]).shape))]


def transpose(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    return [move_value(inputs[0], lambda x: x.transpose(node.words))]


def slice_(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    shape = graph.spec(node.outputs[0]).shape
    starts, steps = node.words[: len(shape)], node.words[len(shape) :]
    index = np.ix_(*(np.arange(n) * step + start for n, start, step in zip(shape, starts, steps, strict=True)))
    return [move_value(inputs[0], lambda x: x[index])]


def split(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    axis = node.words[0]
    cuts = np.cumsum([graph.spec(n).shape[axis] for n in node.outputs])[:-1]
    return [
        move_value(inputs[0], lambda x, at=at: np.split(x, cuts, axis)[at])  # type: ignore[misc]
        for at in range(len(node.outputs))
    ]


def gather(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    indices, axis, shape = require_certain(inputs[1]), node.words[0], graph.spec(node.outputs[0]).shape
    return [move_value(inputs[0], lambda x: x.take(indices, axis).reshape(shape))]


def gather_elements(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    indices, axis = require_certain(inputs[1]), node.words[0]
    read = tuple(slice(None) if k == axis else slice(n) for k, n in enumerate(indices.shape))
    return [move_value(inputs[0], lambda x: np.take_along_axis(x[read], indices, axis))]


def gather_nd(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    indices, batch, shape = require_certain(inputs[1]), node.words[0], graph.spec(node.outputs[0]).shape
    batch_indices = [np.arange(n).reshape(-1, *[1] * (indices.ndim - 2 - k)) for k, n in enumerate(shape[:batch])]
    at = (*batch_indices, *np.moveaxis(indices, -1, 0))
    return [move_value(inputs[0], lambda x: x[at].reshape(shape))]


def tile(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    shape, dims = graph.spec(node.outputs[0]).shape, graph.spec(node.inputs[0] or "").shape
    dims = (1,) * (len(shape) - len(dims)) + dims
    repeats = [out // n for out, n in zip(shape, dims, strict=True)]
    return [move_value(inputs[0], lambda x: np.tile(x.reshape(dims), repeats))]


def resize_nearest(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    cuts = np.cumsum(graph.spec(node.outputs[0]).shape)[:-1]
    index = np.ix_(*np.split(require_certain(inputs[1]), cuts))
    return [move_value(inputs[0], lambda x: x[index])]


def pad(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    mode, value, *begin = node.words
    x, y = graph.spec(node.inputs[0] or "").shape, graph.spec(node.outputs[0])
    widths = [(b, out - n - b) for b, out, n in zip(begin, y.shape, x, strict=True)]
    if mode:
        return [move_value(inputs[0], lambda v: np.pad(v, widths, "reflect" if mode == 1 else "edge"))]
    fill: Any = np.array(value, np.int32).view(np.float32)[()] if y.dtype == "float32" else value
    source = inputs[0]
    if isinstance(source, Real):
        return [Real(np.pad(source.value, widths, constant_values=float(fill)), np.pad(source.error, widths))]
    return [move_value(source, lambda v: np.pad(v, widths, constant_values=fill))]


def depth_to_space(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    n, c, h, w = graph.spec(node.inputs[0] or "").shape
    block, crd = node.words
    dims = (n, c // block**2, block, block, h, w) if crd else (n, block, block, c // block**2, h, w)
    order = (0, 1, 4, 2, 5, 3) if crd else (0, 3, 4, 1, 5, 2)
    shape = graph.spec(node.outputs[0]).shape
    return [move_value(inputs[0], lambda x: x.reshape(dims).transpose(order).reshape(shape))]


@dataclass(frozen=True, slots=True)
class _Largest:
    """A function that computes the largest value of each window of a plane."""

    node: Node
    shape: tuple[int, ...]

    def of(self, x: Array) -> Array:
        window, out = window_of(self.node.words), plane_shape(self.shape)
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        taps = list(window.reads(as_planes(x), out, lowest))
        return np.asarray(np.max(taps, axis=0)).reshape(self.shape)


def max_pool(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    """Returns the largest values. Their error is the difference to the largest upper end of each window; downwards it
    is not larger."""
    largest, x = _Largest(node, graph.spec(node.outputs[0]).shape), inputs[0]
    if not isinstance(x, Real):
        return [move_value(x, largest.of)]
    value = largest.of(x.value)
    if not x.error.any():
        return [Real(value, np.zeros_like(value))]
    return [Real(value, largest.of(x.value + x.error) - value)]


def _requantize_branches(node: Node, inputs: list[BoundedValue | None], graph: Graph, first: int) -> list[BoundedValue]:
    y = graph.spec(node.outputs[0])
    values = [
        requantize_operand(value, graph.spec(name), y)
        for value, name in zip(inputs[first:], node.inputs[first:], strict=True)
        if value is not None and name is not None
    ]
    if len({type(value) for value in values}) != 1:
        raise NoBound("floats and integers together")
    return values


def concat(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    return [
        _join_bounds(_requantize_branches(node, inputs, graph, 0), lambda parts: np.concatenate(parts, node.words[0]))
    ]


def where(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    condition = require_certain(inputs[0]) != 0
    return [_join_bounds(_requantize_branches(node, inputs, graph, 1), lambda parts: np.where(condition, *parts))]


def _join_bounds(parts: list[BoundedValue], join: Callable[[list[Array]], Array]) -> BoundedValue:
    if isinstance(parts[0], Real):
        reals = [p for p in parts if isinstance(p, Real)]
        return Real(join([p.value for p in reals]), join([p.error for p in reals]))
    wholes = [p for p in parts if isinstance(p, Whole)]
    errors = [np.zeros(p.low.shape) if p.error is None else p.error for p in wholes]
    return Whole(join([p.low for p in wholes]), join([p.high for p in wholes]), join(errors))
