"""resize_nearest reads other rows or columns: its coordinate is rounded in another way, or computed in fixed point,
with a whole factor, or from another axis' scale or table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.narrow_steps import bfloat16, float16
from qverify.triage.altered_kernels.separable_copies import (
    SeparableCopy,
    copy_variant,
    mover,
    needed_copy,
    plural_of_axis,
    tables_of,
)
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "resize-nearest-source"
OPS = ("resize_nearest",)
Table = Callable[[int, int], Array]  # source indices from the sizes of the input's and the output's dim
COORDINATES: dict[str, Table] = {
    "i * in / out": lambda n, out: np.arange(out) * n / out,
    "(i + 0.5) * in / out - 0.5": lambda n, out: (np.arange(out) + 0.5) * n / out - 0.5,
    "(i + 0.5) * in / out": lambda n, out: (np.arange(out) + 0.5) * n / out,
    "i * (in - 1) / (out - 1)": lambda n, out: np.arange(out) * ((n - 1) / max(out - 1, 1)),
    "(i + 1) * in / out - 1": lambda n, out: (np.arange(out) + 1) * n / out - 1,
    "i * (in - 1) / out": lambda n, out: np.arange(out) * (n - 1) / out,
    "i * in / (out - 1)": lambda n, out: np.arange(out) * n / max(out - 1, 1),
}
RULES: dict[str, Callable[[Array], Array]] = {
    "taken down (floor)": lambda v: np.floor(v + 1e-9),
    "rounded to the nearest, halves up": lambda v: np.floor(v + 0.5 + 1e-9),
    "rounded to the nearest, halves down": lambda v: np.ceil(v - 0.5 - 1e-9),
    "rounded to the nearest, halves to even": np.rint,
    "taken up (ceiling)": lambda v: np.ceil(v - 1e-9),
}


def _tables() -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for coordinate, of in COORDINATES.items():
        for rule, rounded in RULES.items():
            tables[f"the source coordinate {coordinate} is {rule}"] = partial(_rounded, of=of, rule=rounded)
    tables |= {
        "the source is i // (out // in), a whole factor": lambda n, out: np.arange(out) // max(out // n, 1),
        "the source is i * (in // out), a whole factor": lambda n, out: np.arange(out) * max(n // out, 1),
        "the source is i // ceil(out / in), a whole factor": lambda n, out: np.arange(out) // max(-(-out // n), 1),
        "the source is i / 2 (always a factor of 2)": lambda n, out: np.arange(out) // 2,
        "the source is i mod in: the input is repeated as a whole": lambda n, out: np.arange(out) % n,
        "the source is i, limited to the last": lambda n, out: np.arange(out),
        "the source counts from the end": lambda n, out: n - 1 - np.arange(out) * n // out,
        "the step in / out is rounded to float16": lambda n, out: np.floor(np.arange(out) * float16(np.array(n / out))),
        "the step in / out is rounded to bfloat16": lambda n, out: np.floor(
            np.arange(out) * bfloat16(np.array(n / out))
        ),
        "the step in / out is a float32": lambda n, out: np.floor(
            np.arange(out, dtype=np.float32) * np.float32(n / out)
        ),
        "the step in / out is added up in float32": lambda n, out: np.floor(_summed(np.float32(n / out), out)),
    }
    for k in (16, 8, 10, 12, 11, 4, 5, 6, 7, 9, 14, 15):
        for rule, rounded in (("down", np.floor), ("to the nearest", np.rint)):
            text = f"the step in / out is fixed point of {k} bits, rounded {rule}"
            tables[text] = partial(_fixed, places=k, rounded=rounded)
            tables[f"{text}, and half a source added"] = partial(_fixed, places=k, rounded=rounded, half=True)
    return tables


def _rounded(n: int, out: int, of: Table, rule: Callable[[Array], Array]) -> Array:
    return rule(of(n, out))


def _fixed(n: int, out: int, places: int, rounded: Callable[[Array], Array], half: bool = False) -> Array:
    step = int(rounded(np.array(n * 2.0**places / out)))
    return (np.arange(out) * step + (1 << places - 1 if half else 0)) >> places


def _summed(step: np.float32, out: int) -> Array:
    return np.concatenate([np.zeros(1, np.float32), np.cumsum(np.full(out - 1, step), dtype=np.float32)])


TABLES = _tables()


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = mover(case, "resize_nearest")
    if inner is None:
        return
    copy = needed_copy(case)
    resized = [k for k, out in enumerate(copy.shape) if out != copy.sizes[k]]
    groups = [resized, *([k] for k in resized if len(resized) > 1)]
    for axes in groups:
        where = " and ".join(plural_of_axis(copy.names[k]) for k in axes)
        for rare, (phrase, table) in enumerate(TABLES.items()):
            text = f"resize: {phrase} ({where})"
            yield from copy_variant(case, text, partial(_computed, axes=axes, table=table), 1.0 + 0.05 * rare)
        for phrase, way in CHANGES.items():
            change = partial(_changed, axes=axes, way=way)
            yield from copy_variant(case, f"resize: {phrase} ({where})", change, 1.5)
        for by in (-1, 1):
            text = f"resize: the source is one too {'far' if by > 0 else 'early'} ({where}), limited to the tensor"
            yield from copy_variant(case, text, partial(_off, axes=axes, by=by), 3.0)
    for k in resized:
        for other in range(len(copy.shape)):
            if other == k:
                continue
            others = plural_of_axis(copy.names[other])
            text = f"resize: {plural_of_axis(copy.names[k])} take their source index from the table of the {others}"
            yield from copy_variant(case, text, partial(_of_table, axis=k, other=other), 1.0, beyond="clamped")
            text = f"resize: {plural_of_axis(copy.names[k])} are scaled like the {others}"
            yield from copy_variant(case, text, partial(_of_scale, axis=k, other=other), 2.0, beyond="clamped")


CHANGES: dict[str, Callable[[Array, int], Array]] = {
    "the last source row or column is never reached, the one before it is read": lambda p, n: np.minimum(p, n - 2),
    "every output shows the source of the output before it, the first its own": lambda p, n: np.append(p[:1], p[:-1]),
    "every output shows the source of the output after it, the last its own": lambda p, n: np.append(p[1:], p[-1:]),
    "the first source row or column is never reached, the second is read": lambda p, n: np.maximum(p, 1),
    "the output is mirrored": lambda p, n: p[::-1],
}


def _changed(copy: SeparableCopy, case: Case, axes: list[int], way: Callable[[Array, int], Array]) -> SeparableCopy:
    return copy.with_places({k: _limited(way(copy.places[k], copy.sizes[k]), copy.sizes[k]) for k in axes})


def _limited(places: Array, size: int) -> Array:
    return np.clip(places, 0, size - 1).astype(np.int64)


def _computed(copy: SeparableCopy, case: Case, axes: list[int], table: Table) -> SeparableCopy:
    return copy.with_places({k: _limited(table(copy.sizes[k], copy.shape[k]), copy.sizes[k]) for k in axes})


def _off(copy: SeparableCopy, case: Case, axes: list[int], by: int) -> SeparableCopy:
    return copy.with_places({k: _limited(copy.places[k] + by, copy.sizes[k]) for k in axes})


def _of_table(copy: SeparableCopy, case: Case, axis: int, other: int) -> SeparableCopy:
    """Returns the copy that reads the other axis' table and, beyond its end, the tables after it."""
    whole = np.concatenate(tables_of(case)[other:] + [tables_of(case)[-1]] * 4)
    return copy.with_places({axis: np.resize(whole, copy.shape[axis])})


def _of_scale(copy: SeparableCopy, case: Case, axis: int, other: int) -> SeparableCopy:
    places = np.arange(copy.shape[axis]) * copy.sizes[other] // copy.shape[other]
    return copy.with_places({axis: _limited(places, copy.sizes[axis])})
