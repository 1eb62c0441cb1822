"""The sum multiplies an input element by the weight of another element: the weights are exchanged in pairs, reversed in
blocks, shifted, or in another order than the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting, sample
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "summand-order"
LATE = -1
OPS = ("conv", "conv_transpose", "fully_connected", "matmul")
LANES = (2, 4, 8, 16, 32, 64)


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case) if case.last.op in OPS else None
    if few is not None:
        shape = few.summands.products.shape[1:]
        yield from fitting(case, _ways(case, shape), in_parts=True)


def _ways(case: Case, shape: tuple[int, ...]) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    count = int(np.prod(shape))
    names = ("the first operand", "the second operand") if case.last.op == "matmul" else ("the input", "the weights")
    tried = {np.arange(count).tobytes()}
    for text, index in _indices(shape).items():
        if (key := index.tobytes()) not in tried:
            tried.add(key)
            for at, operand in enumerate(names):
                yield text.format(operand), partial(_moved, index=index, at=at)


def _indices(shape: tuple[int, ...]) -> dict[str, Array]:
    """Returns for each summand the index of the summand whose element is multiplied, by text with a placeholder for the
    operand."""
    channels, rows, columns = shape
    count = channels * rows * columns
    k, cube = np.arange(count), np.arange(count).reshape(shape)
    ways: dict[str, Array] = {
        "{} is in the order kernel row, kernel column, channel where channel, row, column is taken": cube.transpose(
            1, 2, 0
        ),
        "{} is in the order channel, row, column where kernel row, kernel column, channel is taken": (
            np.arange(count).reshape(rows, columns, channels).transpose(2, 0, 1)
        ),
        "{} is in the order channel, kernel column, kernel row where channel, row, column is taken": cube.transpose(
            0, 2, 1
        ),
        "{} is read backward": k[::-1],
        "{} is read one element too far, the last twice": np.minimum(k + 1, count - 1),
        "{} is read one element too early, the first twice": np.maximum(k - 1, 0),
        "{} has its first element read for every summand": 0 * k,
    }
    for n in LANES:
        if n > count:
            continue
        base, tail = k // n * n, count // n * n
        whole = np.where(base + n <= count, base + n - 1 - k % n, k)
        ways[
            "every two neighbouring elements of {} are exchanged"
            if n == 2
            else f"every {n} neighbouring elements of {{}} are reversed"
        ] = whole
        ways[f"{{}} has the first of every {n} elements read for all of them"] = base
        ways[f"{{}} has the last of every {n} elements read for all of them"] = np.minimum(base + n - 1, count - 1)
        ways[f"{{}} has its first {n} elements read again and again"] = k % n
        if tail < count:
            ways[f"after the last whole {n}, {{}} keeps the elements {n} before"] = np.where(k < tail, k, k - n)
            ways[f"after the last whole {n}, {{}} keeps the first elements"] = np.where(k < tail, k, k - tail)
            ways[f"after the last whole {n}, {{}} has the last of the whole ones read"] = np.minimum(k, tail - 1)
        if count % n == 0:
            ways[f"{{}} is interleaved over {n} lanes"] = (k % n) * (count // n) + k // n
            ways[f"{{}} is taken as interleaved over {n} lanes"] = k % (count // n) * n + k // (count // n)
    return {text: np.ascontiguousarray(index).reshape(-1) for text, index in ways.items()}


def _moved(e: SummedElements, index: Array, at: int) -> Array:
    s = e.summands
    shape = np.broadcast_shapes(s.x.shape, s.w.shape)
    both = [np.broadcast_to(v, shape).reshape(shape[0], -1) for v in (s.centred_x, s.centred_w)]
    both[at] = both[at][:, index]
    return e.added(both[0] * both[1])
