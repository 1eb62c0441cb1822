"""The end of an input's rows, beyond the last whole burst or vector, is not read: it counts as 0 or zero point, or
repeats elements read before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod

import numpy as np

from qverify.triage.altered_kernels.memory_sources import memory_sources, output_from
from qverify.triage.altered_kernels.variant_checks import check_where_it_differs
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.partial_copy import OPS as COPIED

NAME = "input-tail"
LATE = 1
BLOCKS = (16, 8, 4, 32, 64, 2, 128)


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case, "input"):
        item, shape = place.spec.numpy_dtype.itemsize, place.spec.shape
        for noun, run in _runs(shape):
            if noun == "whole tensor" and case.last.op in COPIED:
                continue
            for block, unit in [(b, u) for u in ("bytes", "elements") for b in BLOCKS]:
                whole = block // item if unit == "bytes" else block
                if (unit == "bytes" and (item == 1 or block % item)) or not whole or not run % whole:
                    continue
                tail = run % whole
                of = place.label if noun == "whole tensor" else f"every {noun} of {place.label}"
                end = f"the elements of {of} after the last whole burst of {block} {unit}"
                for cost, text, fill in _fills(place.spec.zero_point[:1], whole):
                    way = partial(_changed, run=run, tail=tail, fill=fill)
                    yield from check_where_it_differs(case, f"{end} {text}", output_from(place, way), cost + 2)


def _runs(shape: tuple[int, ...]) -> Iterator[tuple[str, int]]:
    yielded = set()
    for noun, run in (
        ("innermost row", shape[-1] if shape else 1),
        ("plane", prod(shape[-2:])),
        ("whole tensor", prod(shape)),
    ):
        if run > 1 and run not in yielded:
            yielded.add(run)
            yield noun, run


Fill = Callable[[Array, int], Array]


def _fills(zero: tuple[int, ...], whole: int) -> Iterator[tuple[float, str, Fill]]:
    """Yields (cost, text, function that fills the tails of rows [rows, run])."""
    yield 1.0, "are not read and count as 0", lambda rows, tail: np.zeros_like(rows[:, -tail:])
    for value in zero:
        if value:
            yield 1.5, "are not read and count as the zero point", partial(_value, value=value)
        yield (
            1.4,
            "are not loaded: they keep what their buffer held, zeros (the zero point)",
            partial(_value, value=value),
        )
    yield 2.0, "repeat the burst before", partial(_before, back=whole)
    yield 2.0, "repeat the first elements of the row", lambda rows, tail: rows[:, :tail]
    yield 2.0, "repeat the element before them", lambda rows, tail: np.repeat(rows[:, -tail - 1 : -tail], tail, 1)
    yield 2.0, "are those of the row before", lambda rows, tail: np.roll(rows[:, -tail:], 1, 0)
    yield 2.0, "are those of the first row", lambda rows, tail: np.repeat(rows[:1, -tail:], len(rows), 0)


def _value(rows: Array, tail: int, value: int) -> Array:
    return np.full_like(rows[:, -tail:], value)


def _before(rows: Array, tail: int, back: int) -> Array:
    start = rows.shape[1] - tail - back
    if start < 0:
        raise ValueError("no burst before")
    return rows[:, start : start + tail]


def _changed(values: Array, run: int, tail: int, fill: Fill) -> Array:
    rows = values.reshape(-1, run).copy()
    if rows.shape[1] > tail:
        rows[:, -tail:] = fill(values.reshape(-1, run), tail)
    else:
        rows[:] = 0
    return rows.reshape(values.shape)
