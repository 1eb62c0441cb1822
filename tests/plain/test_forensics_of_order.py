"""Forensics of elements in another order: dealt apart, interleaved, tiles turned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.plain.forensic_units import Conv, families, generator

Array = Any


def _dealt(y: Array, ways: int) -> Array:
    flat = y.reshape(-1)
    return np.concatenate([flat[k::ways] for k in range(ways)]).reshape(y.shape)


def _interleaved(y: Array, ways: int) -> Array:
    back = np.empty_like(y)
    back.reshape(-1)[_dealt(np.arange(y.size), ways)] = y.reshape(-1)
    return back


def _turned_tiles(y: Array, size: int, whole: bool = False) -> Array:
    """At the edges, as much as is square, or nothing."""
    turned = y.copy()
    for i in range(0, y.shape[2], size):
        for j in range(0, y.shape[3], size):
            side = min(size, y.shape[2] - i, y.shape[3] - j)
            tile = np.s_[:, :, i : i + side, j : j + side]
            if side == size or not whole:
                turned[tile] = y[tile].swapaxes(2, 3)
    return turned


FAULTS: dict[str, tuple[str, Callable[[Conv], Array]]] = {
    "even elements first": ("interleaving", lambda c: _dealt(c.out(), 2)),
    "interleaved three ways": ("interleaving", lambda c: _interleaved(c.out(), 3)),
    "rows dealt two ways": ("interleaving", lambda c: c.out()[..., [*range(0, 11, 2), *range(1, 11, 2)]]),
    "the input's even elements first": ("interleaving", lambda c: c.out(c.acc(x=_dealt(c.x, 2)))),
    "tiles of 4x4 turned": ("tiles", lambda c: _turned_tiles(c.out(), 4)),
    "whole tiles of 8x8 turned": ("tiles", lambda c: _turned_tiles(c.out(), 8, True)),
    "the input's tiles of 8x8 turned": ("tiles", lambda c: c.out(c.acc(x=_turned_tiles(c.x, 8)))),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(name: str):
    family, plant = FAULTS[name]
    c = Conv(low=-60, high=90)
    found = c.explained(plant(c))
    (group,) = found.exact
    assert group[0].family == family, (found.exact, found.partial)
    same = {"output-places"} if name == "rows dealt two ways" else set()  # "the even ones, then the odd ones"
    assert families(found) == [{family} | same]


@pytest.mark.parametrize("seed", range(3))
def test_an_order_of_no_kind_is_unexplained(seed: int):
    c, rng = Conv(), generator(seed)
    rows = np.take_along_axis(c.out(), rng.permuted(np.tile(np.arange(11), (1, 10, 9, 1)), axis=3), 3)
    tiles = c.out()
    for i, j in ((0, 0), (4, 0), (0, 4), (4, 4)):
        tiles[..., i : i + 4, j : j + 4] = np.rot90(tiles[..., i : i + 4, j : j + 4], int(rng.integers(1, 4)), (2, 3))
    for recorded in (rows, tiles):
        found = c.explained(recorded)
        assert found.unexplained and not found.general, found.exact
