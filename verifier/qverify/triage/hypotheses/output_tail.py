"""The outputs after the last whole vector or tile are those of another place: the first of the rest, the block before, or
the beginning."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

import numpy as np

from qverify.triage.case import Array, Case, bits
from qverify.triage.hypotheses import FaultVariant

NAME = "output-tail"
LANES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)


def variants(case: Case) -> Iterator[FaultVariant]:
    recorded, made, seen = bits(case.recorded), bits(case.made), set()
    for name, shape, axis in _axes(case.spec.shape):
        wanted, own = recorded.reshape(shape), made.reshape(shape)
        size = shape[axis]
        for n in LANES:
            rest = size % n
            for tail in {rest, n} if size > n and rest else {n} if size > n else set():
                for said, index in _sources(size, n, tail).items():
                    key = (name, index.tobytes())
                    if key in seen or (index == np.arange(size)).all():
                        continue
                    seen.add(key)
                    if (own.take(index[-1:], axis) == wanted.take([-1], axis)).all():
                        text = f"the last {tail} {name} {said}"
                        yield FaultVariant(text, partial(_taken, shape=shape, axis=axis, index=index), copied=True)


def _axes(shape: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Yields (noun, shape, axis) along which a kernel may work in blocks."""
    names = {
        4: ("batch items", "channels", "rows", "columns"),
        3: ("batch items", "rows or channels", "columns"),
        2: ("rows", "columns (channels)"),
    }
    for axis, size in enumerate(shape):
        if size > 1:
            yield names.get(len(shape), tuple(f"places of axis {i}" for i in range(len(shape))))[axis], shape, axis
    if len(shape) > 2:
        yield "pixels of every plane", (prod(shape[:-2]), prod(shape[-2:])), 1
        yield "pixels of every batch item and channel", (*shape[:2], prod(shape[2:])), 2
    yield "elements of the whole output", (1, prod(shape)), 1


def _sources(size: int, n: int, tail: int) -> dict[str, Array]:
    i, start = np.arange(size), size - tail
    before = i >= start
    return {
        f"(after the last whole {n}) all repeat the first of them": np.where(before, start, i),
        f"(after the last whole {n}) all repeat the one before them": np.where(before, start - 1, i),
        f"(after the last whole {n}) all repeat the last one": np.where(before, size - 1, i),
        f"(after the last whole {n}) repeat those {n} before": np.where(before, np.maximum(i - n, 0), i),
        f"(after the last whole {n}) repeat those {tail} before": np.where(before, np.maximum(i - tail, 0), i),
        f"(after the last whole {n}) repeat the first ones": np.where(before, i - start, i),
        f"(after the last whole {n}) are in reverse order": np.where(before, size - 1 - (i - start), i),
    }


def _taken(case: Case, shape: tuple[int, ...], axis: int, index: Array) -> Array:
    return np.ascontiguousarray(case.made.reshape(shape).take(index, axis)).reshape(case.spec.shape)
