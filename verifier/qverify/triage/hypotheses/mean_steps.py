"""A mean is computed in steps with a rounding between them: rows first, a running mean, means of pairs or blocks, or
elements that are divided before they are added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.rounding_rules import EVEN, NEAREST, RULES, Rule
from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting, requantization, sample
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "mean-steps"
LATE = -1
OPS = ("global_average_pool", "reduce_mean", "average_pool")
CUTS = (
    EVEN,
    "half up",
    "half away from zero",
    "down (floor)",
    "toward zero (truncated)",
    "by adding 0.5 and truncating toward zero",
)
BLOCKS = (2, 4, 8, 16, 32, 64)
FRACTION = (0, 1, 2, 3, 4, 6, 8)
Ways = Iterator[tuple[str, Callable[[SummedElements], Array]]]


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op not in OPS or requantization(case) is None:
        return
    few = sample(case)
    if few is not None:
        yield from fitting(
            case, _ways(few.summands.x.shape[1:], bool(few.summands.zero_x)), in_parts=True, bits=_likely
        )


def _likely(text: str) -> float:
    return 1.0 - 0.3 * ("nearest" in text) - 0.2 * ("half up" in text) + 0.3 * ("by adding" in text)


def _ways(shape: tuple[int, ...], zero: bool) -> Ways:
    count = int(np.prod(shape))
    yield from _yield_picks()
    for raw, of in ((False, "x - zero point"), (True, "the raw integers"))[: 1 + zero]:
        for phrase in CUTS:
            rule = RULES[phrase]
            yield from _yield_axis_orders(shape, phrase, raw, of)
            text = f"a running mean in integers is kept: mean += ({of} - mean) / i with i = 1, 2, ..., each division rounded {phrase}"
            yield text, partial(_running, rule=rule, raw=raw)
            yield (
                f"neighbours are averaged in pairs again and again, each mean of two rounded {phrase} ({of})",
                partial(_pairs, rule=rule, raw=raw),
            )
            yield (
                f"every element of {of} is divided by the count and rounded {phrase} before it is added",
                partial(_divided, rule=rule, raw=raw),
            )
            for block in BLOCKS:
                if block < count:
                    yield (
                        f"the mean of every {block} elements of {of} is rounded {phrase}, and these means are averaged",
                        partial(_by_blocks, block=block, rule=rule, raw=raw),
                    )


def _yield_picks() -> Ways:
    for text, pick in _PICKS.items():
        yield f"{text} is taken instead of the mean", partial(_picked, pick=pick)


_PICKS: dict[str, Callable[[Array], Array]] = {
    "the largest element": lambda x: np.nanmax(x, 1),
    "the smallest element": lambda x: np.nanmin(x, 1),
    "the first element": lambda x: x[:, 0],
    "the last element": lambda x: x[:, -1],
    "the middle element": lambda x: x[:, x.shape[1] // 2],
    "the mean of the largest and the smallest element": lambda x: (np.nanmax(x, 1) + np.nanmin(x, 1)) / 2,
    "the median": lambda x: np.nanmedian(x, 1),
}


def _picked(e: SummedElements, pick: Callable[[Array], Array]) -> Array:
    x, read = _elements(e, False)
    chosen = pick(np.where(read, x, np.nan).reshape(len(x), -1))
    return _of_mean(e, np.nan_to_num(chosen), False, _count(read))


def _yield_axis_orders(shape: tuple[int, ...], text: str, raw: bool, of: str) -> Ways:
    for axis, name, then in ((3, "row", "rows"), (2, "column", "columns")) if min(shape[1:]) > 1 else ():
        ties = shape[axis - 1] % 2 == 0
        if not ties and text in NEAREST and (raw or text != EVEN):
            continue  # the same as without ties, which cannot occur
        how = (
            "to the nearest (half up, half away or half to even: there are no ties)"
            if not ties and text in NEAREST
            else text
        )
        for bits in FRACTION:
            to = f"to 1/{1 << bits}" if bits else "to an integer"
            yield (
                f"the mean is taken in two steps, axis by axis: the mean of {of} of every {name} is rounded {how} {to}, "
                f"then these means of {then} are averaged and scaled",
                partial(_axis_first, axis=axis, rule=RULES[text], raw=raw, bits=bits),
            )


def _elements(e: SummedElements, raw: bool) -> tuple[Array, Array]:
    """Returns the elements [S, rows, columns] as float64, and which of them are read."""
    s = e.summands
    x = (s.x if raw else s.centred_x).astype(np.float64)[:, 0]
    return x, np.broadcast_to(s.read, s.x.shape)[:, 0]


def _of_mean(e: SummedElements, mean: Array, raw: bool, count: Array) -> Array:
    total = (mean - (e.summands.zero_x if raw else 0)) * count
    whole = np.rint(total)
    return e.requantized(whole.astype(np.int64) if np.allclose(total, whole) or e.sums.rq.ndim != 1 else total)


def _count(read: Array) -> Array:
    return np.maximum(read.reshape(len(read), -1).sum(1), 1)


def _axis_first(e: SummedElements, axis: int, rule: Rule, raw: bool, bits: int) -> Array:
    x, read = _elements(e, raw)
    counts = read.sum(axis - 1)
    means = rule((x * read).sum(axis - 1) / np.maximum(counts, 1) * 2.0**bits) / 2.0**bits
    return _of_mean(e, (means * counts).sum(1) / _count(read), raw, _count(read))


def _running(e: SummedElements, rule: Rule, raw: bool) -> Array:
    x, read = _elements(e, raw)
    x, read = x.reshape(len(x), -1), read.reshape(len(x), -1)
    mean, count = np.zeros(len(x)), np.zeros(len(x))
    for k in range(x.shape[1]):
        count = count + read[:, k]
        mean = np.where(read[:, k], mean + rule((x[:, k] - mean) / np.maximum(count, 1)), mean)
    return _of_mean(e, mean, raw, _count(read))


def _pairs(e: SummedElements, rule: Rule, raw: bool) -> Array:
    x, read = _elements(e, raw)
    level = np.where(read, x, e.summands.zero_x if raw else 0).reshape(len(x), -1)
    while level.shape[1] > 1:
        odd = level[:, level.shape[1] // 2 * 2 :]
        level = np.concatenate([rule((level[:, 0 : level.shape[1] // 2 * 2 : 2] + level[:, 1::2]) / 2), odd], 1)
    return _of_mean(e, level[:, 0], raw, _count(read))


def _divided(e: SummedElements, rule: Rule, raw: bool) -> Array:
    x, read = _elements(e, raw)
    count = _count(read)
    total = (rule(x / count[:, None, None]) * read).reshape(len(x), -1).sum(1)
    return _of_mean(e, total, raw, count)


def _by_blocks(e: SummedElements, block: int, rule: Rule, raw: bool) -> Array:
    x, read = _elements(e, raw)
    x, read = x.reshape(len(x), -1), read.reshape(len(x), -1)
    short = ((0, 0), (0, -x.shape[1] % block))
    values = np.pad(x * read, short).reshape(len(x), -1, block).sum(2)
    counts = np.pad(read, short).reshape(len(x), -1, block).sum(2)
    means = rule(values / np.maximum(counts, 1))
    return _of_mean(e, (means * counts).sum(1) / _count(read), raw, _count(read))
