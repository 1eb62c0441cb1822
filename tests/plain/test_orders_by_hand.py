"""The orders in which elements may be stored, and what reading by one of them gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.compare.orders import MOST_AXES, Order, list_orders

Array = Any


def words(shape: tuple[int, ...]) -> list[str]:
    return [order.words for order in list_orders(np.arange(np.prod(shape)), shape)]


def test_axes_of_one_element_do_not_count_among_those_that_are_exchanged() -> None:
    assert MOST_AXES == 5
    assert any(w.startswith("its axes are") for w in words((1, 2, 1, 2, 1, 3)))
    assert any(w.startswith("its axes are") for w in words((2, 2, 2, 2, 2)))
    assert not any(w.startswith("its axes are") for w in words((2, 2, 2, 2, 2, 2)))


@pytest.mark.parametrize("shape", [(7,), (1, 7), (1, 7, 1, 1)])
def test_one_axis_is_reversed_and_nothing_else(shape: tuple[int, ...]) -> None:
    assert [w for w in words(shape) if "blocks" not in w] == ["it is reversed"]


@pytest.mark.parametrize(("shape", "axis"), [((2, 6, 3, 5), 1), ((2, 3, 5, 6), 3)])
def test_blocks_are_read_without_their_padding(shape: tuple[int, ...], axis: int) -> None:
    wanted = np.arange(np.prod(shape)).reshape(shape)
    first = np.moveaxis(wanted, axis, 1)
    stored = np.full((2, 8, 3, 5), -1)
    stored[:, :6] = first
    stored = stored.reshape(2, 2, 4, 3, 5).transpose(0, 1, 3, 4, 2)
    (order,) = [o for o in list_orders(stored, shape) if (o.axis, o.block) == (axis, 4)]
    assert np.array_equal(order.whole(shape), wanted)
    every = np.unravel_index(np.arange(wanted.size), shape)
    assert np.array_equal(order.take(every), wanted.reshape(-1))


def test_without_blocks_the_view_is_read_as_it_is() -> None:
    order = Order("", "", np.arange(6).reshape(2, 3))
    assert order.whole((2, 3)) is order.view
    assert order.take((np.array([1, 0]), np.array([2, 1]))).tolist() == [5, 1]
