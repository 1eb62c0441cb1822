"""Sums of products in which an operation is applied after every step, in the orders in which a kernel may add."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.triage.case import Case, UnitChange
from qverify.triage.linear_sums import WIDE_LIMITS

Array = npt.NDArray[Any]
MAX_STEPS = 400_000_000  # multiply-accumulates; more take too long in numpy
ORDERS = ("channels outermost", "channels innermost")


def steps(case: Case) -> int:
    """Returns the number of multiply-accumulates of the last node, a conv or fully_connected."""
    return int(np.prod(_weights(case).shape[1:])) * case.recorded.size


def largest_sum(case: Case) -> int:
    """Returns an upper bound of the absolute partial sums of products, in any order."""
    name = case.last.inputs[0] or ""
    x = case.inputs[name].astype(np.int64) - case.graph.spec(name).zero_point[0]
    weights = np.abs(_centred(case)).sum(1)
    return int(weights.max(initial=0) * np.abs(x).max(initial=0))


def largest_product(case: Case, zero: int) -> int:
    """Returns an upper bound of the absolute products if this zero point is not subtracted from the input."""
    name = case.last.inputs[0] or ""
    x = case.inputs[name].astype(np.int64) - case.graph.spec(name).zero_point[0] + zero
    return int(np.abs(_centred(case)).max(initial=0) * np.abs(x).max(initial=0))


def stepwise(case: Case, order: str, after: Callable[[Array], Array], start: Array) -> Array:
    """Returns int64 accumulators: the sum begins with `start`, and `after` is applied after every product. order: one
    of ORDERS."""
    acc = start.astype(np.int32)
    shape = _weights(case).shape
    along = [1, shape[0], *[1] * (acc.ndim - 2)]
    for taps, weight in _taps(case, order):
        acc += (taps * weight.reshape(along)).astype(np.int32)
        acc = after(acc)
    return acc.astype(np.int64)


def pairwise(case: Case, order: str, together: Callable[[Array], Array], start: Array, zero: int) -> Array:
    """Returns int64 accumulators: the sum begins with `start`, and `together` is applied to the sum of every two
    neighbouring products. zero: zero point that is part of the multiplied input and is corrected outside of the
    pairs."""
    acc, shape = start.astype(np.int64), _weights(case).shape
    along, pending = [1, shape[0], *[1] * (acc.ndim - 2)], None
    for taps, weight in _taps(case, order):
        product = (taps + zero) * weight.reshape(along)
        acc -= zero * weight.reshape(along)
        if pending is None:
            pending = product
        else:
            acc, pending = acc + together(pending + product), None
    return acc if pending is None else acc + together(pending)


def in_order(case: Case, order: str, summands: Array) -> Array:
    """Returns summands [elements, channels, kernel rows, kernel columns] as [elements, summands] in this order."""
    inner = order == "channels innermost" and _weights(case).ndim == 4
    moved = np.moveaxis(summands, 1, -1) if inner else summands
    return moved.reshape(len(summands), -1)


def _weights(case: Case) -> Array:
    return case.graph.constants[case.last.inputs[1] or ""]


def _centred(case: Case) -> Array:
    """Returns the weights [outputs, taps], int64, with their zero points subtracted."""
    w = _weights(case).astype(np.int64)
    zero = np.array(case.graph.spec(case.last.inputs[1] or "").zero_point)
    return (w - zero.reshape([-1, *[1] * (w.ndim - 1)])).reshape(len(w), -1)


def _taps(case: Case, order: str) -> Iterator[tuple[Array, Array]]:
    """Yields for every step the input elements that the tap reads, without the zero point, and the weight of each
    output channel."""
    w, flat = _weights(case), _centred(case)
    places = np.arange(flat.shape[1]).reshape(w.shape[1:])
    if order == "channels innermost" and w.ndim == 4:
        places = np.moveaxis(places, 0, -1)
    for k in places.reshape(-1):
        yield _tap(case, int(k), w), flat[:, k]


def _tap(case: Case, k: int, w: Array) -> Array:
    """Returns the input elements that a tap reads: the node's output with weight 1 at this tap and 0 elsewhere,
    computed for one output channel of each group and repeated for the others."""
    node, groups = case.last, case.last.words[10] if case.last.op == "conv" else 1
    one_tap = np.zeros((groups, *w.shape[1:]), np.int8)
    one_tap.reshape(groups, -1)[:, k] = 1
    name, y = node.inputs[1] or "", case.spec
    shape = (y.shape[0], groups, *y.shape[2:])
    change = UnitChange(
        constants={name: one_tap, node.inputs[-1] or "": np.array([[1], [0]], np.int32)},
        specs={
            name: replace(
                case.graph.spec(name),
                shape=one_tap.shape,
                aligned_shape=(),
                zero_point=(0,),
                dtype="int8",
            ),
            y.name: replace(y, dtype="int64", zero_point=(0,), shape=shape, aligned_shape=()),
        },
        nodes={
            node.name: replace(
                node, inputs=(node.inputs[0], name, None, node.inputs[3]), words=(*node.words[:-2], *WIDE_LIMITS)
            )
        },
        rounding="pow2-floor",
    )
    return case.recompute(change).repeat(len(w) // groups, 1)
