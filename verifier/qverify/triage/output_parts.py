"""Parts of an output to which a fault of a kernel may be confined: the last channels, rows or columns, the tail beyond
the last whole vector, every second one, later batch items, positions at the border, or negative values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations, islice

import numpy as np

from qverify import ops
from qverify.arithmetic.functions64 import log2_of
from qverify.plural import count
from qverify.triage.case import Array, Case, element_bits
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import linear, required_linear
from qverify.triage.pre_rounding import pre_rounding

LANES = (2, 3, 4, 8, 16, 32, 64)
AXES = {
    4: ("batch item", "channel", "row", "column"),
    3: ("batch item", "channel", "column"),
    2: ("batch item", "channel"),
}
MAX_PARTS = 6  # that are returned for one fault
MAX_PAIRED = 60  # parts that are tried in pairs
SAMPLE_SIZE = 500  # elements that are compared before all elements are
MATRIX = ("batch item", "row", "column")
Mask = Callable[[Case], Array]


@dataclass(frozen=True, slots=True)
class OutputPart:
    """A part of an output.

    Attributes:
        words: the part in words, for example "in the last row".
        mask: returns its elements as a bool array that broadcasts to the output's shape.
        bits: log2 of the number of such parts from which it was chosen.
    """

    words: str
    mask: Mask
    bits: float


def restrict(case: Case, variant: FaultVariant, output: Array, differing: Array) -> list[FaultVariant]:
    """Returns the variant confined to those parts of the output with which it gives every recorded byte.

    Args:
        output: the output of the variant.
        differing: flat mask of the elements at which the recorded bytes are not the healthy ones. The variant gives all
            of these.
    """
    changes = (element_bits(output) != element_bits(case.healthy)).reshape(output.shape)
    inside = differing.reshape(output.shape)
    fitting = islice(_find_fitting(case, inside, changes & ~inside), MAX_PARTS)
    return [
        FaultVariant(
            f"{variant.text}, {p.words}",
            partial(_compute_in_part, variant=variant, part=p),
            variant.bits,
            part=p.words,
            part_bits=p.bits,
        )
        for p in fitting
    ]


def _compute_in_part(case: Case, variant: FaultVariant, part: OutputPart) -> Array:
    """Returns the output with the fault in this part only. The whole output of the last fault is cached, because
    several of its parts are computed in a row."""
    cached: tuple[FaultVariant, Array] | None = case.cache.get("output of parts")
    if cached is None or cached[0] is not variant:
        cached = case.cache["output of parts"] = (variant, variant.make(case))
    return np.where(part.mask(case), cached[1], case.healthy)


def _find_fitting(case: Case, inside: Array, outside: Array) -> Iterator[OutputPart]:
    """Yields the parts that contain every element of `inside` and none of `outside`, the simple ones first. There are
    hundreds of parts and thousands of pairs, so a few elements select those that are compared completely."""
    parts = case.compute_once("parts", lambda: _add_choice_bits(list(_all_parts(case))))
    within, without = _contains_sample_once(case, parts, inside), _contains(case, parts, _sample(outside))
    covering, clear = within.all(1), ~without.any(1)
    single = [parts[i] for i in np.flatnonzero(covering & clear)]
    is_single_enough = False
    for part in (p for p in single if _separates(case, p, inside, outside)):
        is_single_enough = True
        yield part
    if not is_single_enough:
        intersections = _pairs(np.flatnonzero(covering), lambda i, j: not (without[i] & without[j]).any())
        unions = _pairs(np.flatnonzero(clear & within.any(1)), lambda i, j: bool((within[i] | within[j]).all()))
        pairs = chain(
            (_join(parts[i], parts[j], "and") for i, j in intersections),
            (_join(parts[i], parts[j], "or") for i, j in unions),
        )
        yield from (p for p in pairs if _separates(case, p, inside, outside))


def _sample(where: Array) -> Array:
    """Returns flat indices of some of the elements that are set, evenly distributed among them."""
    places = np.flatnonzero(where)
    return places[:: max(1, len(places) // SAMPLE_SIZE)]


def _contains_sample_once(case: Case, parts: list[OutputPart], inside: Array) -> Array:
    """Returns _contains for a sample of `inside`. The result is cached, because `inside` is nearly always that of the
    variant before."""
    cached: tuple[Array, Array] | None = case.cache.get("parts inside")
    if cached is None or not np.array_equal(cached[0], inside):
        cached = case.cache["parts inside"] = (inside.copy(), _contains(case, parts, _sample(inside)))
    return cached[1]


def _contains(case: Case, parts: list[OutputPart], places: Array) -> Array:
    """Returns whether each part contains each of these elements: bool [parts, places]."""
    at = np.unravel_index(places, case.spec.shape)
    contained = np.empty((len(parts), len(places)), bool)
    along, others = case.compute_once("masks of parts", lambda: _masks(case, parts))
    for axis, (rows, table) in along.items():
        contained[rows] = table[:, at[axis]]
    for row, mask in others.items():
        contained[row] = np.broadcast_to(mask, case.spec.shape)[at]
    return contained


def _masks(case: Case, parts: list[OutputPart]) -> tuple[dict[int, tuple[list[int], Array]], dict[int, Array]]:
    """Returns two dicts: by axis, the numbers of the parts that depend only on the index along it, with their masks as
    rows of a table; and by number of the part, the masks of all other parts."""
    masks = {row: np.asarray(part.mask(case)) for row, part in enumerate(parts)}
    along, shape = dict[int, tuple[list[int], Array]](), case.spec.shape
    for axis, size in enumerate(shape):
        axis_shape = tuple(size if i == axis else 1 for i in range(len(shape)))
        if size > 1 and (rows := [row for row, mask in masks.items() if mask.shape == axis_shape]):
            along[axis] = (rows, np.stack([masks.pop(row).reshape(-1) for row in rows]))
    return along, masks


def _separates(case: Case, part: OutputPart, inside: Array, outside: Array) -> bool:
    """Returns whether the part contains every element of `inside` and none of `outside`."""
    mask = part.mask(case)
    return not ((inside & ~mask).any() or (outside & mask).any())


def _pairs(chosen: Array, fits: Callable[[int, int], bool]) -> Iterator[tuple[int, int]]:
    return ((i, j) for i, j in combinations(chosen[:MAX_PAIRED].tolist(), 2) if fits(i, j))


def _join(a: OutputPart, b: OutputPart, word: str) -> OutputPart:
    joined = partial(_and if word == "and" else _or, a=a, b=b)
    return OutputPart(f"{a.words} {word} {b.words}", joined, a.bits + b.bits)


def _add_choice_bits(parts: list[OutputPart]) -> list[OutputPart]:
    """Returns the parts with more bits, so that each part's bits are the cost of choosing it from all these parts."""
    more = max(0.0, log2_of(sum(2.0**-p.bits for p in parts)))
    return [replace(p, bits=p.bits + more) for p in parts]


def _and(case: Case, a: OutputPart, b: OutputPart) -> Array:
    return np.asarray(a.mask(case) & b.mask(case))


def _or(case: Case, a: OutputPart, b: OutputPart) -> Array:
    return np.asarray(a.mask(case) | b.mask(case))


def _all_parts(case: Case) -> Iterator[OutputPart]:
    shape = case.spec.shape
    names = MATRIX if len(shape) == 3 and case.last.op == "matmul" else AXES.get(len(shape), ())
    names = names or tuple(f"axis-{i} slice" for i in range(len(shape)))
    for axis, (name, size) in enumerate(zip(names, shape, strict=True)):
        if size > 1:
            yield from _axis_parts(axis, name, size, len(shape))
    if len(shape) == 4 and shape[2] * shape[3] > 1:
        yield from _pixel_parts(shape)
    yield from _flat_parts(shape)
    yield from _border_parts(case)
    yield from _parts_by_value(case)


def _fixed(words: str, mask: Array, bits: float) -> OutputPart:
    """Returns a part that does not depend on the inputs."""
    return OutputPart(words, lambda _: mask, bits)


def _axis_parts(axis: int, name: str, size: int, rank: int) -> Iterator[OutputPart]:
    i = np.arange(size).reshape([-1 if at == axis else 1 for at in range(rank)])
    yield _fixed(f"in the last {name}", i == size - 1, 3.0)
    yield _fixed(f"in the first {name}", i == 0, 3.0)
    yield _fixed(f"in every {name} but the first", i > 0, 3.0)
    yield _fixed(f"in every {name} but the last", i < size - 1, 3.0)
    for lanes in LANES:
        if lanes < size:
            yield from _lane_parts(i, name, size, lanes)
    for k in range(2, size - 1):
        yield _fixed(f"from {name} {k} on", i >= k, log2_of(size))
        yield _fixed(f"in {name}s 0 to {k - 1}", i < k, log2_of(size))
    for k in range(1, size - 1) if size <= 256 else ():
        yield _fixed(f"in {name} {k}", i == k, log2_of(size))


def _lane_parts(i: Array, name: str, size: int, lanes: int) -> Iterator[OutputPart]:
    """Yields the tail beyond whole vectors of so many lanes, everything but the tail, and single lanes. i: the indices
    along the axis."""
    if (tail := size % lanes) > 1:  # a tail of one index is already the part "in the last ..."
        beyond = f"(beyond whole groups of {lanes})"
        yield _fixed(f"in the last {count(tail, name)} {beyond}", i >= size - tail, 3.0)
        yield _fixed(f"in whole groups of {lanes} {name}s", i < size - tail, 3.0)
    for r in range(lanes) if lanes <= 8 else (0, lanes - 1):
        yield _fixed(f"in every {_nth(lanes)} {name}, from {name} {r} on", i % lanes == r, log2_of(lanes) + 3)
        if lanes > 2:
            but = f"in all {name}s but every {_nth(lanes)}, from {name} {r} on"
            yield _fixed(but, i % lanes != r, log2_of(lanes) + 3)
    if lanes >= 4:
        yield _fixed(f"in the upper half of every {lanes} {name}s", i % lanes >= lanes // 2, 4.0)


def _nth(n: int) -> str:
    return {2: "second", 3: "third"}.get(n, f"{n}th")


def _pixel_parts(shape: tuple[int, ...]) -> Iterator[OutputPart]:
    """Yields the last pixel and tails of a plane whose rows lie one after the other."""
    pixels = np.arange(shape[2] * shape[3]).reshape(1, 1, shape[2], shape[3])
    yield _fixed("in the last pixel", pixels == pixels.size - 1, 3.0)
    yield from _tails(pixels, "pixel")


def _flat_parts(shape: tuple[int, ...]) -> Iterator[OutputPart]:
    places = np.arange(int(np.prod(shape))).reshape(shape)
    yield _fixed("in the last element", places == places.size - 1, 3.0)
    yield from _tails(places, "element")


def _tails(places: Array, name: str) -> Iterator[OutputPart]:
    for lanes in (4, 8, 16, 32, 64):
        if (tail := places.size % lanes) > 1:
            words = f"in the last {count(tail, name)} (beyond whole groups of {lanes})"
            yield _fixed(words, places >= places.size - tail, 3.0)


def _border_parts(case: Case) -> Iterator[OutputPart]:
    """Yields the positions at which the window reaches into the padding, on each side and on any side."""
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
            yield _fixed(f"where the window reaches into the padding at the {name}", mask, 4.0)
    any_side = sides["top"] | sides["bottom"] | sides["left"] | sides["right"]
    if any_side.any():
        yield _fixed("where the window reaches into the padding", any_side, 3.0)
        yield _fixed("where the window lies inside the input", ~any_side, 3.0)


def _parts_by_value(case: Case) -> Iterator[OutputPart]:
    """Yields parts that depend on the healthy value, and so on the inputs."""
    if linear(case) is not None:
        yield OutputPart("where the accumulator is negative", lambda c: _accumulator(c) < 0, 3.0)
        yield OutputPart("where the accumulator is positive", lambda c: _accumulator(c) > 0, 3.0)
    elif pre_rounding(case) is not None:
        yield OutputPart("where the value before rounding is negative", lambda c: _steps(c) < 0, 3.0)
        yield OutputPart("where the value before rounding is positive", lambda c: _steps(c) > 0, 3.0)
    if case.spec.quantized and len(case.spec.zero_point) == 1:
        zero = case.spec.zero_point[0]
        yield OutputPart("where the output lies below its zero point", lambda c: c.healthy < zero, 3.0)
        yield OutputPart("where the output lies above its zero point", lambda c: c.healthy > zero, 3.0)


def _accumulator(case: Case) -> Array:
    return required_linear(case).acc


def _steps(case: Case) -> Array:
    value = pre_rounding(case)
    assert value is not None
    return value.steps
