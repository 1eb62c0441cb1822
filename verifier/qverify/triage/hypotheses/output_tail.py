"""The outputs after the last whole vector or tile are those of another place: the first of the rest, the block before,
or the beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from math import prod

import numpy as np

from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.case import Array, Case, element_bits
from qverify.triage.hypotheses import FaultVariant

NAME = "output-tail"
LANES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)


def variants(case: Case) -> Iterator[FaultVariant]:
    recorded, healthy, tried = element_bits(case.recorded), element_bits(case.healthy), set()
    for name, shape, axis in _axes(case.spec.shape):
        recorded_lines, healthy_lines = recorded.reshape(shape), healthy.reshape(shape)
        size = shape[axis]
        ends = cache(bind_last(_same_line, healthy_lines, recorded_lines, axis))
        for n in LANES:
            rest = size % n
            for tail in {rest, n} if size > n and rest else {n} if size > n else set():
                for phrase, source in _sources(size, n, tail).items():
                    if not ends(int(source(np.array([size - 1]))[0])):  # the last line alone, before all are listed
                        continue
                    i = np.arange(size)
                    index = np.where(i >= size - tail, source(i), i)
                    key = (name, index.tobytes())
                    if key in tried or (index == i).all():
                        continue
                    tried.add(key)
                    text = f"the last {tail} {name} {phrase}"
                    yield FaultVariant(text, partial(_taken, shape=shape, axis=axis, index=index), copied=True)


def _same_line(at: int, healthy: Array, recorded: Array, axis: int) -> bool:
    return bool((healthy.take([at], axis) == recorded.take([-1], axis)).all())


def _axes(shape: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Yields (noun, shape, axis) of the axes along which a kernel may work in blocks."""
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


def _sources(size: int, n: int, tail: int) -> dict[str, Callable[[Array], Array]]:
    """Returns, by text, a function from the indices of lines in the tail to those of the lines that are there."""
    start = size - tail
    return {
        f"(after the last whole {n}) all repeat the first of them": lambda i: 0 * i + start,
        f"(after the last whole {n}) all repeat the one before them": lambda i: 0 * i + start - 1,
        f"(after the last whole {n}) all repeat the last one": lambda i: 0 * i + size - 1,
        f"(after the last whole {n}) repeat those {n} before": lambda i: np.maximum(i - n, 0),
        f"(after the last whole {n}) repeat those {tail} before": lambda i: np.maximum(i - tail, 0),
        f"(after the last whole {n}) repeat the first ones": lambda i: i - start,
        f"(after the last whole {n}) are in reverse order": lambda i: size - 1 - (i - start),
    }


def _taken(case: Case, shape: tuple[int, ...], axis: int, index: Array) -> Array:
    return np.ascontiguousarray(case.healthy.reshape(shape).take(index, axis)).reshape(case.spec.shape)
