"""A gather reads other indices: negative ones are clamped or used as absolute values, or indices are shifted, cut to 8
or 16 bits, read with another element size, or applied to another axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod

import numpy as np

from qverify.triage.altered_kernels.separable_copies import (
    SeparableCopy,
    copy_variant,
    gather_index,
    mover,
    needed_copy,
)
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "gather-index"
OPS = ("gather",)
Way = Callable[[Array, int], Array]


def _wrapped(index: Array, size: int) -> Array:
    return np.where(index < 0, index + size, index)


def _of_group(index: Array, size: int, group: int, last: bool) -> Array:
    at = np.arange(len(index))
    first = at // group * group
    return _wrapped(index[np.minimum(first + group - 1, len(index) - 1) if last else first], size)


def _tail(index: Array, size: int, group: int, how: str) -> Array:
    at = np.arange(len(index))
    beyond = at >= len(index) // group * group
    return _wrapped(np.where(beyond, 0 if how == "0" else index[np.maximum(at - group, 0)], index), size)


WAYS: dict[str, Way] = {
    "negative indices are taken as 0": lambda i, n: np.maximum(i, 0),
    "negative indices are taken as the last one": lambda i, n: np.where(i < 0, n - 1, i),
    "negative indices are taken by absolute value": lambda i, n: np.abs(i),
    "negative indices are taken by absolute value, minus one": lambda i, n: np.where(i < 0, -i - 1, i),
    "negative indices count from the last element (one too early)": lambda i, n: np.where(i < 0, i + n - 1, i),
    "negative indices count one too far, limited to the last": lambda i, n: np.where(
        i < 0, np.minimum(i + n + 1, n - 1), i
    ),
    "negative indices are not counted from the end: they read before the tensor": lambda i, n: i,
    "negative indices are read as unsigned 8-bit numbers": lambda i, n: i % 256,
    "indices are read as signed 8-bit numbers": lambda i, n: _wrapped((i + 128) % 256 - 128, n),
    "indices keep their lowest 8 bits": lambda i, n: _wrapped(i, n) % 256,
    "indices keep their lowest 7 bits": lambda i, n: _wrapped(i, n) % 128,
    "indices are limited to 127": lambda i, n: np.minimum(_wrapped(i, n), 127),
    "indices are limited to 255": lambda i, n: np.minimum(_wrapped(i, n), 255),
    "indices are one too high, limited to the last": lambda i, n: np.minimum(_wrapped(i, n) + 1, n - 1),
    "indices are one too high, wrapping around": lambda i, n: (_wrapped(i, n) + 1) % n,
    "indices are one too low, limited to the first": lambda i, n: np.maximum(_wrapped(i, n) - 1, 0),
    "indices are one too low, wrapping around": lambda i, n: (_wrapped(i, n) - 1) % n,
    "negative indices are counted from the number of indices, not from the axis": lambda i, n: np.where(
        i < 0, i + len(i), i
    ),
    "negative indices are taken modulo the axis, toward zero (C's %), and read before the tensor": lambda i, n: np.fmod(
        i, n
    ),
    "indices are taken in pairs, exchanged": lambda i, n: _wrapped(i[np.minimum(np.arange(len(i)) ^ 1, len(i) - 1)], n),
    "the first half of the indices is used twice": lambda i, n: _wrapped(i[np.arange(len(i)) % max(len(i) // 2, 1)], n),
    "indices after a repeated one are those before it (each is taken once, in order)": lambda i, n: _wrapped(
        np.resize(i[np.sort(np.unique(i, return_index=True)[1])], len(i)), n
    ),
    "indices are halved": lambda i, n: _wrapped(i, n) // 2,
    "indices are doubled, limited to the last": lambda i, n: np.minimum(_wrapped(i, n) * 2, n - 1),
    "indices keep their lowest 4 bits": lambda i, n: _wrapped(i, n) % 16,
    "indices keep their lowest 2 bits": lambda i, n: _wrapped(i, n) % 4,
    "indices keep their lowest bit": lambda i, n: _wrapped(i, n) % 2,
    "indices are counted from 1 (one too low, the first of them before the tensor)": lambda i, n: _wrapped(i, n) - 1,
    **{f"of every {m} indices all are the first": partial(_of_group, group=m, last=False) for m in (2, 4, 8)},
    **{f"of every {m} indices all are the last": partial(_of_group, group=m, last=True) for m in (2, 4, 8)},
    **{f"the indices after the last whole {m} are 0": partial(_tail, group=m, how="0") for m in (2, 4, 8, 16)},
    **{
        f"the indices after the last whole {m} are those of the {m} before": partial(_tail, group=m, how="before")
        for m in (2, 4, 8, 16)
    },
    "the last index is never reached (limited to the one before it)": lambda i, n: np.minimum(_wrapped(i, n), n - 2),
    "the first index is used for all": lambda i, n: _wrapped(np.full_like(i, i[0]), n),
    "the last index is used for all": lambda i, n: _wrapped(np.full_like(i, i[-1]), n),
    "the indices are taken in reverse order": lambda i, n: _wrapped(i[::-1], n),
    "the indices are taken sorted": lambda i, n: np.sort(_wrapped(i, n)),
    "each index is that of the position before": lambda i, n: _wrapped(np.append(i[:1], i[:-1]), n),
    "each index is that of the position after": lambda i, n: _wrapped(np.append(i[1:], i[-1:]), n),
    "the indices are ignored: elements come in order": lambda i, n: np.arange(len(i)) % n,
    "the tensor is read from its end": lambda i, n: n - 1 - _wrapped(i, n),
    "64-bit indices are read as 32-bit ones (every second is the high word)": lambda i, n: _wrapped(_halves(i), n),
    "32-bit indices are read as 64-bit ones (every second is skipped)": lambda i, n: _wrapped(
        i[np.arange(len(i)) * 2 % len(i)], n
    ),
}


def _halves(index: Array) -> Array:
    return index.view("<i4")[: len(index)].astype(np.int64)


def variants(case: Case) -> Iterator[FaultVariant]:
    inner_case_ = mover(case, "gather")
    if inner_case_ is None:
        return
    copy = needed_copy(case)
    for phrase, way in WAYS.items():
        yield from copy_variant(case, f"gather: {phrase}", partial(_indices, way=way), 2.0)
    inner = copy.sizes[2]
    count = copy.shape[1]
    strides = {
        count * inner: "the number of indices instead of the size of the gathered axis",
        inner: "one slice instead of the whole gathered axis",
        0: "nothing: every outer block reads the first one",
    }
    for stride, phrase in strides.items():
        text = f"gather: from one outer block to the next the input advances by {phrase}"
        yield from copy_variant(case, text, partial(_stride, axis=0, stride=stride), 1.0)
    shape = inner_case_.graph.spec(copy.source).shape
    for axis in range(len(shape)):
        block = prod(shape[axis + 1 :])
        if block != inner:
            text = f"gather: an index advances by {block} elements, as on axis {axis}, instead of {inner}"
            yield from copy_variant(case, text, partial(_stride, axis=1, stride=block), 2.0)
    name = inner_case_.last.inputs[1] or ""
    index_shape = inner_case_.graph.spec(name).shape
    if len(index_shape) == 2 and min(index_shape) > 1:
        yield from copy_variant(
            case, "gather: the table of indices is read transposed", partial(_transposed, shape=index_shape), 2.0
        )


def _indices(copy: SeparableCopy, case: Case, way: Way) -> SeparableCopy:
    return copy.with_places({1: way(gather_index(case), copy.sizes[1])})


def _stride(copy: SeparableCopy, case: Case, axis: int, stride: int) -> SeparableCopy:
    return copy.with_strides({axis: stride})


def _transposed(copy: SeparableCopy, case: Case, shape: tuple[int, ...]) -> SeparableCopy:
    return copy.with_places({1: copy.places[1].reshape(shape[::-1]).T.reshape(-1)})
