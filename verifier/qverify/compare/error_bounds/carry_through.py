"""Carries two properties of bounded values through a node, which the bound function of its op does not handle: the
smaller error of qverify's own sides, and the elements that the reference lost (NUMERICS.md section 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from qverify.compare.error_bounds.bounded_values import TINY, BoundedValue, Real, Whole
from qverify.model_bin.graph import Graph, Node

SHARE = 2.0**-18
BoundFunction = Callable[[Node, list[BoundedValue | None], Graph], list[BoundedValue]]


def carry_through(
    bound_function: BoundFunction, node: Node, inputs: list[BoundedValue | None], graph: Graph
) -> list[BoundedValue]:
    """Returns the node's outputs by its bound function, with `ours` and `lost` of its inputs carried through. To this
    end, the function is called again with the errors of qverify's own sides, and with NaN in place of the lost
    elements."""
    outputs = bound_function(node, inputs, graph)
    if any(v is not None and v.ours is not None for v in inputs):
        with_own_errors = bound_function(node, [None if v is None else _use_own_bounds(v) for v in inputs], graph)
        outputs = [_add_own_bounds(m, o) for m, o in zip(outputs, with_own_errors, strict=True)]
    if any(v is not None and v.lost is not None for v in inputs):
        spoilt = bound_function(node, [_spoil(v) if isinstance(v, Real) else v for v in inputs], graph)
        outputs = [_mark_lost(m, s) for m, s in zip(outputs, spoilt, strict=True)]
    if any(isinstance(v, Whole) and v.lost is not None for v in inputs):
        outputs = [_lose_all(m) for m in outputs]
    mixed = any(isinstance(v, Real) and v.mixed for v in inputs)
    return [_limit_own_error(replace(m, mixed=mixed).as_float32()) if isinstance(m, Real) else m for m in outputs]


def _limit_own_error(output: Real) -> Real:
    """Returns the tensor with a limited error of qverify's own sides at the lost elements. These sides add in float64
    everywhere, so that their limit is 2^-18 of the largest exact value, however large the error of the reference is."""
    if output.lost is None:
        return output
    finite = np.abs(output.value[np.isfinite(output.value)])
    own_error = output.error if output.ours is None else output.ours
    most = SHARE * float(finite.max(initial=0.0)) + TINY
    return replace(
        output,
        ours=np.where(output.lost, np.fmin(own_error, most), own_error),
        mixed=output.mixed or output.ours is None,
    )


def _use_own_bounds(value: BoundedValue) -> BoundedValue:
    """Returns the value with the bounds of qverify's own sides."""
    if value.ours is None:
        return value
    return (
        replace(value, error=value.ours)
        if isinstance(value, Real)
        else replace(value, low=value.ours[0], high=value.ours[1])
    )


def _add_own_bounds(output: BoundedValue, own: BoundedValue) -> BoundedValue:
    if output.ours is not None:
        return output
    if isinstance(output, Real):
        assert isinstance(own, Real)
        return replace(output, ours=own.error if own.ours is None else own.ours)
    assert isinstance(own, Whole)
    return replace(output, ours=(own.low, own.high) if own.ours is None else own.ours)


def _spoil(value: Real) -> Real:
    """Returns the tensor with NaN at the lost elements, so that every result that depends on them is NaN."""
    if value.lost is None:
        return value
    return Real(*(np.where(value.lost, np.nan, v) for v in (value.value, value.error)))


def _lose_all(output: BoundedValue) -> BoundedValue:
    """Returns the output with all elements lost. It is for nodes that read lost integers, whose single elements are not
    followed."""
    shape = output.value.shape if isinstance(output, Real) else output.low.shape
    return replace(output, lost=np.ones(shape, bool))


def _mark_lost(output: BoundedValue, spoilt: BoundedValue) -> BoundedValue:
    """Returns the output, with the elements lost that depend on spoilt inputs, in addition to those that are lost
    already."""
    if isinstance(output, Real):
        assert isinstance(spoilt, Real)
        return output.mark_lost(np.isnan(spoilt.value) & ~np.isnan(output.value))
    assert isinstance(spoilt, Whole)
    if spoilt.error is None:
        return _lose_all(output)
    reached = np.broadcast_to(np.isnan(spoilt.error), output.low.shape)
    return replace(output, lost=reached if output.lost is None else reached | output.lost)
