"""A copy stops early: it counts elements where it should count bytes, or only whole blocks; the rest is left over."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.triage import evidence
from qverify.triage.altered_kernels.inner_node import inner_case
from qverify.triage.altered_kernels.memory_sources import recorded_at
from qverify.triage.case import Array, Case, element_bits
from qverify.triage.hypotheses import FaultVariant

NAME = "partial-copy"
OPS = ("reshape", "transpose", "slice", "split", "gather", "pad", "depth_to_space", "concat", "resize_nearest")
BLOCKS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = inner_case(case)
    if inner is None or inner.last.op not in OPS or not case.recorded.size or inner.spec.shape != case.spec.shape:
        return
    first, size = int(case.differing[0]), case.recorded.size
    for cost, phrase, count in _counts(size, inner.spec.numpy_dtype.itemsize):
        if not 0 <= count <= first or count >= size:
            continue
        not_copied = case.recorded.reshape(-1)[count:]
        text = f"{inner.last.op}: {phrase}"
        values = np.unique(element_bits(not_copied))
        if len(values) == 1:
            value = not_copied[0]
            compute = partial(_filled, count=count, value=value)
            # Other values are taken from the record.
            paid = cost if value in (0, *inner.spec.zero_point) else cost + 8 * not_copied.itemsize
            yield FaultVariant(f"{text}; the rest keeps what was in memory, {value} everywhere", compute, paid)
        elif 2 * case.differing.size > size - count and _tells(
            case, count, cost
        ):  # most elements that were not copied differ
            free = np.arange(size) >= count
            yield FaultVariant(
                f"{text}; the rest keeps what was in memory", partial(recorded_at, free=free), cost, free=free
            )


def _counts(size: int, item: int) -> Iterator[tuple[float, str, int]]:
    """Yields (cost, text, number of elements copied)."""
    if item > 1:
        copied = f"1/{item} of the tensor" if item > 2 else "half of the tensor"
        yield 0.5, f"it copies as many bytes as the tensor has elements: {copied}", size // item
        for other in (2, 4):
            if other < item:
                yield 1.5, f"it copies {other} bytes for every element of {item}", size * other // item
    for m in BLOCKS:
        yield 2.0, f"it copies only whole blocks of {m} elements", size // m * m
        if item > 1 and m >= item:
            yield 2.5, f"it copies only whole blocks of {m} bytes", size * item // m * m // item
    for limit in (256, 1024, 4096, 32768, 65536):
        yield 2.0, f"it copies at most {limit} elements", min(limit, size)
        yield 2.5, f"it counts elements modulo {limit}", size % limit
        yield 2.5, f"it copies at most {limit} bytes", min(limit // item, size)
        yield 3.0, f"it counts bytes modulo {limit}", size * item % limit // item
    yield 2.0, "it copies the first half only", size // 2
    yield 2.0, "the last element is not copied", size - 1


def _tells(case: Case, count: int, cost: float) -> bool:
    """Returns whether the copied elements are evidence of the copy, which elements with the same value everywhere are
    not."""
    return evidence.copied_bits(case, np.arange(count)) >= cost + evidence.MIN_COPY_MARGIN_BITS


def _filled(case: Case, count: int, value: Array) -> Array:
    output = case.healthy.reshape(-1).copy()
    output[count:] = value
    return output.reshape(case.spec.shape)
