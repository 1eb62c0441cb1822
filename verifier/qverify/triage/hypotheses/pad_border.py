"""Padding of a pad node is on the wrong side, of another mode, or wrong beside one edge: the edge element repeated or
skipped, wrapped around, or filled."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations

import numpy as np

from qverify.triage.altered_kernels.inner_node import finished, inner_case
from qverify.triage.altered_kernels.separable_copies import (
    OUTSIDE,
    SeparableCopy,
    border,
    copy_variant,
    mover,
    needed_copy,
    plural_of_axis,
)
from qverify.triage.case import Array, Case, element_bits, limits
from qverify.triage.hypotheses import FaultVariant

NAME = "pad-border"
OPS = ("pad",)
MODES = {
    "symmetric": "reflected with the edge element repeated (symmetric: position -1 reads element 0, the one after the last reads the last)",
    "reflect": "reflected without the edge element (position -1 reads element 1)",
    "edge": "a repetition of the edge element",
    "wrap": "wrapped around: it continues from the other end",
    "constant": "filled with the constant",
    "other edge": "a repetition of the opposite edge's element",
    "first": "a repetition of the first element on both sides",
    "unclamped": "read from the memory beside the row (not limited)",
    "reflect one too far": "reflected one element too far",
    "second": "a repetition of the element next to the edge",
}
ENDS = {
    "constant": "the constant",
    "edge": "a repetition of the edge element (edge padding)",
    "reflect": "a reflection without the edge element",
    "symmetric": "a reflection with the edge element repeated",
    "wrap": "the elements of the other end (wrapped around)",
    "unclamped": "what lies beside the row in memory",
    "other edge": "a repetition of the opposite edge's element",
    "second": "a repetition of the element next to the edge",
}
MODES |= {
    f"{first}, {second}": f"{before} before, and {after} after the end"
    for first, before in ENDS.items()
    for second, after in ENDS.items()
    if first != second
}


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = mover(case, "pad")
    if inner is None:
        return
    copy = needed_copy(case)
    own, begin = inner.last.words[0], inner.last.words[2:]
    padded = [k for k, out in enumerate(copy.shape) if out != copy.sizes[k]]
    for name, phrase in MODES.items():
        for axes in [padded, *(list(g) for n in (1, 2) if n < len(padded) for g in combinations(padded, n))]:
            of_axes = f" of the {' and '.join(plural_of_axis(copy.names[k]) for k in axes)}"
            text = f"pad: the padding{'' if axes == padded else of_axes} is {phrase}"
            cost = 1.0 + (", " in name) + (len(axes) == 2)
            yield from copy_variant(case, text, partial(_mode, mode=name, axes=axes), cost)
    sides: dict[str, list[int]] = {
        "all padding is at the end": [0 for _ in begin],
        "all padding is at the beginning": [out - n for out, n in zip(copy.shape, copy.sizes, strict=True)],
        "the padding of the two sides is exchanged": [
            out - n - b for out, n, b in zip(copy.shape, copy.sizes, begin, strict=True)
        ],
        "the padding is shared equally by the two sides": [
            (out - n) // 2 for out, n in zip(copy.shape, copy.sizes, strict=True)
        ],
        "the padding is shared equally by the two sides, the larger half first": [
            (out - n + 1) // 2 for out, n in zip(copy.shape, copy.sizes, strict=True)
        ],
    }
    for k in padded:
        for by in (-1, 1):
            sides[f"the data begin one {copy.names[k]} too {'late' if by > 0 else 'early'}"] = [
                b + by * (j == k) for j, b in enumerate(begin)
            ]
        for other in padded:
            if other != k:
                sides[
                    f"the padding before the {plural_of_axis(copy.names[k])} is as large as that before the {plural_of_axis(copy.names[other])}"
                ] = [begin[other] if j == k else b for j, b in enumerate(begin)]
    for first, second in combinations(padded, 2):
        exchanged = list(begin)
        exchanged[first], exchanged[second] = begin[second], begin[first]
        sides[
            f"the padding before the {plural_of_axis(copy.names[first])} and before the {plural_of_axis(copy.names[second])} is exchanged"
        ] = exchanged
    sides["the padding before each dimension is taken in reverse order of the dimensions"] = list(begin[::-1])
    for phrase, begins in sides.items():
        yield from copy_variant(case, f"pad: {phrase}", partial(_begins, begins=begins, mode=own), 2.0)
    if own == 0:
        yield from _values(case, inner)


def _mode(copy: SeparableCopy, case: Case, mode: str, axes: list[int]) -> SeparableCopy:
    begin = case.last.words[2:]
    return copy.with_places({k: border(np.arange(copy.shape[k]) - begin[k], copy.sizes[k], mode) for k in axes})


def _begins(copy: SeparableCopy, case: Case, begins: list[int], mode: int) -> SeparableCopy:
    name = ("constant", "reflect", "edge")[mode]
    return copy.with_places(
        {k: border(np.arange(n) - begins[k], copy.sizes[k], name) for k, n in enumerate(copy.shape)}
    )


def _values(case: Case, inner: Case) -> Iterator[FaultVariant]:
    """Yields constant pads of another value."""
    word, spec = inner.last.words[1], inner.spec
    values: dict[str, float]
    if spec.numpy_dtype.kind == "f":
        values = {"0": 0.0, "1": 1.0, "the word taken as an integer": float(word), "the lowest number": -np.inf}
    else:
        low, high = limits(spec) if spec.quantized else (0, 1)
        values = {"raw 0 instead of the pad value": 0, "the lowest value of the type": low, "the highest value": high}
        values["the pad value with its lowest byte only"] = word & 255
        values["the pad value with its lowest byte only, sign-extended"] = (word + 128) % 256 - 128
        values["the pad value minus 128"], values["the pad value plus 128"] = word - 128, word + 128
        if spec.zero_point:
            values["the zero point"] = spec.zero_point[0]
            values["the pad value with the zero point subtracted"] = word - spec.zero_point[0]
    for text, value in values.items():
        make = partial(_filled, value=value)
        if (element_bits(make(case)) == element_bits(case.recorded))[case.differing].all():
            yield FaultVariant(f"pad: the padding holds {text}", make, 2.0)


def _filled(case: Case, value: float) -> Array:
    inner = inner_case(case)
    assert inner is not None
    outside = (needed_copy(case).addresses() < OUTSIDE // 2).reshape(inner.spec.shape)
    filled = np.where(outside, np.array(value).astype(inner.spec.numpy_dtype), inner.healthy)
    return finished(case, filled).reshape(case.spec.shape)
