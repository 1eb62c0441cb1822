"""An output channel is summed with the weights of another channel, or an output row with the input of another row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summed_elements import SummedElements, elements, fitting_alike, sample
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.parameter_index import Index, indices
from qverify.triage.linear_sums import linear

NAME = "operand-rows"
LATE = -1
OPS = ("conv", "fully_connected", "matmul", "conv_transpose")
Ways = Iterator[tuple[list[str], Callable[[SummedElements], Array]]]


def variants(case: Case) -> Iterator[FaultVariant]:
    sums = linear(case) if case.last.op in OPS else None
    if sums is None or sample(case) is None:
        return
    rank = len(case.spec.shape)
    second = "the second operand's column" if case.last.op == "matmul" else "the weights"
    yield from fitting_alike(case, _ways(case, sums.axis % rank, second, 1), in_parts=True)
    if case.last.op in ("fully_connected", "matmul"):
        first = "the first operand's row" if case.last.op == "matmul" else "the input's row"
        yield from fitting_alike(case, _ways(case, rank - 2, first, 0), in_parts=True)


def _ways(case: Case, axis: int, what: str, operand: int) -> Ways:
    size = case.spec.shape[axis]
    if size < 2:
        return
    name = "o" if operand else "i"
    texts: dict[bytes, list[str]] = {}
    ways: dict[bytes, Index] = {}
    for text, index in indices(case, size).items():
        taken = np.asarray(index(np.arange(size)))
        if (taken != np.arange(size)).any():
            row_text = text if operand else text.replace("channel", "row").replace("o ", "i ")
            row_text = row_text.replace(
                "the place in its group, the first group's for all", "every group has the weights of the first group"
            )
            texts.setdefault(taken.tobytes(), []).append(row_text)
            ways.setdefault(taken.tobytes(), index)
    place = "output channel" if operand else "output row"
    for key, ones in texts.items():
        phrases = [f"{what} of {place} {name} {'is' if operand == 0 else 'are'} read at index {text}" for text in ones]
        yield phrases, partial(_read, axis=axis, index=ways[key], operand=operand)


def _read(e: SummedElements, axis: int, index: Index, operand: int) -> Array:
    at = list(np.unravel_index(e.places, e.case.spec.shape))
    at[axis] = np.asarray(index(at[axis]))
    other = elements(e.case, np.asarray(np.ravel_multi_index(at, e.case.spec.shape))).summands
    if operand:
        return e.added(e.summands.centred_x * other.centred_w)
    return e.added(other.centred_x * e.summands.centred_w)
