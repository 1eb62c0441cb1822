"""Carries through a node what its page does not: the smaller error of qverify's own sides, and the elements that the
reference lost (NUMERICS.md section 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from qverify.compare.error_bounds.bounded_values import TINY, Held, Real, Whole
from qverify.model_bin.graph import Graph, Node

SHARE = 2.0**-18
BoundFunction = Callable[[Node, list[Held | None], Graph], list[Held]]


def carry_through(page: BoundFunction, node: Node, inputs: list[Held | None], graph: Graph) -> list[Held]:
    """Returns the node's outputs by its page, with `ours` and `lost` of its inputs carried through: the page runs again
    with the errors of qverify's own sides, and with the lost elements spoilt."""
    made = page(node, inputs, graph)
    if any(v is not None and v.ours is not None for v in inputs):
        own = page(node, [None if v is None else _own(v) for v in inputs], graph)
        made = [_with_own(m, o) for m, o in zip(made, own, strict=True)]
    if any(v is not None and v.lost is not None for v in inputs):
        spoilt = page(node, [_spoil(v) if isinstance(v, Real) else v for v in inputs], graph)
        made = [_with_lost(m, s) for m, s in zip(made, spoilt, strict=True)]
    if any(isinstance(v, Whole) and v.lost is not None for v in inputs):
        made = [_lose_all(m) for m in made]
    mixed = any(isinstance(v, Real) and v.mixed for v in inputs)
    return [_keep_own_small(replace(m, mixed=mixed).as_float32()) if isinstance(m, Real) else m for m in made]


def _keep_own_small(made: Real) -> Real:
    """Returns the tensor with an error of qverify's own sides where it is lost: these sides add in float64 there as
    elsewhere, so that their limit is 2^-18 of the largest exact value, however large the error of the reference is."""
    if made.lost is None:
        return made
    finite = np.abs(made.value[np.isfinite(made.value)])
    own = made.error if made.ours is None else made.ours
    most = SHARE * float(finite.max(initial=0.0)) + TINY
    return replace(made, ours=np.where(made.lost, np.fmin(own, most), own), mixed=made.mixed or made.ours is None)


def _own(value: Held) -> Held:
    """Returns the value as qverify's own sides have it."""
    if value.ours is None:
        return value
    return (
        replace(value, error=value.ours)
        if isinstance(value, Real)
        else replace(value, low=value.ours[0], high=value.ours[1])
    )


def _with_own(made: Held, own: Held) -> Held:
    if made.ours is not None:
        return made
    if isinstance(made, Real):
        assert isinstance(own, Real)
        return replace(made, ours=own.error if own.ours is None else own.ours)
    assert isinstance(own, Whole)
    return replace(made, ours=(own.low, own.high) if own.ours is None else own.ours)


def _spoil(value: Real) -> Real:
    """Returns the tensor with NaN where it is lost, so that whatever reads it shows it."""
    if value.lost is None:
        return value
    return Real(*(np.where(value.lost, np.nan, v) for v in (value.value, value.error)))


def _lose_all(made: Held) -> Held:
    """Returns the output of a node that reads lost integers, whose elements are not followed: all of it is lost."""
    shape = made.value.shape if isinstance(made, Real) else made.low.shape
    return replace(made, lost=np.ones(shape, bool))


def _with_lost(made: Held, spoilt: Held) -> Held:
    """Returns the output, lost where the spoilt inputs reach it and where its page or the inputs say so."""
    if isinstance(made, Real):
        assert isinstance(spoilt, Real)
        return made.losing(np.isnan(spoilt.value) & ~np.isnan(made.value))
    assert isinstance(spoilt, Whole)
    if spoilt.error is None:
        return _lose_all(made)
    reached = np.broadcast_to(np.isnan(spoilt.error), made.low.shape)
    return replace(made, lost=reached if made.lost is None else reached | made.lost)
