"""Describes how two tensors differ: in how many elements, by how many LSB, in which direction, and where."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.tensors.spec import TensorSpec
from qverify.triage.case import element_bits

Array = npt.NDArray[Any]
AXES = {"NCHW": "NCHW", "NHWC": "NHWC", "NCW": "NCW", "NC": "NC"}
MAX_STEPS, MAX_WHOLE = 16, 16  # different steps, and indices of an axis, that are listed
MAX_ROWS, MAX_COLUMNS = 12, 48  # of the drawing


@dataclass(frozen=True, slots=True)
class Axis:
    """The places along one axis at which elements differ.

    Attributes:
        first, last: the first and the last index with a difference.
        touched: number of indices with a difference.
        whole: indices at which every element differs, at most 16.
        period: distance of the touched indices, or 0 if it is not the same everywhere.
    """

    name: str
    size: int
    first: int
    last: int
    touched: int
    whole: tuple[int, ...]
    period: int


@dataclass(frozen=True, slots=True)
class DifferenceDescription:
    """The difference between two tensors.

    Attributes:
        up: share of the differing elements that are larger on the board.
        steps: number of elements by recorded minus computed in LSB (integers only), the commonest first, at most 16.
        drawing: share of differing elements, 0..1, over the last two axes (rows and columns, at most 12 x 48 cells),
            averaged over the other axes.
        not_finite: number of differing elements that are not finite on the board.
    """

    dtype: str
    shape: tuple[int, ...]
    elements: int
    differing: int
    max_abs: float
    up: float
    steps: dict[int, int]
    axes: tuple[Axis, ...]
    drawing: tuple[tuple[float, ...], ...]
    not_finite: int


def describe_difference(computed: Array, recorded: Array, spec: TensorSpec) -> DifferenceDescription:
    """Describes how `recorded` (from the board) differs from `computed` (on the host), both in the shape and dtype of
    the spec."""
    apart = (element_bits(computed) != element_bits(recorded)).reshape(spec.shape)
    places = np.flatnonzero(apart)
    ours, theirs = (v.reshape(-1)[places].astype(np.float64) for v in (computed, recorded))
    steps: dict[int, int] = {}
    if computed.dtype.kind in "iu":
        counts = Counter((theirs - ours).tolist())
        steps = {int(step): number for step, number in counts.most_common(MAX_STEPS)}
    with np.errstate(all="ignore"):
        distance = np.abs(theirs - ours)
    finite = distance[np.isfinite(distance)]
    names = AXES.get(spec.layout, "") if len(spec.layout) == len(spec.shape) else _names(len(spec.shape))
    return DifferenceDescription(
        spec.dtype,
        spec.shape,
        spec.elements,
        int(places.size),
        float(finite.max(initial=0.0)),
        float((theirs > ours).mean()) if places.size else 0.0,
        steps,
        tuple(_axis(apart, i, names[i]) for i in range(apart.ndim)) if places.size else (),
        drawing(apart) if places.size else (),
        int((~np.isfinite(theirs)).sum()),
    )


def _names(rank: int) -> str:
    return {1: "W", 2: "NC", 3: "NCW", 4: "NCHW"}.get(rank, "abcdefgh"[:rank])


def _axis(apart: Array, axis: int, name: str) -> Axis:
    others = tuple(i for i in range(apart.ndim) if i != axis)
    touched = np.flatnonzero(apart.any(others))
    whole = np.flatnonzero(apart.all(others))
    gaps = np.diff(touched)
    regular = len(gaps) > 1 and len({*gaps.tolist()}) == 1 and gaps.min() > 1
    return Axis(
        name,
        apart.shape[axis],
        int(touched[0]),
        int(touched[-1]),
        len(touched),
        tuple(int(i) for i in whole[:MAX_WHOLE]),
        int(gaps.min()) if regular else 0,
    )


def drawing(apart: Array) -> tuple[tuple[float, ...], ...]:
    """Returns rows x columns of shares, 0..1, over the last two axes; if these have only one element, over all elements
    in one row."""
    flat = apart.reshape(-1, *(1, 1, *apart.shape)[-2:])
    if flat.shape[1] * flat.shape[2] == 1:
        flat = flat.reshape(1, 1, -1)
    share = flat.mean(0)
    rows, columns = (
        np.array_split(np.arange(n), min(n, most)) for n, most in zip(share.shape, (MAX_ROWS, MAX_COLUMNS), strict=True)
    )
    return tuple(tuple(float(share[np.ix_(r, c)].mean()) for c in columns) for r in rows)
