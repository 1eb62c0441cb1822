"""Channels, rows or columns of a region's output that alone are wrong: everything outside them is what one choice of what is
rounded inside gives, and nearly everything in each of them lies on one side of that."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from qverify.compare.error_bounds.bounded_values import Array
from qverify.compare.probing.places import describe_places
from qverify.plural import count

FEW = 16  # different values that may lie on one side by chance
EACH = 4  # wrong elements for each index, at least: with one element an index, any set of elements would be a part
Mask = npt.NDArray[np.bool_]


def find_wrong_part(
    recorded: Array, made: Array, alternatives: Iterable[tuple[str, tuple[Array, Array]]]
) -> tuple[str, int] | None:
    """Returns where the elements are that the nearest alternative does not give, in words, and their number; None if
    they are not at least FEW different values, in at most half of the indices of one axis, of each of these on one side,
    and three quarters of what is not saturated there.

    Args:
        recorded: what the side gave, integers.
        made: what the other side computes.
        alternatives: names of alternatives, and the smallest and largest values that they allow.
    """
    found = [(name, recorded < ends[0], recorded > ends[1]) for name, ends in alternatives]
    if recorded.dtype.kind not in "iu" or not found:
        return None
    name, low, high = min(found, key=lambda one: int(np.count_nonzero(one[1] | one[2])))
    wrong = low | high
    if np.unique(made[wrong]).size < FEW or not any(_is_of_parts(low, high, recorded, a) for a in range(recorded.ndim)):
        return None
    number = int(np.count_nonzero(wrong))
    side = "on one side in each" if low.any() and high.any() else "too low" if low.any() else "too high"
    places = f"{count(number, 'element', f'is {side}', f'are {side}')} ({describe_places(wrong)})"
    return f"{places}, while every other is that of the region with {name}", number


def _is_of_parts(low: Mask, high: Mask, recorded: Array, axis: int) -> bool:
    """Returns whether at most half of the indices of an axis have wrong elements, each of them on one side and nearly all
    that it has."""
    limits = np.iinfo(recorded.dtype)
    free = (recorded > limits.min) & (recorded < limits.max)
    others = tuple(i for i in range(recorded.ndim) if i != axis)
    lower, higher = low.any(axis=others), high.any(axis=others)
    held = np.flatnonzero(lower | higher)
    inside, wrong = np.count_nonzero(free, axis=others)[held], np.count_nonzero((low | high) & free, axis=others)[held]
    if (lower & higher).any() or 2 * len(held) > recorded.shape[axis] or wrong.sum() < EACH * len(held):
        return False
    return bool((4 * wrong >= 3 * inside).all())
