"""A copy reads wrong places on one axis: always the first or the last, the next or the previous one, every other one
twice, in reverse order, in another block, or by an index that is cut to 8 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.separable_copies import (
    MOVED_OPS,
    OUTSIDE,
    SeparableCopy,
    copy_variant,
    mover,
    needed_copy,
    plural_of_axis,
)
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "copy-places"
OPS = MOVED_OPS
BLOCKS = (2, 3, 4, 8, 16, 32, 64, 128)
Way = Callable[[Array, int], Array]  # from the places and the size of the input's dim, the places that are read


def _ways() -> dict[str, Way]:
    ways: dict[str, Way] = {
        "are always the first one": lambda p, n: np.full_like(p, p[0]),
        "are always the last one": lambda p, n: np.full_like(p, p[-1]),
        "come in reverse order": lambda p, n: p[::-1],
        "are one place too far, limited to the last": lambda p, n: np.minimum(p + 1, n - 1),
        "are one place too early, limited to the first": lambda p, n: np.maximum(p - 1, 0),
        "are one place too far, wrapping around": lambda p, n: (p + 1) % n,
        "are one place too early, wrapping around": lambda p, n: (p - 1) % n,
        "are the one before it, except for the first": lambda p, n: np.append(p[:1], p[:-1]),
        "are the one after it, except for the last": lambda p, n: np.append(p[1:], p[-1:]),
        "are counted from the start of the input": lambda p, n: np.minimum(np.arange(len(p)), n - 1),
        "are counted from the end of the input": lambda p, n: n - 1 - p,
        "are counted in 8 bits (mod 256)": lambda p, n: p % 256,
        "are counted in signed 8 bits": lambda p, n: (p + 128) % 256 - 128,
        "are limited to 127": lambda p, n: np.minimum(p, 127),
        "are limited to 255": lambda p, n: np.minimum(p, 255),
        "stop before the last one of the input": lambda p, n: np.minimum(p, n - 2),
    }
    for m in BLOCKS:
        for text, order in ORDERS.items():
            ways[text.format(m)] = partial(_taken, order=order, block=m)
    return ways


ORDERS: dict[str, Callable[[Array, int], Array]] = {
    "repeat the first {}": lambda i, m: i % m,
    "repeat the first of every {}": lambda i, m: i // m * m,
    "repeat the last of every {}": lambda i, m: i // m * m + m - 1,
    "repeat the {} before": lambda i, m: i - m,
    "repeat the {} after": lambda i, m: i + m,
    "come in reverse order within every {}": lambda i, m: i // m * m + m - 1 - i % m,
}


def _taken(places: Array, size: int, order: Callable[[Array, int], Array], block: int) -> Array:
    return places[np.clip(order(np.arange(len(places)), block), 0, len(places) - 1)]


WAYS = _ways()


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = mover(case)
    if inner is None or inner.last.op == "reshape":
        return
    copy = needed_copy(case)
    for axis, count in enumerate(copy.shape):
        for phrase, way in WAYS.items() if count > 1 else ():
            text = f"copy: the {plural_of_axis(copy.names[axis])} read {phrase}"
            yield from copy_variant(case, text, partial(_changed, axis=axis, way=way), 7.0)


def _changed(copy: SeparableCopy, case: Case, axis: int, way: Way) -> SeparableCopy:
    own_places = copy.places[axis]
    inside = own_places > OUTSIDE // 2
    changed = way(np.where(inside, own_places, 0), copy.sizes[axis])
    return copy.with_places({axis: np.where(inside, changed, OUTSIDE)})
