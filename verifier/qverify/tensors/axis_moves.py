"""Moves of axes between the two usual orders, and whether a shape shows them."""

from __future__ import annotations

from typing import Any

import numpy as np

ORDERS = {"from NHWC to NCHW": (0, 3, 1, 2), "from NCHW to NHWC": (0, 2, 3, 1), "from NWC to NCW": (0, 2, 1)}
Array = np.ndarray[Any, np.dtype[Any]]


def find_move(given: tuple[int, ...], wanted: tuple[int, ...], throughout: str = "") -> str:
    """Returns the key in ORDERS of the move of axes that gives the wanted shape, "" if the shape is that, or none does.
    throughout: the move of a shape that it does not change."""
    fits = [move for move, order in ORDERS.items() if len(given) == len(order) and _moved(given, order) == wanted]
    return throughout if given == wanted and throughout in fits else fits[0] if fits and given != wanted else ""


def _moved(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in order)


def move_axes(value: Array, move: str) -> Array:
    """Returns the values with their axes moved; as they are if `move` is ""."""
    return np.ascontiguousarray(value.transpose(ORDERS[move])) if move else value


def shows_order(move: str, wanted: tuple[int, ...]) -> bool:
    """Returns whether the shape of a tensor shows that it was not moved so: its sizes and the order of its elements would be
    others."""
    order = ORDERS[move]
    before = _moved(wanted, tuple(order.index(axis) for axis in range(len(order))))
    axes = [axis for axis in order if before[axis] > 1]
    return before != wanted and axes != sorted(axes)
