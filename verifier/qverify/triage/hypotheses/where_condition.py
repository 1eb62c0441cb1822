"""where picks its values by another condition: inverted, constant, one for several elements, or shifted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.inner_node import inner_case
from qverify.triage.altered_kernels.variant_checks import inner_again, operand, where_it_differs, with_operand
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "where-condition"
OPS = ("where",)
LANES = (2, 4, 8, 16, 32, 64)


def _blocks(c: Array, size: int, how: Callable[..., Array]) -> Array:
    flat = c.reshape(-1)
    padded = np.concatenate([flat, np.zeros(-len(flat) % size, bool)]).reshape(-1, size)
    return np.repeat(how(padded, axis=1), size)[: len(flat)].reshape(c.shape)


def _ways() -> Iterator[tuple[float, str, Callable[[Array], Array]]]:
    yield 0.5, "the condition is inverted: the values are exchanged", lambda c: ~c
    yield 1.0, "the first value is always taken", np.ones_like
    yield 1.0, "the second value is always taken", np.zeros_like
    yield 2.0, "the condition is that of the element before", lambda c: np.roll(c.reshape(-1), 1).reshape(c.shape)
    yield 2.0, "the condition is that of the element after", lambda c: np.roll(c.reshape(-1), -1).reshape(c.shape)
    yield 2.0, "the condition of the first element is used for all", lambda c: np.full_like(c, c.reshape(-1)[0])
    yield 2.0, "the condition is read backward", lambda c: c.reshape(-1)[::-1].reshape(c.shape)
    yield 2.0, "the condition is read transposed", lambda c: np.ascontiguousarray(c.swapaxes(-1, -2)).reshape(c.shape)
    yield (
        3.0,
        "the condition is read one bit an element",
        lambda c: np.resize(np.unpackbits(c.reshape(-1).view(np.uint8), bitorder="little"), c.shape).astype(bool),
    )
    yield 3.0, "the condition is read four bytes an element", lambda c: np.resize(_wide(c), c.shape)
    for m in LANES:
        yield (
            2.5,
            f"{m} elements share one condition: that of the first of them",
            partial(_blocks, size=m, how=lambda b, axis: b[:, 0]),
        )
        yield 2.5, f"{m} elements share one condition: true if one of theirs is", partial(_blocks, size=m, how=np.any)
        yield 2.5, f"{m} elements share one condition: true if all of theirs are", partial(_blocks, size=m, how=np.all)


def _wide(c: Array) -> Array:
    flat = c.reshape(-1)
    return np.concatenate([flat[: len(flat) // 4 * 4].reshape(-1, 4).any(1), np.zeros(len(flat), bool)])


def variants(case: Case) -> Iterator[FaultVariant]:
    of = inner_case(case)
    if of is None or of.last.op != "where":
        return
    for cost, said, way in _ways():
        for whole in (False, True):
            name = of.last.inputs[0] or ""
            if not whole or operand(of, name).shape != of.spec.shape:
                text = f"where: {said}{' (after broadcasting)' if whole else ''}"
                yield from where_it_differs(case, text, partial(_made, way=way, whole=whole), cost)


def _made(case: Case, way: Callable[[Array], Array], whole: bool) -> Array:
    of = inner_case(case)
    assert of is not None
    name = of.last.inputs[0] or ""
    condition = operand(of, name).astype(bool)
    condition = np.ascontiguousarray(np.broadcast_to(condition, of.spec.shape)) if whole else condition
    return inner_again(case, with_operand(of, name, way(condition)))
