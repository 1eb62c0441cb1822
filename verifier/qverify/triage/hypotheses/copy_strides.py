"""A copy (transpose, slice, split, pad, gather, depth_to_space, resize_nearest) walks through its input with a wrong
stride on one or two axes: none at all, that of another axis, of the output's shape, or one not reset."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from math import prod

import numpy as np

from qverify.triage.altered_kernels.separable_copies import (
    MOVED_OPS,
    SeparableCopy,
    copy_variant,
    dense_strides,
    mover,
    needed_copy,
    plural_of_axis,
)
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant

NAME = "copy-strides"
OPS = MOVED_OPS
MAX_STRIDES = 48  # tried on an axis


def variants(case: Case) -> Iterator[FaultVariant]:
    inner_case_ = mover(case)
    if inner_case_ is None or inner_case_.last.op == "reshape":
        return
    copy = needed_copy(case)
    axes = [k for k, n in enumerate(copy.shape) if n > 1]
    for k in axes:
        for stride, phrase in _strides(case, copy, k).items():
            yield from copy_variant(case, _describe(copy, k, phrase), partial(_changed, strides={k: stride}), 3.0)
    inner = [k for k in axes[1:-1] if np.ptp(copy.places[k]) == copy.shape[k] - 1]
    for group in [inner, *([k] for k in inner if len(inner) > 1)] if inner else []:
        who = " and ".join(f"the {plural_of_axis(copy.names[k])}" for k in group)
        for left, phrase in (
            (0, "is not taken back"),
            (1, "is taken back one step too little"),
            (-1, "is taken back one step too far"),
        ):
            text = f"copy: the offset of {who} {phrase} when the next one before begins"
            yield from copy_variant(case, text, partial(_not_reset, axes=group, left=left), 2.5)
    for first, second in combinations(axes, 2):
        by_first, by_second = _strides(case, copy, first), _strides(case, copy, second)
        for a, phrase_a in by_first.items():
            for b, phrase_b in by_second.items():
                phrase = f"{_describe(copy, first, phrase_a)}, and {_describe(copy, second, phrase_b)[6:]}"
                yield from copy_variant(
                    case, phrase, partial(_changed, strides={first: a, second: b}), 8.0, beyond="nothing"
                )


def _describe(copy: SeparableCopy, axis: int, text: str) -> str:
    return f"copy: the {plural_of_axis(copy.names[axis])} are read from the input with {text}"


def _strides(case: Case, copy: SeparableCopy, axis: int) -> dict[int, str]:
    """Returns candidate strides of an axis with their texts, the likely ones first."""
    own, count = copy.strides[axis], copy.shape[axis]
    name = copy.names[axis]
    x, y = case.graph.spec(copy.source).shape, case.spec.shape
    texts = {0: f"stride 0: every {name} repeats the first one"}
    for other_axis, stride in enumerate(copy.strides):
        if other_axis != axis and copy.shape[other_axis] > 1:
            texts.setdefault(
                stride, f"stride {stride}, that of the {plural_of_axis(copy.names[other_axis])}, instead of {own}"
            )
    if len(y) == len(copy.shape):
        texts.setdefault(
            dense_strides(y)[axis], f"stride {dense_strides(y)[axis]}, that of the output, instead of {own}"
        )
    for k, stride in enumerate(dense_strides(copy.shape)):
        where = "as in the output" if k == axis else "of another axis of the output"
        texts.setdefault(stride, f"stride {stride} ({where}) instead of {own}")
    texts.setdefault(1, f"stride 1 (consecutive elements) instead of {own}")
    texts.setdefault(count, f"stride {count} (as many as there are) instead of {own}")
    for shape in (x, y):
        for start in range(len(shape)):
            for stop in range(start + 1, len(shape) + 1):
                stride = prod(shape[start:stop])
                texts.setdefault(stride, f"stride {stride} instead of {own}")
    for stride in (own * 2, own // 2, own + 1, own - 1, -own, *(-(-own // m) * m for m in (4, 8, 16, 32, 64))):
        texts.setdefault(stride, f"stride {stride} instead of {own}")
    texts.pop(own, None)
    return dict(list(texts.items())[:MAX_STRIDES])


def _changed(copy: SeparableCopy, case: Case, strides: dict[int, int]) -> SeparableCopy:
    return copy.with_strides(strides)


def _not_reset(copy: SeparableCopy, case: Case, axes: list[int], left: int) -> SeparableCopy:
    """Returns the copy in which the address is not reset completely when an outer index advances: of the steps that
    these axes added, `left` remain, or all if it is 0."""
    strides, places = list(copy.strides), list(copy.places)
    more = [0] * len(strides)
    for axis in axes:
        step = int(copy.places[axis][1] - copy.places[axis][0]) * copy.strides[axis] * (left or copy.shape[axis])
        for outer in range(axis):
            more[outer] += prod(copy.shape[outer + 1 : axis]) * step
    for outer, each in enumerate(more):
        places[outer] = places[outer] * strides[outer] + np.arange(copy.shape[outer]) * each
        strides[outer] = 1
    return copy.with_strides(dict(enumerate(strides))).with_places(dict(enumerate(places)))
