"""A transposed convolution scatters its input over the output, and overlapping results overwrite each other instead of
being added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summands import Summands
from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting, has_bias
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "transposed-overlaps"
OPS = ("conv_transpose",)
LATE = -1
Kept = Callable[[Summands], Array]  # mask of the summands [S, channels, kernel rows, kernel columns] that count


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op == "conv_transpose":
        yield from fitting(
            case,
            _ways(has_bias(case)),
            in_parts=True,
            bits=lambda text: 0.4 if "input pixel in row-major" in text else 0.6,
        )


def _ways(biased: bool) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    for phrase, kept in _KEPT.items():
        yield f"where kernels of neighbouring input pixels overlap, {phrase}", partial(_some, kept=kept, bias=1)
        if biased:
            text = f"where kernels of neighbouring input pixels overlap, {phrase}, and the bias is lost"
            yield text, partial(_some, kept=kept, bias=0)
    text = "where kernels of neighbouring input pixels overlap, the largest of their sums counts instead of the total"
    yield text, _largest
    if biased:
        yield "the bias is added once for every input pixel that reaches the output pixel", _bias_each


def _number(s: Summands) -> Array:
    """Returns the place of the input pixel of every tap in its plane; -1 where no element is read."""
    return np.where(s.read, s.row * 100_000 + s.column, -1)


def _only(s: Summands, last: bool, of: Callable[[Summands], Array]) -> Array:
    number = of(s)
    if last:
        return np.asarray((number == number.max((1, 2, 3), keepdims=True)) & s.read)
    least = np.where(s.read, number, np.iinfo(np.int64).max).min((1, 2, 3), keepdims=True)
    return np.asarray((number == least) & s.read)


def _rows(s: Summands) -> Array:
    return np.where(s.read, s.row + 0 * s.column, -1)


def _columns(s: Summands) -> Array:
    return np.where(s.read, s.column + 0 * s.row, -1)


def _last_channel(s: Summands, kept: Kept) -> Array:
    channels = s.plane.shape[1]
    return kept(s) & (np.arange(channels) == channels - 1).reshape(1, -1, 1, 1)


_PIXEL = partial(_only, last=True, of=_number)
_KEPT: dict[str, Kept] = {
    "the values are stored, not added: only the last input pixel in row-major order counts, with all its channels": _PIXEL,
    "only the first input pixel in row-major order counts, with all its channels": partial(
        _only, last=False, of=_number
    ),
    "rows are stored over each other, not added: only the last input row counts": partial(_only, last=True, of=_rows),
    "only the first input row counts": partial(_only, last=False, of=_rows),
    "columns are stored over each other, not added: only the last input column counts": partial(
        _only, last=True, of=_columns
    ),
    "only the first input column counts": partial(_only, last=False, of=_columns),
    "the values are stored, not added, for every channel: only the last channel of the last input pixel counts": partial(
        _last_channel, kept=_PIXEL
    ),
    "the values are stored, not added: only the last input channel counts": partial(
        _last_channel, kept=lambda s: s.read
    ),
}


def _some(e: SummedElements, kept: Kept, bias: int) -> Array:
    products = e.summands.products * kept(e.summands)
    return e.requantized(products.reshape(len(products), -1).sum(1) + bias * e.bias)


def _largest(e: SummedElements) -> Array:
    sums = e.summands.products.sum(1, keepdims=True)
    sums = np.where(e.summands.read, sums, np.iinfo(np.int64).min)
    most = sums.max((1, 2, 3))
    return e.requantized(np.where(e.summands.read.any((1, 2, 3)), most, 0) + e.bias)


def _bias_each(e: SummedElements) -> Array:
    count = e.summands.read.reshape(len(e.places), -1).sum(1)
    return e.requantized(e.acc + (count - 1) * e.bias)
