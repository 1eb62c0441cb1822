"""Partial sums are too narrow: the accumulator saturates or is rounded after every summand, or sums of a few
neighbouring summands do, in some order of the summands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.triage.altered_kernels.narrow_floats import significant
from qverify.triage.altered_kernels.summed_elements import SummedElements, has_bias, requantization, sample, whole
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS

NAME = "partial-sums"
LATE = 1
OPS = LINEAR_OPS
WIDTHS = np.arange(8, 41)
FLOATS = {"float16": 11, "bfloat16": 8, "float32": 24} | {
    f"{n} significant bits": n for n in (6, 7, 9, 10, 12, 13, 14, 15, 16, 18, 20)
}
BLOCKS = (2, 4, 8, 16, 32, 64)
Order = Callable[[Array], Array]  # orders summands [S, channels, rows, columns] as [S, K]
CHANNELS_OUTER = "in the order channel, kernel row, kernel column"


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case)
    sums = requantization(case)
    if few is None or sums is None or case.last.op in ("mul", "average_pool"):
        return
    shape = few.summands.products.shape[1:]
    for text, order in _orders(shape).items():
        for start, begin in _starts(case).items():
            yield from _saturating(case, few, text, order, start, begin)
            yield from _floating(case, few, text, order, start, begin)
        yield from _blocks(case, few, text, order)


def _orders(shape: tuple[int, ...]) -> dict[str, Order]:
    channels, rows, columns = shape
    if rows * columns == 1 or channels == 1:
        return {"": _native, " from the last summand to the first": _backward}
    return {
        f" {CHANNELS_OUTER}": _native,
        " in the order kernel row, kernel column, channel": _channels_inner,
        f" backward, {CHANNELS_OUTER} from their ends": _backward,
    }


def _native(products: Array) -> Array:
    return products.reshape(len(products), -1)


def _backward(products: Array) -> Array:
    return _native(products)[:, ::-1]


def _channels_inner(products: Array) -> Array:
    return products.transpose(0, 2, 3, 1).reshape(len(products), -1)


def _starts(case: Case) -> dict[str, bool]:
    return {", the bias first": True, ", the bias added afterwards": False} if has_bias(case) else {"": False}


def _saturating(
    case: Case, few: SummedElements, order: str, of: Order, start: str, begin: bool
) -> Iterator[FaultVariant]:
    recorded = case.recorded.reshape(-1)[few.places]
    sums = _scan(few, of, begin, partial(_clipped, width=WIDTHS[:, None]), len(WIDTHS))
    finals = (False, True) if not begin and start else (False,)
    fits = [(_finished(few, sums, begin, final, WIDTHS[:, None]) == recorded).all(1) for final in finals]
    for at, width in enumerate(WIDTHS):
        for final in finals:
            if fits[final][at]:
                text = f"the accumulator has {width} bits and saturates after every summand{order}{start}"
                text += f", which saturates to {width} bits, too" if final else ""
                way = partial(_stepwise, of=of, begin=begin, final=final, width=int(width))
                yield FaultVariant(text, partial(whole, way=way, in_parts=True))


def _floating(
    case: Case, few: SummedElements, order: str, of: Order, start: str, begin: bool
) -> Iterator[FaultVariant]:
    recorded = case.recorded.reshape(-1)[few.places]
    precision = np.array([*FLOATS.values()])[:, None]
    sums = _scan(few, of, begin, partial(_shortened, bits=precision), len(FLOATS))
    fits = (_finished(few, sums, begin, False, 64) == recorded).all(1)
    for (phrase, bits), fit in zip(FLOATS.items(), fits, strict=True):
        if fit:
            text = f"the sum is accumulated in {phrase}: every partial sum is rounded to {bits} significant bits{order}{start}"
            way = partial(_rounded_steps, of=of, begin=begin, bits=bits)
            yield FaultVariant(text, partial(whole, way=way, in_parts=True))


def _scan(e: SummedElements, of: Order, begin: bool, after: Callable[[Array], Array], count: int) -> Array:
    """Returns the sums with `after` applied after every summand, [count, S]."""
    products = np.ascontiguousarray(of(e.summands.products).T)
    acc: Any = np.repeat((e.bias if begin else 0 * e.bias)[None], count, 0)
    for product in products:
        acc = after(acc + product)
    return np.asarray(acc)


def _clipped(acc: Array, width: Any) -> Array:
    half = np.int64(1) << (width - 1)
    return np.minimum(np.maximum(acc, -half), half - 1)


def _shortened(acc: Array, bits: Any) -> Array:
    return significant(acc.astype(np.float64), bits)


def _finished(e: SummedElements, acc: Array, begin: bool, final: bool, width: Any) -> Array:
    total = acc.astype(np.int64) + (0 if begin else e.bias)
    return e.requantized(_clipped(total, width) if final else total)


def _stepwise(e: SummedElements, of: Order, begin: bool, final: bool, width: int) -> Array:
    return _finished(e, _scan(e, of, begin, partial(_clipped, width=width), 1)[0], begin, final, width)


def _rounded_steps(e: SummedElements, of: Order, begin: bool, bits: int) -> Array:
    return _finished(e, _scan(e, of, begin, partial(_shortened, bits=bits), 1)[0], begin, False, 64)


def _blocks(case: Case, few: SummedElements, order: str, of: Order) -> Iterator[FaultVariant]:
    """Yields faults in which the sums of a few summands are narrow, but the sum of these is not."""
    recorded = case.recorded.reshape(-1)[few.places]
    count = int(np.prod(few.summands.products.shape[1:]))
    largest: dict[tuple[int, bool], int] = {}  # largest sums of blocks; a wider accumulator does not change them
    for text, how in _block_faults().items():
        block, lanes, width, _ = how
        if block >= count:
            continue
        if (block, lanes) not in largest:
            largest[block, lanes] = int(np.abs(_block_sums(few, of, block, lanes)).max(initial=0))
        if largest[block, lanes] >= (1 << width - 1) - 1 and (_by_blocks(few, of, *how) == recorded).all():
            way = partial(_by_blocks, of=of, block=how[0], lanes=how[1], width=how[2], saturated=how[3])
            yield FaultVariant(text.format(order), partial(whole, way=way, in_parts=True))


def _block_faults() -> dict[str, tuple[int, bool, int, bool]]:
    faults: dict[str, tuple[int, bool, int, bool]] = {}
    for width in (8, 12, 14, 15, 16, 17, 18, 20, 24, 28, 30, 31, 32):
        for saturated, verb in ((True, "saturates"), (False, "wraps")):
            faults[f"every product {verb} to {width} bits{{}}"] = (1, False, width, saturated)
            for block in BLOCKS:
                few = "two neighbouring" if block == 2 else f"{block} neighbouring"
                faults[f"the sum of every {few} products {verb} to {width} bits before it is added{{}}"] = (
                    block,
                    False,
                    width,
                    saturated,
                )
                lanes = f"the sum of every one of {block} lanes (each {block}th product) {verb} to {width} bits before the lanes are added{{}}"
                faults[lanes] = (block, True, width, saturated)
    return faults


def _block_sums(e: SummedElements, of: Order, block: int, lanes: bool) -> Array:
    """Returns the exact sum of every block of neighbouring products, or of every lane."""
    products = of(e.summands.products)
    short = np.pad(products, ((0, 0), (0, -products.shape[1] % block)))
    return np.asarray(short.reshape(len(short), -1, block).sum(1 if lanes else 2))


def _by_blocks(e: SummedElements, of: Order, block: int, lanes: bool, width: int, saturated: bool) -> Array:
    sums = _block_sums(e, of, block, lanes)
    half = 1 << width - 1
    narrow = np.clip(sums, -half, half - 1) if saturated else ((sums + half) & (2 * half - 1)) - half
    return e.requantized(narrow.sum(1) + e.bias)
