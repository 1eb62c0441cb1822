"""The zero points are subtracted from the sum by correction terms, and one of these is missing, doubled, or has a wrong
count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import numpy as np

from qverify.triage.altered_kernels.summed_elements import SUMMED_OPS, SummedElements, fitting, sample
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "zero-point-terms"
LATE = -1
OPS = SUMMED_OPS
MULTIPLES = (2, 4, 8, 16, 32, 64)
MEANS = ("global_average_pool", "reduce_mean", "average_pool")
Ways = Iterator[tuple[str, Callable[[SummedElements], Array]]]


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case)
    if few is None:
        return
    s = few.summands
    shape = np.broadcast_shapes(s.x.shape, s.w.shape)[1:]
    if case.last.op in MEANS:
        yield from fitting(case, islice(_yield_mean_faults(shape), 2), in_parts=True, bits=0.5)
        yield from fitting(case, islice(_yield_mean_faults(shape), 2, None), in_parts=True)
    else:
        yield from fitting(case, _yield_product_faults(shape), in_parts=True)


def _yield_mean_faults(shape: tuple[int, ...]) -> Ways:
    """Yields faults that subtract the zero point of the input a wrong number of times."""
    for text, count in _counts(shape).items():
        yield (
            f"the zero point of the input is subtracted {text} instead of for each element",
            partial(_times, count=count),
        )


def _counts(shape: tuple[int, ...]) -> dict[str, int]:
    count = int(np.prod(shape))
    counts = {"once": 1, "not at all": 0, "twice for each element,": 2 * count, "added": -count}
    counts |= {f"{count - 1} times (one element short)": count - 1, f"{count + 1} times (one too many)": count + 1}
    for axis, name in ((1, "row"), (2, "column")):
        counts[f"{shape[axis]} times (once for each {name})"] = shape[axis]
    for m in MULTIPLES:
        counts[f"{-(-count // m) * m} times (the count rounded up to a multiple of {m})"] = -(-count // m) * m
        counts[f"{count // m * m} times (the count rounded down to a multiple of {m})"] = count // m * m
        counts[f"{-(-count // m)} times (once for every {m} elements)"] = -(-count // m)
        aligned = -(-shape[2] // m) * m * (count // shape[2])
        counts[f"{aligned} times (the width rounded up to a multiple of {m})"] = aligned
    return {text: n for text, n in counts.items() if n != count}


def _times(e: SummedElements, count: int) -> Array:
    s = e.summands
    read_count = np.broadcast_to(s.read, s.x.shape).reshape(len(s.x), -1).sum(1)
    return e.requantized(e.acc + s.zero_x * (read_count - count))


def _yield_product_faults(shape: tuple[int, ...]) -> Ways:
    count = int(np.prod(shape))
    first, second = "the zero point of the first operand", "the zero point of the second operand"
    terms: dict[str, tuple[float, float, float]] = {
        f"{first} times the sum of the second is not subtracted": (1, 0, 0),
        f"{first} times the sum of the second is added instead of subtracted": (2, 0, 0),
        f"{first} times the sum of the second is subtracted twice": (-1, 0, 0),
        f"{second} times the sum of the first is not subtracted": (0, 1, 0),
        f"{second} times the sum of the first is added instead of subtracted": (0, 2, 0),
        f"{second} times the sum of the first is subtracted twice": (0, -1, 0),
        "the product of both zero points is left out": (0, 0, -count),
        "the product of both zero points is added once instead of for every summand": (0, 0, 1 - count),
        "the product of both zero points is added twice for every summand": (0, 0, count),
        "the product of both zero points is subtracted instead of added": (0, 0, -2 * count),
        "the zero points are not subtracted at all": (1, 1, -count),
        "the product of both zero points is counted one time too often": (0, 0, 1),
        "the product of both zero points is counted one time too seldom": (0, 0, -1),
    }
    for m in MULTIPLES:
        terms[f"the product of both zero points is counted for the depth rounded up to a multiple of {m}"] = (
            0,
            0,
            -(-count // m) * m - count,
        )
        terms[f"the product of both zero points is counted for the depth rounded down to a multiple of {m}"] = (
            0,
            0,
            count // m * m - count,
        )
    for text, (of_w, of_x, both) in terms.items():
        yield text, partial(_with_terms, of_w=of_w, of_x=of_x, both=both)
    for at, name in enumerate((first, second)):
        yield f"{name} is subtracted from the sum once", partial(_once, at=at)
        for width in (8, 16):
            yield (
                f"{name}: the sum it is multiplied by wraps to {width} bits",
                partial(_narrow_sum, at=at, width=width, saturated=False),
            )
            yield (
                f"{name}: the sum it is multiplied by saturates to {width} bits",
                partial(_narrow_sum, at=at, width=width, saturated=True),
            )
            yield f"{name}: its product with the sum wraps to {width} bits", partial(_narrow_term, at=at, width=width)


def _sums(e: SummedElements, at: int) -> Array:
    """Returns the sum of the raw elements of the operand that is not `at`."""
    s = e.summands
    shape = np.broadcast_shapes(s.x.shape, s.w.shape)
    return np.broadcast_to((s.w, s.x)[at], shape).reshape(len(s.x), -1).sum(1)


def _zero(e: SummedElements, at: int) -> Array:
    s = e.summands
    return np.broadcast_to(np.reshape(s.zero_x if at == 0 else s.zero_w, -1), e.acc.shape)


def _with_terms(e: SummedElements, of_w: float, of_x: float, both: float) -> Array:
    zero_x, zero_w = _zero(e, 0), _zero(e, 1)
    acc = e.acc + of_w * zero_x * _sums(e, 0) + of_x * zero_w * _sums(e, 1) + both * zero_x * zero_w
    return e.requantized(acc.astype(np.int64))


def _once(e: SummedElements, at: int) -> Array:
    zero, other = _zero(e, at), _zero(e, 1 - at)
    s = e.summands
    count = int(np.prod(np.broadcast_shapes(s.x.shape, s.w.shape)[1:]))
    return e.requantized(e.acc + zero * (_sums(e, at) - count * other) - zero)


def _narrow_sum(e: SummedElements, at: int, width: int, saturated: bool) -> Array:
    total = _sums(e, at)
    return e.requantized(e.acc + _zero(e, at) * (total - _narrowed(total, width, saturated)))


def _narrow_term(e: SummedElements, at: int, width: int) -> Array:
    term = _zero(e, at) * _sums(e, at)
    return e.requantized(e.acc + term - _narrowed(term, width, False))


def _narrowed(values: Array, width: int, saturated: bool) -> Array:
    half = 1 << width - 1
    return np.clip(values, -half, half - 1) if saturated else ((values + half) & (2 * half - 1)) - half
