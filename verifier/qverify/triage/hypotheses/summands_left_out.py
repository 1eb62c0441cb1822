"""A part of the sum is left out or counted twice: the tail after whole vectors, every second element, the first or last
ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.summed_elements import SummedElements, fitting, sample

NAME = "summands-left-out"
LANES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)
Ways = Iterator[tuple[str, Callable[[SummedElements], Array]]]


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case)
    if few is None or case.last.op == "mul":
        return
    shape = few.summands.products.shape[1:]
    seen: set[bytes] = set()
    yield from fitting(case, _ways(shape, seen, case.last.op), in_parts=True)


def numbered(shape: tuple[int, ...], op: str) -> dict[str, Array]:
    """Returns how a kernel may count the summands [channels, rows, columns], by the text of the order."""
    channels, rows, columns = shape
    every = np.arange(channels * rows * columns)
    if op in ("fully_connected", "matmul") or shape[1:] == (1, 1):
        return {"": every.reshape(shape)}
    if op in ("global_average_pool", "reduce_mean"):
        found = {"": every.reshape(shape)}
        if rows > 1:
            found[" of every row"] = np.broadcast_to(np.arange(columns), shape)
            found[" of the rows"] = np.broadcast_to(np.arange(rows)[:, None], shape)
        return found
    orders = {
        " in the order channel, kernel row, kernel column": every.reshape(shape),
        " in the order kernel row, kernel column, channel": every.reshape(rows, columns, channels).transpose(2, 0, 1),
        " of the input channels of every tap": np.broadcast_to(np.arange(channels)[:, None, None], shape),
        " of the kernel's taps": np.broadcast_to(np.arange(rows * columns).reshape(rows, columns), shape),
        " of the kernel's columns": np.broadcast_to(np.arange(columns), shape),
        " of the kernel's rows": np.broadcast_to(np.arange(rows)[:, None], shape),
    }
    return {said: order for said, order in orders.items() if order.max()}


def _ways(shape: tuple[int, ...], seen: set[bytes], op: str) -> Ways:
    for order, number in numbered(shape, op).items():
        count = int(number.max()) + 1
        noun = order or (" of the depth" if op in ("fully_connected", "matmul") else "")
        for said, chosen in _parts(count).items():
            mask = chosen[number]
            for times, verb in ((0, "left out of the sum"), (2, "counted twice in the sum")):
                weight = np.where(mask, times, 1)
                if mask.any() and (key := weight.tobytes()) not in seen:
                    seen.add(key)
                    yield (
                        f"{said}{noun} {'is' if said.startswith('the one') else 'are'} {verb}",
                        partial(_weighted, weight=weight),
                    )


def _parts(count: int) -> dict[str, Array]:
    """Returns parts of `count` numbered summands, each a mask."""
    k = np.arange(count)
    parts: dict[str, Array] = {"the one summand that is last": k == count - 1, "the one summand that is first": k == 0}
    for n in LANES:
        if count % n:
            parts[f"the last {count % n} of {count} summands, after the last whole {n},"] = k >= count // n * n
            parts[f"the first {count % n} of {count} summands, before whole blocks of {n},"] = k < count % n
            if count > n:
                parts[
                    f"the summands {count - n} to {count // n * n - 1} of {count}, where the last vector of {n} overlaps the one before,"
                ] = (k >= count - n) & (k < count // n * n)
        if count > n:
            parts[f"all summands from the {n}th on (of {count})"] = k >= n
            parts[f"the first {n} of {count} summands"] = k < n
            parts[f"the last {n} of {count} summands"] = k >= count - n
            parts[f"every {n}th summand, the first of each {n},"] = k % n == 0
            parts[f"every {n}th summand, the last of each {n},"] = k % n == n - 1
            parts[f"all summands but the first of each {n},"] = k % n != 0
            parts[f"every second block of {n} summands, the even ones,"] = k // n % 2 == 0
            parts[f"every second block of {n} summands, the odd ones,"] = k // n % 2 == 1
            parts[f"the last whole block of {n} summands"] = k // n == count // n - 1
    parts["the middle one of the summands"] = k == count // 2
    parts["all summands but the first"] = k > 0
    return parts


def _weighted(e: SummedElements, weight: Array) -> Array:
    return e.added(e.summands.products * weight)
