"""Parts of an output in which alone a kernel may be wrong: its last channels, rows or columns, the tail beyond the last
whole vector, every second one, later batch items, positions at the border, or negative values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations, islice
from math import log2

import numpy as np

from qverify import ops
from qverify.plural import count
from qverify.triage.case import Array, Case, bits
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import linear
from qverify.triage.pre_rounding import pre_rounding

FAMILY, PART = 8.0, 4.0  # bits: of a fault among those of its family, of a part instead of the whole
LANES = (2, 3, 4, 8, 16, 32, 64)
AXES = {
    4: ("batch item", "channel", "row", "column"),
    3: ("batch item", "channel", "column"),
    2: ("batch item", "channel"),
}
MOST, MOST_PAIRED, MOST_SINGLE = 6, 60, 256  # parts that fit one fault, are paired; indices tried one by one
Mask = Callable[[Case], Array]


@dataclass(frozen=True, slots=True)
class OutputPart:
    """words: the part, as "in the last row". mask: its elements, bool, broadcastable to the output's shape. bits: log2
    of the number of such parts it was chosen from."""

    words: str
    mask: Mask
    bits: float


def restrict(case: Case, variant: FaultVariant, output: Array, differing: Array) -> list[FaultVariant]:
    """Returns the variant in those parts of the output that leave it right and give every recorded byte. output: of the
    variant. differing: flat bool, where the recorded bytes are not the healthy ones; the variant gives all of these."""
    changes = (bits(output) != bits(case.made)).reshape(output.shape)
    inside = differing.reshape(output.shape)
    fitting = islice(_fitting(case, inside, changes & ~inside), MOST)
    return [
        FaultVariant(
            f"{variant.said}, {p.words}", partial(_in_part, of=variant, part=p), _cost(variant) + p.bits, part=p.words
        )
        for p in fitting
    ]


def _cost(variant: FaultVariant) -> float:
    """Returns the bits of choosing the fault itself and of not taking it for the whole output."""
    return (variant.bits or FAMILY) + PART


def _in_part(case: Case, of: FaultVariant, part: OutputPart) -> Array:
    return np.where(part.mask(case), of.make(case), case.made)


def _fitting(case: Case, inside: Array, outside: Array) -> Iterator[OutputPart]:
    """Yields the parts that contain every element of inside and none of outside, the simple ones first."""
    simple = case.once("parts", lambda: list(_parts(case)))
    masks = case.once("part masks", lambda: [np.broadcast_to(p.mask(case), inside.shape) for p in simple])
    wanted, unwanted = np.nonzero(inside), np.nonzero(outside)
    covering = [(p, m[unwanted]) for p, m in zip(simple, masks, strict=True) if m[wanted].all()]
    fitting = [p for p, spoiled in covering if not spoiled.any()]
    yield from fitting
    if not fitting:
        clear = [(p, m[wanted]) for p, m in zip(simple, masks, strict=True) if not m[unwanted].any()]
        yield from _both(covering)
        yield from _either([(p, taken) for p, taken in clear if taken.any()])


def _both(covering: list[tuple[OutputPart, Array]]) -> Iterator[OutputPart]:
    """Yields what two parts have in common. covering: parts with the unwanted elements that they contain."""
    for (a, first), (b, second) in combinations(covering[:MOST_PAIRED], 2):
        if not (first & second).any():
            yield OutputPart(f"{a.words} and {b.words}", partial(_and, a=a, b=b), a.bits + b.bits)


def _either(clear: list[tuple[OutputPart, Array]]) -> Iterator[OutputPart]:
    """Yields two parts together. clear: parts without unwanted elements, with the wanted ones that they contain."""
    for (a, first), (b, second) in combinations(clear[:MOST_PAIRED], 2):
        if (first | second).all():
            yield OutputPart(f"{a.words} or {b.words}", partial(_or, a=a, b=b), a.bits + b.bits)


def _and(case: Case, a: OutputPart, b: OutputPart) -> Array:
    return np.asarray(a.mask(case) & b.mask(case))


def _or(case: Case, a: OutputPart, b: OutputPart) -> Array:
    return np.asarray(a.mask(case) | b.mask(case))


def _parts(case: Case) -> Iterator[OutputPart]:
    shape = case.spec.shape
    names = AXES.get(len(shape), tuple(f"index of axis {i}" for i in range(len(shape))))
    for axis, (name, size) in enumerate(zip(names, shape, strict=True)):
        if size > 1:
            yield from _along(axis, name, size, len(shape))
    if len(shape) == 4 and shape[2] * shape[3] > 1:
        yield from _of_pixels(shape)
    yield from _flat(shape)
    yield from _border(case)
    yield from _by_value(case)


def _fixed(mask: Array) -> Mask:
    """Returns the mask of a part that does not follow the inputs."""
    return lambda _: mask


def _along(axis: int, name: str, size: int, rank: int) -> Iterator[OutputPart]:
    i = np.arange(size)
    for words, chosen, bits_of_choice in (*_ends(name, i), *_groups(name, i), *_cuts(name, i)):
        shape = [-1 if a == axis else 1 for a in range(rank)]
        yield OutputPart(words, _fixed(chosen.reshape(shape)), bits_of_choice)


def _ends(name: str, i: Array) -> Iterator[tuple[str, Array, float]]:
    last = len(i) - 1
    yield f"in the last {name}", i == last, 3.0
    yield f"in the first {name}", i == 0, 3.0
    yield f"in every {name} but the first", i > 0, 3.0
    yield f"in every {name} but the last", i < last, 3.0


def _groups(name: str, i: Array) -> Iterator[tuple[str, Array, float]]:
    """Yields what vectors of several lanes get wrong: the tail, all but the tail, one lane, or half of them."""
    size = len(i)
    for lanes in (n for n in LANES if n < size):
        if tail := size % lanes:
            yield f"in the last {count(tail, name)} (beyond whole groups of {lanes})", i >= size - tail, 3.0
            yield f"in whole groups of {lanes} {name}s", i < size - tail, 3.0
        for r in range(lanes) if lanes <= 8 else (0, lanes - 1):
            yield f"in every {_nth(lanes)} {name}, from {name} {r} on", i % lanes == r, log2(lanes) + 3
            if lanes > 2:
                words = f"in all {name}s but every {_nth(lanes)}, from {name} {r} on"
                yield words, i % lanes != r, log2(lanes) + 3
        if lanes >= 4:
            yield f"in the upper half of every {lanes} {name}s", i % lanes >= lanes // 2, 4.0


def _cuts(name: str, i: Array) -> Iterator[tuple[str, Array, float]]:
    size = len(i)
    for k in range(2, size - 1):
        yield f"from {name} {k} on", i >= k, log2(size)
        yield f"in {name}s 0 to {k - 1}", i < k, log2(size)
    for k in range(1, size - 1) if size <= MOST_SINGLE else ():
        yield f"in {name} {k}", i == k, log2(size)


def _nth(n: int) -> str:
    return {2: "second", 3: "third"}.get(n, f"{n}th")


def _of_pixels(shape: tuple[int, ...]) -> Iterator[OutputPart]:
    """Yields tails of a plane's pixels taken as one line."""
    yield from _tails("pixel", np.arange(shape[2] * shape[3]).reshape(1, 1, shape[2], shape[3]))


def _flat(shape: tuple[int, ...]) -> Iterator[OutputPart]:
    places = np.arange(int(np.prod(shape))).reshape(shape)
    yield OutputPart("in the last element", _fixed(places == places.size - 1), 3.0)
    yield from _tails("element", places)


def _tails(name: str, places: Array) -> Iterator[OutputPart]:
    for lanes in (4, 8, 16, 32, 64):
        if tail := places.size % lanes:
            words = f"in the last {count(tail, name)} (beyond whole groups of {lanes})"
            yield OutputPart(words, _fixed(places >= places.size - tail), 3.0)


def _border(case: Case) -> Iterator[OutputPart]:
    """Yields the positions whose window reaches into the padding, on any side and on each."""
    words = ops.words(case.last)
    source = case.last.inputs[0] or ""
    if (
        len(case.spec.shape) != 4
        or not {"pad_top", "stride_h", "kernel_h"} <= words.keys()
        or source not in case.inputs
    ):
        return
    if case.last.op == "conv_transpose":
        return
    shape = case.graph.spec(source).shape
    sides = dict[str, Array]()
    for axis, side, (before, after) in ((2, "h", ("top", "bottom")), (3, "w", ("left", "right"))):
        start = np.arange(case.spec.shape[axis]) * words[f"stride_{side}"] - words[f"pad_{before}"]
        end = start + (words[f"kernel_{side}"] - 1) * words.get(f"dilation_{side}", 1)
        place = [-1 if i == axis else 1 for i in range(4)]
        sides[before], sides[after] = (start < 0).reshape(place), (end >= shape[axis]).reshape(place)
    for name, mask in sides.items():
        if mask.any():
            yield OutputPart(f"where the window reaches into the padding at the {name}", _fixed(mask), 4.0)
    every = sides["top"] | sides["bottom"] | sides["left"] | sides["right"]
    if every.any():
        yield OutputPart("where the window reaches into the padding", _fixed(every), 3.0)
        yield OutputPart("where the window lies inside the input", _fixed(~every), 3.0)


def _by_value(case: Case) -> Iterator[OutputPart]:
    """Yields parts told by the healthy value, which follow the inputs."""
    if linear(case) is not None:
        yield OutputPart("where the accumulator is negative", lambda c: _accumulator(c) < 0, 3.0)
        yield OutputPart("where the accumulator is positive", lambda c: _accumulator(c) > 0, 3.0)
    elif pre_rounding(case) is not None:
        yield OutputPart("where the value before rounding is negative", lambda c: _steps(c) < 0, 3.0)
        yield OutputPart("where the value before rounding is positive", lambda c: _steps(c) > 0, 3.0)
    if case.spec.quantized and len(case.spec.zero_point) == 1:
        zero = case.spec.zero_point[0]
        yield OutputPart("where the output lies below its zero point", lambda c: c.made < zero, 3.0)
        yield OutputPart("where the output lies above its zero point", lambda c: c.made > zero, 3.0)


def _accumulator(case: Case) -> Array:
    of = linear(case)
    assert of is not None
    return of.acc


def _steps(case: Case) -> Array:
    value = pre_rounding(case)
    assert value is not None
    return value.steps
