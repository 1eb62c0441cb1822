"""resize_linear computes in another arithmetic: weights of few bits, one axis after the other with a rounding between,
float16, or integers without a dequantization."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

import numpy as np

from qverify.triage.altered_kernels.bilinear_resize import (
    Samples,
    bilinear,
    by_axes,
    by_weights,
    corners,
    fits_a_plane,
    own_samples,
    resized_with,
    shaped,
    stored,
)
from qverify.triage.altered_kernels.narrow_steps import NARROW, TO_INTEGER, half_up, places
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "resize-linear-arithmetic"
OPS = ("resize_linear",)
MAX_CHANGES = 3  # at least one of weights, order and rounding is healthy
BITS = (8, 10, 11, 7, 12, 6, 5, 4, 14, 15, 16)
Round = Callable[[Array], Array]


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = bilinear(case)
    if inner is None:
        return
    for text, flat, cost in chain(_ways(inner), _yield_axis_weights()):
        if fits_a_plane(case, flat):
            yield FaultVariant(f"resize: {text}", partial(shaped, flat=flat), cost)


def _ways(case: Case) -> Iterator[tuple[str, Callable[[Case, int | None], Array], float]]:
    finals: dict[str, Round | None] = {"": None} | {f", the result {k}": r for k, r in TO_INTEGER.items()}
    domains = {"": False, ", in integer steps without a dequantization": True} if case.spec.quantized else {"": False}
    for weights, change in _weights().items():
        for domain, stepwise in domains.items():
            for order, along in _orders(stepwise).items():
                for final, rounded in finals.items() if case.spec.quantized else [("", None)]:
                    few = sum(map(bool, (weights, order, final)))
                    if few + stepwise > 0 and few < MAX_CHANGES:
                        text = f"{weights or 'the weights are exact'}{order}{domain}{final}"
                        make = partial(_compute_output, change=change, along=along, stepwise=stepwise, rounded=rounded)
                        yield text, make, 1.0 + 2.0 * few + stepwise


def _compute_output(
    case: Case,
    plane: int | None,
    change: Callable[[Samples], Samples] | None,
    along: Callable[..., Array],
    stepwise: bool,
    rounded: Round | None,
) -> Array:
    rows, columns = own_samples(case)
    if change is not None:
        rows, columns = change(rows), change(columns)
    return stored(case, along(corners(case, rows, columns, stepwise, plane=plane)), stepwise, rounded)


def _yield_axis_weights() -> Iterator[tuple[str, Callable[[Case, int | None], Array], float]]:
    """Yields changes to weights of few bits on one axis, or to two weights of a place that are rounded separately."""
    for k in BITS:
        for rule, rounded in (("rounded", half_up), ("truncated", np.floor)):
            narrow = partial(places, count=k, rounded=rounded)
            end = f"are {rule} to multiples of 1/{1 << k} ({k} bits)"
            for where, axes in (("rows", (0,)), ("columns", (1,)), ("both axes", (0, 1))):
                apart = partial(resized_with, axes=axes, change=partial(_apart, narrow=narrow))
                yield f"both weights of every place of the {where}, each by itself, {end}", apart, 4.0
                if len(axes) == 1:
                    one = partial(resized_with, axes=axes, change=partial(_fewer, narrow=narrow))
                    yield f"the weights of the {where} alone {end}", one, 4.0


def _apart(axis_samples: Samples, narrow: Round) -> Samples:
    return Samples(
        axis_samples.first,
        axis_samples.second,
        narrow(axis_samples.share).astype(np.float32),
        narrow(axis_samples.rest).astype(np.float32),
    )


def _orders(stepwise: bool) -> dict[str, Callable[..., Array]]:
    orders: dict[str, Callable[..., Array]] = {
        "": by_weights,
        ", columns are interpolated first, then rows": by_axes,
        ", rows are interpolated first, then columns": partial(by_axes, vertical=True),
        ", columns first, then rows, as a + (b - a) * t": partial(by_axes, lerp=True),
        ", rows first, then columns, as a + (b - a) * t": partial(by_axes, vertical=True, lerp=True),
    }
    for name, narrow in NARROW.items():
        orders[f", the result along columns is kept in {name} before rows"] = partial(by_axes, between=narrow)
        orders[f", the result along rows is kept in {name} before columns"] = partial(
            by_axes, between=narrow, vertical=True
        )
        orders[f", the product of the two weights is rounded to {name}"] = partial(by_weights, rounded=narrow)
    if stepwise:
        for name, whole in TO_INTEGER.items():
            orders[f", the result along columns is {name} before rows"] = partial(by_axes, between=whole)
            orders[f", the result along rows is {name} before columns"] = partial(by_axes, between=whole, vertical=True)
        for k in (4, 8):
            orders[f", the result along columns keeps {k} binary places before rows"] = partial(
                by_axes, between=partial(places, count=k)
            )
    for k in (8, 6, 10, 4, 5, 7):
        orders[f", the product of the two weights is rounded to {k} binary places"] = partial(
            by_weights, rounded=partial(places, count=k)
        )
    return orders


def _weights() -> dict[str, Callable[[Samples], Samples] | None]:
    changes: dict[str, Callable[[Samples], Samples] | None] = {"": None}
    for k in BITS:
        for rule, rounded in (("rounded", half_up), ("truncated", np.floor)):
            changes[f"the weights of both axes are {rule} to multiples of 1/{1 << k} ({k} bits)"] = partial(
                _fewer, narrow=partial(places, count=k, rounded=rounded)
            )
    for name, narrow in NARROW.items():
        changes[f"the weights of both axes are {name}"] = partial(_fewer, narrow=narrow)
    return changes


def _fewer(axis_samples: Samples, narrow: Round) -> Samples:
    share = narrow(axis_samples.share).astype(np.float32)
    return Samples(axis_samples.first, axis_samples.second, share, np.float32(1) - share)
