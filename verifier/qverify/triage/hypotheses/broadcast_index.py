"""A product of two tensors reads the smaller operand at the wrong place: not repeated, or repeated along another
axis."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.triage.case import Array, Case, UnitChange
from qverify.triage.hypotheses import FaultVariant

NAME = "broadcast-index"
OPS = ("mul",)
NAMES = ("the first operand", "the second operand")


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op != "mul":
        return
    shape = case.spec.shape
    for at, operand in enumerate(NAMES):
        name = case.last.inputs[at] or ""
        operand_shape = case.graph.spec(name).shape
        size = int(np.prod(operand_shape))
        right = np.broadcast_to(np.arange(size).reshape(operand_shape), shape).reshape(-1)
        tried = {right.tobytes()}
        for text, index in _indices(shape, operand_shape).items():
            if (key := np.ascontiguousarray(index, np.int64).tobytes()) not in tried:
                tried.add(key)
                yield FaultVariant(text.format(operand), partial(_read, at=at, index=index))


def _indices(shape: tuple[int, ...], own: tuple[int, ...]) -> dict[str, Array]:
    size, count = int(np.prod(own)), int(np.prod(shape))
    flat = np.arange(count)
    where = np.unravel_index(flat, shape)
    ways = {
        "only the first element of {} is used": 0 * flat,
        "{} is repeated element by element of memory, not along its axes (index modulo its size)": flat % size,
        "{} is not repeated: beyond its end its last element is used": np.minimum(flat, size - 1),
        "every element of {} is used for a run of neighbours instead of being repeated along its axes": flat
        * size
        // count,
        "{} is read backward": np.broadcast_to(np.arange(size).reshape(own), shape).reshape(-1) * -1 + size - 1,
    }
    padded = (1,) * (len(shape) - len(own)) + own
    strides = [int(np.prod(padded[i + 1 :])) for i in range(len(padded))]
    for axis in (i for i, n in enumerate(padded) if n > 1):
        rest = sum(where[i] % padded[i] * strides[i] for i in range(len(shape)) if i != axis)
        for other in range(len(shape)):
            if other != axis:
                ways[f"{{}} is read along axis {other} instead of axis {axis}"] = (
                    rest + where[other] % padded[axis] * strides[axis]
                )
        ways[f"{{}} has only its first place on axis {axis} read"] = rest + 0 * flat
        for m in (2, 4, 8, 16, 32):
            ways[f"{{}} is read at its place on axis {axis} modulo {m}"] = (
                rest + where[axis] % padded[axis] % m * strides[axis]
            )
    return ways


def _read(case: Case, at: int, index: Array) -> Array:
    """Returns the output with an operand expanded to the size of the output, whose elements are taken by index."""
    name = case.last.inputs[at] or ""
    value = case.graph.constants[name] if name in case.graph.constants else case.inputs[name]
    whole = value.reshape(-1)[index].reshape(case.spec.shape)
    if name in case.graph.constants:
        return case.recompute(UnitChange(constants={name: whole}))
    return case.recompute(UnitChange(inputs={name: whole}))
