"""A mean is divided by a wrong number of elements, is multiplied by a rounded reciprocal, or is rounded to a whole
number before it is scaled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.triage.altered_kernels.narrow_floats import FORMATS, fixed, significant
from qverify.triage.altered_kernels.rounding_rules import RULES, Rule
from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting_alike, words_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import linear

NAME = "mean-divisor"
LATE = -1
OPS = ("global_average_pool", "reduce_mean")
MULTIPLES = (2, 4, 8, 16, 32, 64)
Ways = Iterator[tuple[list[str], Callable[[SummedElements], Array]]]


def variants(case: Case) -> Iterator[FaultVariant]:
    if linear(case) is None or case.last.op not in ("global_average_pool", "reduce_mean"):
        return
    sizes = mean_sizes(case)
    yield from fitting_alike(case, _ways(sizes))


def mean_sizes(case: Case) -> list[int]:
    """Returns the sizes of the axes of the mean."""
    shape, mask = case.graph.spec(case.last.inputs[0] or "").shape, words_of(case).get("axes_mask")
    return [n for i, n in enumerate(shape) if (i >= 2 if mask is None else mask >> i & 1)]


def _ways(sizes: list[int]) -> Ways:
    count = int(np.prod(sizes))
    for phrase, rule in RULES.items():
        way = partial(_mean_whole, count=count, rule=rule)
        yield [f"the mean of x - zero point is rounded {phrase} to an integer before it is scaled"], way
        way = partial(_raw_mean_whole, count=count, rule=rule)
        yield [f"the mean of the raw integers is rounded {phrase} to an integer before it is scaled"], way
        if len([n for n in sizes if n > 1]) > 1:
            for axis, name in ((2, "columns, then of rows"), (1, "rows, then of columns")):
                text = f"the mean is taken of {name}, and both means are rounded {phrase} to integers"
                yield [text], partial(_two_means, axis=axis, count=count, rule=rule)
    for wrong_count, count_texts in _counts(sizes).items():
        instead = f"({wrong_count} instead of {count})"
        yield (
            [f"the mean is divided by {text_of_count} {instead}" for text_of_count in count_texts],
            partial(_factor, by=count / wrong_count, rule=None),
        )
        for name, rule in RULES.items():
            end = f"the sum times {count}/{wrong_count} is rounded {name} to an integer before it is scaled"
            way = partial(_factor, by=count / wrong_count, rule=rule)
            yield [f"the mean is divided by {text_of_count} {instead}: {end}" for text_of_count in count_texts], way
    for phrase, reciprocal in _reciprocals(count).items():
        yield [f"the mean is multiplied by 1/{count} {phrase}"], partial(_factor, by=reciprocal * count, rule=None)
        for name, rule in RULES.items():
            text = f"the mean is multiplied by 1/{count} {phrase} and rounded {name} to an integer before it is scaled"
            yield [text], partial(_reciprocal_mean, reciprocal=reciprocal, count=count, rule=rule)


def _counts(sizes: list[int]) -> dict[int, list[str]]:
    """Returns texts for the wrong counts, by count."""
    count, last = int(np.prod(sizes)), sizes[-1]
    counts: dict[str, int] = {}
    if len(sizes) > 1:
        for m in reversed(MULTIPLES):
            up, down = -(-last // m) * m, last // m * m
            counts[f"the size with its width rounded up to a multiple of {m}"] = up * (count // last)
            counts[f"the size with its width rounded down to a multiple of {m}"] = down * (count // last)
    for m in reversed(MULTIPLES):
        counts[f"the count rounded up to a multiple of {m}"] = -(-count // m) * m
        counts[f"the count rounded down to a multiple of {m}"] = count // m * m
    counts |= {"one more than the count": count + 1, "one less than the count": count - 1}
    counts |= {"two more than the count": count + 2, "two less than the count": count - 2}
    if len(sizes) > 1:
        width, others = sizes[-1], count // sizes[-1]
        for more, text in ((1, "one more"), (-1, "one less"), (2, "two more"), (-2, "two less")):
            counts[f"the size with {text} column in every row"] = (width + more) * others
            counts[f"the size with {text} row"] = width * (others + more)
            counts[f"the size with {text} row and column"] = (width + more) * (others + more)
        counts["the sum of the sizes of its axes"] = sum(sizes)
    counts["the power of two below the count"] = 1 << count.bit_length() - 1
    counts["the power of two above the count"] = 1 << (count - 1).bit_length()
    for at, size in enumerate(sizes):
        counts[f"the size of axis {at + 1} of the mean alone"] = size
        counts[f"the square of the size of axis {at + 1} of the mean"] = size * size
    counts |= {"1: the sum is not divided": 1, "255": 255, "256": 256}
    texts: dict[int, list[str]] = {}
    for text, n in counts.items():
        if n > 0 and n != count:
            texts.setdefault(n, []).append(text)
    return texts


def _reciprocals(count: int) -> dict[str, float]:
    exact = np.array([1.0 / count])
    reciprocals = {
        f"in {text}": float(narrow(exact.astype(np.float32))[0])
        for text, narrow in FORMATS.items()
        if not text.startswith("float32")
    }
    for cut, rule in (("rounded", np.rint), ("cut off", np.floor), ("rounded up", np.ceil)):
        for bits in range(3, 25):
            reciprocals[f"as a multiple of 2^-{bits}, {cut}"] = float(fixed(exact, bits, rule)[0])
            reciprocals[f"with {bits} significant bits, {cut}"] = float(significant(exact, bits, rule)[0])
    return {text: value for text, value in reciprocals.items() if value and value != exact[0]}


def _mean_whole(e: SummedElements, count: int, rule: Rule) -> Array:
    return e.requantized((rule(e.acc / count) * count).astype(np.int64))


def _raw_mean_whole(e: SummedElements, count: int, rule: Rule) -> Array:
    zero = e.summands.zero_x
    return e.requantized(((rule(e.acc / count + zero) - zero) * count).astype(np.int64))


def _factor(e: SummedElements, by: float, rule: Rule | None) -> Array:
    acc: Any = e.acc * by
    return (
        e.requantized(acc if rule is None else rule(acc).astype(np.int64))
        if e.sums.rq.ndim == 1 or rule
        else e.finished(np.rint(acc * e.scale))
    )


def _two_means(e: SummedElements, axis: int, count: int, rule: Rule) -> Array:
    x = e.summands.centred_x
    first = rule(x.mean(axis + 1, keepdims=True))
    return e.requantized((rule(first.reshape(len(x), -1).mean(1)) * count).astype(np.int64))


def _reciprocal_mean(e: SummedElements, reciprocal: float, count: int, rule: Rule) -> Array:
    return e.requantized((rule(e.acc * reciprocal) * count).astype(np.int64))
