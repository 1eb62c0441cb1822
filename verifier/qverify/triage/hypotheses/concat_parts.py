"""concat puts its operands at wrong places: one after the other in memory, along another axis, at wrong offsets, each
from its first block only, or one in place of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod

import numpy as np

from qverify.ops.quantize import as_quantized
from qverify.triage.altered_kernels.inner_node import finished, inner_case
from qverify.triage.altered_kernels.variant_checks import check_where_it_differs, operand
from qverify.triage.case import Array, Case, element_bits
from qverify.triage.hypotheses import FaultVariant

NAME = "concat-parts"
OPS = ("concat",)
Join = Callable[[list[Array], int, Sequence[int]], Array]


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = inner_case(case)
    if inner is None or inner.last.op != "concat":
        return
    count = len(inner.last.inputs)
    for cost, text, join in _ways(count, inner.last.words[0], len(inner.spec.shape)):
        yield from check_where_it_differs(
            case, f"concat: {text}", partial(_compute_output, join=join), cost, copied=True
        )
    if inner.spec.shape == case.spec.shape:
        yield from _yield_wrong_offsets(case)


def _compute_output(case: Case, join: Join) -> Array:
    inner = inner_case(case)
    assert inner is not None
    parts = [
        as_quantized(operand(inner, n), inner.graph.spec(n), inner.spec) for n in inner.last.inputs if n is not None
    ]
    joined = join(parts, inner.last.words[0], inner.spec.shape)
    if joined.size != prod(inner.spec.shape):
        raise ValueError("not the output's size")
    return finished(case, joined.reshape(inner.spec.shape)).reshape(case.spec.shape)


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
        for value, phrase in ((0, "raw 0"),):
            yield 2.0, f"operand {at} (counted from 0) is not written: {phrase}", partial(_without, at=at, value=value)
        yield (
            1.5,
            f"of operand {at} (counted from 0) every outer block is the first one",
            partial(_first_block, which=(at,)),
        )
        yield 2.0, f"operand {at} (counted from 0) is reversed along the axis", partial(_reversed, at=at)
    yield 1.0, "of every operand each outer block is the first one", partial(_first_block, which=tuple(range(count)))


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
    """Returns the joined parts, of which the chosen operands repeat their first block of the dims before the axis."""
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


def _offsets(parts: list[Array], axis: int, of: str) -> list[int]:
    """Returns the place, in elements, at which each operand starts in a block of the output."""
    sizes, inner, item = [p.shape[axis] for p in parts], prod(parts[0].shape[axis + 1 :]), parts[0].dtype.itemsize
    before = [sum(sizes[:at]) for at in range(len(parts))]
    return {
        "slices": before,
        "first": [at * sizes[0] * inner for at in range(len(parts))],
        "own": [at * size * inner for at, size in enumerate(sizes)],
        "none": [0 for _ in parts],
        "before": [sizes[at - 1] * inner if at else 0 for at in range(len(parts))],
        "bytes": [n * inner * item for n in before],
        "late": [n * inner + inner for n in before],
        "early": [max(n * inner - inner, 0) for n in before],
        "reverse": [sum(sizes[at + 1 :]) * inner for at in range(len(parts))],
    }[of]


OFFSETS = {
    "slices": "the offset of an operand is counted in slices, not in elements (without the dimensions after the axis)",
    "first": "every operand starts at a multiple of the first one's size",
    "own": "every operand starts at a multiple of its own size",
    "none": "every operand is written at the start",
    "before": "an operand starts at the size of the one before it alone",
    "bytes": "the offset of an operand is counted in bytes where elements are meant",
    "late": "every operand is written one slice too late",
    "early": "every operand is written one slice too early",
    "reverse": "the operands are laid out from the end",
}


def _written(case: Case, of: str) -> tuple[Array, Array]:
    """Returns the flat output and a mask of the elements to which no operand is written."""
    inner = inner_case(case)
    assert inner is not None
    axis, y = inner.last.words[0], inner.spec
    parts = [as_quantized(operand(inner, n), inner.graph.spec(n), y) for n in inner.last.inputs if n is not None]
    block, starts = prod(y.shape[axis:]), _offsets(parts, axis, of)
    output, left = np.zeros(prod(y.shape), y.numpy_dtype), np.ones(prod(y.shape), bool)
    for part, start in zip(parts, starts, strict=True):  # the kernel writes operand by operand
        run = prod(part.shape[axis:])
        for at, values in enumerate(part.reshape(-1, run)):
            first = min(at * block + start, len(output))
            last = min(first + run, len(output))
            output[first:last], left[first:last] = values[: last - first], False
    return finished(case, output), left


def _yield_wrong_offsets(case: Case) -> Iterator[FaultVariant]:
    for of, phrase in OFFSETS.items():
        output, left = _written(case, of)
        differs = element_bits(case.recorded) != element_bits(case.healthy)
        if not (element_bits(output) == element_bits(case.recorded))[differs & ~left].all():
            continue
        values = np.unique(element_bits(case.recorded)[left])
        if len(values) > 1 and 2 * differs[left].sum() > left.sum() and differs[~left].any():
            text = f"concat: {phrase}; {np.count_nonzero(left)} elements keep what was in memory"
            yield FaultVariant(text, partial(_with_left, of=of, value=None, free=left), 1.5, free=left)
        elif len(values) < 2:
            value = case.recorded.reshape(-1)[left][:1]
            text = f"concat: {phrase}" + (f"; what is not written is {value[0]}" if len(value) else "")
            # Other values are taken from the record.
            known = not len(value) or value[0] in (
                0,
                *case.spec.zero_point,
            )
            cost = 1.5 if known else 1.5 + 8 * value.itemsize
            yield FaultVariant(text, partial(_with_left, of=of, value=value, free=left), cost, copied=True)


def _with_left(case: Case, of: str, value: Array | None, free: Array) -> Array:
    output, left = _written(case, of)
    if value is None:
        return np.where(free, case.recorded.reshape(-1), output).reshape(case.spec.shape)
    return (np.where(left, value[0], output) if len(value) else output).reshape(case.spec.shape)
