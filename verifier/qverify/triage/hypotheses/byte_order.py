"""Bytes are in another order: big-endian elements, or elements reversed within machine words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.memory_sources import memory_sources, output_from
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "byte-order"
LATE = 1


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case):
        item = place.spec.numpy_dtype.itemsize
        if item > 1:
            yield FaultVariant(
                f"byte order: {place.label} is big-endian", output_from(place, partial(_reversed, size=item))
            )
        for size in (2, 4, 8, 16):
            if size > item and place.label not in ("the bias", "the scales"):
                text = f"byte order: {place.label} reversed within words of {size} bytes"
                yield FaultVariant(text, output_from(place, partial(_reversed, size=size)))
                if size >= 4 and item == 1:
                    text = f"byte order: {place.label}, halves of words of {size} bytes exchanged"
                    yield FaultVariant(text, output_from(place, partial(_halves, size=size)))
        if item == 1:
            yield FaultVariant(f"byte order: {place.label}, nibbles exchanged", output_from(place, _nibbles))


def _words(values: Array, size: int) -> tuple[Array, Array]:
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    whole = data.size // size * size
    return data[:whole].reshape(-1, size), data[whole:]


def _back(words: Array, rest: Array, values: Array) -> Array:
    return np.concatenate([words.reshape(-1), rest]).view(values.dtype).reshape(values.shape)


def _reversed(values: Array, size: int) -> Array:
    words, rest = _words(values, size)
    return _back(words[:, ::-1], rest, values)


def _halves(values: Array, size: int) -> Array:
    words, rest = _words(values, size)
    return _back(np.roll(words, size // 2, 1), rest, values)


def _nibbles(values: Array) -> Array:
    data = values.view(np.uint8)
    return ((data << 4) | (data >> 4)).astype(np.uint8).view(values.dtype)
