"""A part of the sum is left out or counted twice: the tail after whole vectors, every second element, or the first or
last elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summed_elements import SUMMED_OPS, SummedElements, fitting_alike, sample
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "summands-left-out"
LATE = -1
OPS = SUMMED_OPS
MOST_TEXTS = 6
STRUCTURE = KERNEL_ROWS, KERNEL_COLUMNS, INPUT_CHANNELS, KERNEL_TAPS = (
    "kernel rows",
    "kernel columns",
    "input channels of every tap",
    "kernel taps",
)
LANES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case)
    if few is None or case.last.op == "mul":
        return
    shape = few.summands.products.shape[1:]
    yield from fitting_alike(case, _ways(shape, case.last.op), in_parts=True)


def numbered(shape: tuple[int, ...], op: str) -> dict[str, Array]:
    """Returns ways to number the summands [channels, rows, columns], by the text of the order."""
    channels, rows, columns = shape
    every = np.arange(channels * rows * columns)
    if op in ("fully_connected", "matmul") or shape[1:] == (1, 1):
        return {"": every.reshape(shape)}
    if op in ("global_average_pool", "reduce_mean"):
        orders = {"": every.reshape(shape)}
        if rows > 1:
            orders[" of every row"] = np.broadcast_to(np.arange(columns), shape)
            orders[" of the rows"] = np.broadcast_to(np.arange(rows)[:, None], shape)
        return orders
    orders = {
        KERNEL_ROWS: np.broadcast_to(np.arange(rows)[:, None], shape),
        KERNEL_COLUMNS: np.broadcast_to(np.arange(columns), shape),
        INPUT_CHANNELS: np.broadcast_to(np.arange(channels)[:, None, None], shape),
        " in the order channel, kernel row, kernel column": every.reshape(shape),
        " in the order kernel row, kernel column, channel": every.reshape(rows, columns, channels).transpose(2, 0, 1),
        KERNEL_TAPS: np.broadcast_to(np.arange(rows * columns).reshape(rows, columns), shape),
    }
    return {text: order for text, order in orders.items() if order.max()}


def _ways(shape: tuple[int, ...], op: str) -> Iterator[tuple[list[str], Callable[[SummedElements], Array]]]:
    """Yields each part with all its texts, since parts in one order may be equal to parts in another."""
    parts: dict[tuple[bytes, int], tuple[list[str], Array]] = {}
    for order, number in numbered(shape, op).items():
        count = int(number.max()) + 1
        noun = order or (" of the depth" if op in ("fully_connected", "matmul") else "")
        for texts, chosen in _parts(count, noun):
            mask = np.ascontiguousarray(np.broadcast_to(chosen[number], shape))
            if mask.any():
                key = mask.tobytes()
                for times, verb in ((0, "left out of the sum"), (2, "counted twice in the sum")):
                    known, _ = parts.setdefault((key, times), ([], mask))
                    known += [text.format(verb) for text in texts]
    for (_, times), (texts, mask) in parts.items():
        yield texts[:MOST_TEXTS], partial(_weighted, weight=np.where(mask, times, 1))


def _parts(count: int, noun: str) -> Iterator[tuple[list[str], Array]]:
    """Yields (sentences with a placeholder for the change, mask) for parts of `count` numbered summands."""
    k = np.arange(count)
    of = f"of the {count} {noun}" if noun in STRUCTURE else f"of the {count} summands{noun}"
    lanes = [n for n in LANES if count % n and n <= 2 * count]
    for rest in dict.fromkeys(count % n for n in lanes):
        every = [n for n in lanes if count % n == rest]
        sizes = [str(n) for n in [m for m in every if m & (m - 1) == 0] or every]
        both = [" or ".join(sizes), *sizes[:1]] if len(sizes) > 1 else sizes
        yield (
            [
                f"the last {rest} {of}, those after the last whole {n} (from the {count - rest}th on), are {{}}"
                for n in both
            ],
            k >= count - rest,
        )
        yield [f"the first {rest} {of}, those before whole blocks of {n}, are {{}}" for n in both], k < rest
    for text, mask in _blocks(count, of, lanes).items():
        yield [text], mask


def _blocks(count: int, of: str, lanes: list[int]) -> dict[str, Array]:
    k = np.arange(count)
    parts: dict[str, Array] = {}
    for n in lanes:
        if count > n:
            text = f"the last vector of {n} {of} overlaps the one before: summands {count - n} to {count // n * n - 1} are {{}}"
            parts[text] = (k >= count - n) & (k < count // n * n)
    parts |= {f"the last one {of} is {{}}": k == count - 1, f"the first one {of} is {{}}": k == 0}
    for n in LANES:
        if count > n:
            parts[f"everything from the {n}th on {of} is {{}}"] = k >= n
            parts[f"the first {n} {of} are {{}}"] = k < n
            parts[f"the last {n} {of} are {{}}"] = k >= count - n
            parts[f"the first of every {n} {of} is {{}}"] = k % n == 0
            parts[f"the last of every {n} {of} is {{}}"] = k % n == n - 1
            parts[f"all but the first of every {n} {of} are {{}}"] = k % n != 0
            parts[f"every second block of {n} {of} is {{}}, the 1st, 3rd and so on"] = k // n % 2 == 0
            parts[f"every second block of {n} {of} is {{}}, the 2nd, 4th and so on"] = k // n % 2 == 1
            parts[f"the last whole block of {n} {of} is {{}}"] = k // n == count // n - 1
            parts[f"all but the last block of {n} {of} are {{}}"] = k // n != (count - 1) // n
            parts[f"the last block of {n} {of} is {{}}, whole or not"] = k // n == (count - 1) // n
    parts[f"the middle one {of} is {{}}"] = k == count // 2
    parts |= {f"all but the first {of} are {{}}": k > 0, f"all but the last {of} are {{}}": k < count - 1}
    return parts


def _weighted(e: SummedElements, weight: Array) -> Array:
    return e.added(e.summands.products * weight)
