"""concat puts its operands at wrong places: one after the other in memory, along another axis, at wrong offsets, each
from its first block only, or one in place of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod

import numpy as np

from qverify.ops.quantize import as_quantized
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.inner_node import finished, inner_case
from qverify.triage.variant_checks import operand, where_it_differs

NAME = "concat-parts"
Join = Callable[[list[Array], int, Sequence[int]], Array]


def variants(case: Case) -> Iterator[FaultVariant]:
    of = inner_case(case)
    if of is None or of.last.op != "concat":
        return
    count = len(of.last.inputs)
    for cost, said, join in _ways(count, of.last.words[0], len(of.spec.shape)):
        yield from where_it_differs(case, f"concat: {said}", partial(_made, join=join), cost, copied=True)


def _made(case: Case, join: Join) -> Array:
    of = inner_case(case)
    assert of is not None
    parts = [as_quantized(operand(of, n), of.graph.spec(n), of.spec) for n in of.last.inputs if n is not None]
    joined = join(parts, of.last.words[0], of.spec.shape)
    if joined.size != prod(of.spec.shape):
        raise ValueError("not the output's size")
    return finished(case, joined.reshape(of.spec.shape)).reshape(case.spec.shape)


def _ways(count: int, axis: int, rank: int) -> Iterator[tuple[float, str, Join]]:
    yield 0.5, "the operands are written one after the other in memory, whatever the axis", _in_memory
    for other in range(rank):
        if other != axis:
            yield 2.0, f"the operands are joined along axis {other} in memory order", partial(_along, other=other)
    yield 1.0, "the operands are joined in reverse order", lambda parts, k, shape: np.concatenate(parts[::-1], k)
    yield 1.5, "the slices of the operands are interleaved along the axis", _interleaved
    for at in range(count):
        for other in range(count):
            if other != at:
                text = f"operand {at} (counted from 0) is replaced by operand {other}"
                yield 2.0, text, partial(_replaced, at=at, other=other)
        for value, said in ((0, "raw 0"),):
            yield 2.0, f"operand {at} (counted from 0) is not written: {said}", partial(_without, at=at, value=value)
        yield (
            1.5,
            f"of operand {at} (counted from 0) every outer block is the first one",
            partial(_first_block, which=(at,)),
        )
        yield 2.0, f"operand {at} (counted from 0) is reversed along the axis", partial(_reversed, at=at)
    yield 1.0, "of every operand each outer block is the first one", partial(_first_block, which=tuple(range(count)))
    yield (
        1.5,
        "every operand starts at a multiple of the first one's size; the rest is 0",
        partial(_at_offsets, of="first"),
    )
    yield 1.5, "every operand starts at a multiple of its own size; the rest is 0", partial(_at_offsets, of="own")
    yield 1.5, "every operand is written at the start; the rest is 0", partial(_at_offsets, of="none")
    yield (
        1.5,
        "an operand starts at the size of the one before it alone; the rest is 0",
        partial(_at_offsets, of="before"),
    )


def _in_memory(parts: list[Array], axis: int, shape: Sequence[int]) -> Array:
    return np.concatenate([p.reshape(-1) for p in parts])


def _along(parts: list[Array], axis: int, shape: Sequence[int], other: int) -> Array:
    return np.concatenate(parts, other)


def _interleaved(parts: list[Array], axis: int, shape: Sequence[int]) -> Array:
    if len({p.shape for p in parts}) > 1:
        raise ValueError("operands of other sizes")
    return np.stack(parts, axis + 1)


def _replaced(parts: list[Array], axis: int, shape: Sequence[int], at: int, other: int) -> Array:
    chosen = list(parts)
    chosen[at] = np.resize(parts[other], parts[at].shape) if parts[other].shape != parts[at].shape else parts[other]
    return np.concatenate(chosen, axis)


def _without(parts: list[Array], axis: int, shape: Sequence[int], at: int, value: int) -> Array:
    chosen = list(parts)
    chosen[at] = np.full_like(parts[at], value)
    return np.concatenate(chosen, axis)


def _first_block(parts: list[Array], axis: int, shape: Sequence[int], which: tuple[int, ...]) -> Array:
    """Returns the join where the chosen operands repeat their first block of the dims before the axis."""
    chosen = []
    for at, part in enumerate(parts):
        inner = part.shape[axis:]
        first = part.reshape(-1)[: prod(inner)].reshape(inner)
        chosen.append(np.broadcast_to(first, part.shape) if at in which else part)
    return np.concatenate(chosen, axis)


def _reversed(parts: list[Array], axis: int, shape: Sequence[int], at: int) -> Array:
    chosen = list(parts)
    chosen[at] = np.flip(parts[at], axis)
    return np.concatenate(chosen, axis)


def _at_offsets(parts: list[Array], axis: int, shape: Sequence[int], of: str) -> Array:
    output = np.zeros(tuple(shape), parts[0].dtype)
    view = np.moveaxis(output, axis, 0)
    for at, part in enumerate(parts):
        size = {"first": parts[0].shape[axis], "own": part.shape[axis], "none": 0, "before": parts[at - 1].shape[axis]}[
            of
        ]
        start = (size if at else 0) if of == "before" else at * size
        moved = np.moveaxis(part, axis, 0)[: max(shape[axis] - start, 0)]
        view[start : start + len(moved)] = moved
    return output
