"""A slice reads other elements along one or more dims: without its step or start, from the other end, or with those of
another dim."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.separable_copies import (
    SeparableCopy,
    copy_variant,
    mover,
    needed_copy,
    plural_of_axis,
)
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "slice-steps"
OPS = ("slice",)
Dims = tuple[int, ...]


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = mover(case, "slice")
    if inner is None:
        return
    copy = needed_copy(case)
    rank = len(copy.shape)
    for rarer, (text, dims) in enumerate(_dims(rank).items()):
        for rare, phrase in enumerate(_places(0, 1, 1, 1)):
            way = partial(_changed, way=phrase, dims=dims)
            yield from copy_variant(case, f"slice: {text}, {phrase}", way, 1.0 + 0.1 * rarer + 0.05 * rare)
    for k in range(rank):
        for other in range(rank):
            for start, step in ((True, False), (False, True), (True, True)) if other != k else ():
                what = " and ".join(w for w, on in (("start", start), ("step", step)) if on)
                phrase = f"slice: the {plural_of_axis(copy.names[k])} are taken with the {what} of the {plural_of_axis(copy.names[other])}"
                yield from copy_variant(
                    case, phrase, partial(_of_other, axis=k, other=other, start=start, step=step), 3.0
                )
        for by in (-2, -1, 1, 2):
            phrase = f"slice: the start of the {plural_of_axis(copy.names[k])} is {abs(by)} too {'far' if by > 0 else 'early'}"
            yield from copy_variant(case, phrase, partial(_off, axis=k, by=by), 4.0)


def _dims(rank: int) -> dict[str, Dims]:
    """Returns texts for sets of dims, the usual groups first."""
    every = tuple(range(rank))
    names: dict[Dims, str] = {}
    for text, dims in (
        ("on all dimensions", every),
        ("on all dimensions before the last two", every[:-2]),
        ("on all dimensions but the last", every[:-1]),
        ("on the last two dimensions", every[-2:]),
        ("on all dimensions but the first", every[1:]),
        ("on the first two dimensions", every[:2]),
        *((f"on dimension {k} (counted from 0)", (k,)) for k in every),
    ):
        if dims:
            names.setdefault(dims, text)
    return {text: dims for dims, text in names.items()}


def _places(start: int, step: int, count: int, size: int) -> dict[str, Array]:
    """Returns the places that wrong slices read, by text."""
    i = np.arange(count)
    end = start + (count - 1) * step
    return {
        "consecutive elements are taken from the start, as if the step were 1": start + i,
        "the step is ignored but for its sign": start + i * (1 if step > 0 else -1),
        "a slice with a negative step begins at the last element": (size - 1 if step < 0 else start) + i * step,
        "the start is ignored (taken as 0)": i * step if step > 0 else size - 1 + i * step,
        "the start and the step are ignored": i,
        "the direction of the step is ignored": start + i * abs(step),
        "a negative step goes forward over the same elements": np.sort(start + i * step),
        "the order is reversed": end - i * step,
        "the step is taken negative": start - i * step,
        "a slice with a negative step begins at element 0, forward": i * -step if step < 0 else start + i * step,
        "a slice with a negative step begins at the element before its start": start - (step < 0) + i * step,
        "it ends at the last element of the input": size - 1 - (count - 1) * abs(step) + i * abs(step),
        "the start is counted from the end": size - 1 - start + i * step,
        "the start is multiplied by the step": start * step + i * step,
        "the start is divided by the step": start // step + i * step if step else i,
        "the step is doubled": start + i * step * 2,
        "the step is one more": start + i * (step + 1),
        "the step is one less": start + i * (step - 1),
        "the first element is repeated": start + 0 * i,
    }


def _changed(copy: SeparableCopy, case: Case, way: str, dims: Dims) -> SeparableCopy:
    rank, words = len(copy.shape), case.last.words
    return copy.with_places({k: _places(words[k], words[rank + k], copy.shape[k], copy.sizes[k])[way] for k in dims})


def _of_other(copy: SeparableCopy, case: Case, axis: int, other: int, start: bool, step: bool) -> SeparableCopy:
    rank, words = len(copy.shape), case.last.words
    at, by = words[other if start else axis], words[rank + (other if step else axis)]
    return copy.with_places({axis: at + np.arange(copy.shape[axis]) * by})


def _off(copy: SeparableCopy, case: Case, axis: int, by: int) -> SeparableCopy:
    return copy.with_places({axis: copy.places[axis] + by})
