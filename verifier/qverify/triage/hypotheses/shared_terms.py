"""A zero point correction (the sum of one operand times the zero point of the other) is computed for one pixel, row or
channel of a block and used for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.summed_elements import (
    SummedElements,
    elements,
    fitting_alike,
    requantization,
    sample,
)
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "shared-terms"
LATE = -1
OPS = ("conv", "fully_connected", "matmul", "conv_transpose")
LANES = (2, 4, 8, 16, 32, 64)
Places = Callable[[Case, Array], Array]  # flat places whose correction is used, from flat places


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case) if case.last.op in OPS else None
    if few is None or requantization(case) is None:
        return
    for operand, zero in ((1, few.summands.zero_x), (0, few.summands.zero_w)):
        if np.any(zero):
            yield from fitting_alike(case, _ways(case, operand), in_parts=True, bits=0.7)


def _ways(case: Case, operand: int) -> Iterator[tuple[list[str], Callable[[SummedElements], Array]]]:
    names = (
        "the first operand" if case.last.op == "matmul" else "the input",
        "the second operand" if case.last.op == "matmul" else "the weights",
    )
    term = f"the correction of zero points, the zero point of {names[1 - operand]} times the sum of {names[operand]},"
    for text, places in _others(case):
        yield [f"{term} is that of {text}"], partial(_shared, operand=operand, places=places)


def _others(case: Case) -> Iterator[tuple[str, Places]]:
    shape = case.spec.shape
    if len(shape) > 2 and case.last.op != "matmul":
        axes = [(1, "channel", shape[1]), (-1, "pixel", int(np.prod(shape[2:]))), (len(shape) - 1, "column", shape[-1])]
        axes += [(2, "row", shape[2])] if len(shape) == 4 else []
    else:
        axes = [(len(shape) - 1, "column", shape[-1]), (len(shape) - 2, "row", shape[-2])]
    axes += [(0, "batch item", shape[0])] if len(shape) > 2 else []
    for axis, name, size in axes:
        if size < 2:
            continue
        for n in LANES:
            if n < 2 * size:
                yield f"the first {name} of every {n}", partial(_in_block, axis=axis, at=bind_last(_block, n, 0))
                yield f"the last {name} of every {n}", partial(_in_block, axis=axis, at=bind_last(_block, n, n - 1))
        yield f"the first {name} for all", partial(_in_block, axis=axis, at=bind_last(_block, size, 0))
        yield f"the last {name} for all", partial(_in_block, axis=axis, at=bind_last(_block, size, size - 1))
        yield f"the {name} before", partial(_in_block, axis=axis, at=bind_last(_moved, -1))
        yield f"the {name} after", partial(_in_block, axis=axis, at=bind_last(_moved, 1))


def _block(k: Array, n: int, at: int) -> Array:
    return k // n * n + at


def _moved(k: Array, by: int) -> Array:
    return np.maximum(k + by, 0)


def _in_block(case: Case, places: Array, axis: int, at: Callable[[Array], Array]) -> Array:
    shape = case.spec.shape
    if axis == -1:
        pixels = int(np.prod(shape[2:]))
        return places // pixels * pixels + np.minimum(at(places % pixels), pixels - 1)
    index = list(np.unravel_index(places, shape))
    index[axis] = np.minimum(at(index[axis]), shape[axis] - 1)
    return np.asarray(np.ravel_multi_index(index, shape))


def _shared(e: SummedElements, operand: int, places: Places) -> Array:
    other = elements(e.case, places(e.case, e.places))
    zero = np.reshape(e.summands.zero_w if operand == 0 else e.summands.zero_x, -1)
    return e.requantized(e.acc + zero * (_sum(e, operand) - _sum(other, operand)))


def _sum(e: SummedElements, operand: int) -> Array:
    s = e.summands
    values = (s.centred_x, s.centred_w)[operand]
    shape = np.broadcast_shapes(s.x.shape, s.w.shape)
    return np.broadcast_to(values, shape).reshape(len(e.places), -1).sum(1)
