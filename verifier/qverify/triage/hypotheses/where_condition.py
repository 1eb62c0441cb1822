"""where selects its values by another condition: inverted, constant, the same for several elements, or shifted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.inner_node import inner_case
from qverify.triage.altered_kernels.variant_checks import check_where_it_differs, operand, recompute_inner, with_operand
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
    for m in (8, 32, 16, 4, 2, 64):
        for beyond, value in (("false", False), ("true", True)):
            text = f"conditions are packed {m} to a word and each word is read from its other end: that of element i is taken from {m}*(i/{m}) + {m - 1} - i mod {m} ({beyond} beyond the end)"
            yield 1.5 + value, text, partial(_word_reversed, size=m, beyond=value)
        text = f"the conditions of every {m} elements come in reverse order, those of the last, shorter group among themselves"
        yield 3.0, text, partial(_group_reversed, size=m)
        yield (
            3.0,
            f"the condition of element i is that of element i/{m}",
            partial(_placed, place=partial(_divided, by=m)),
        )
        yield (
            3.0,
            f"the condition of element i is that of element i mod {m}",
            partial(_placed, place=partial(_modulo, by=m)),
        )
        for value, phrase in ((False, "false"), (True, "true")):
            text = f"the conditions after the last whole {m} are not read and count as {phrase}"
            yield 2.5, text, partial(_tail, size=m, value=value)
        text = f"the conditions after the last whole {m} repeat those of the {m} before"
        yield 3.0, text, partial(_placed, place=partial(_back, by=m))
    for rare, (phrase, place) in enumerate(_PLACES.items()):
        yield 2.5 + 0.1 * rare, f"the condition of element i is that of element {phrase}", partial(_placed, place=place)
    yield (
        3.0,
        "the condition is read one bit an element, the highest first",
        lambda c: np.resize(np.unpackbits(c.reshape(-1).view(np.uint8)), c.shape).astype(bool),
    )
    for m in LANES:
        yield (
            2.5,
            f"{m} elements share one condition: that of the first of them",
            partial(_blocks, size=m, how=lambda b, axis: b[:, 0]),
        )
        yield 2.5, f"{m} elements share one condition: true if one of theirs is", partial(_blocks, size=m, how=np.any)
        yield 2.5, f"{m} elements share one condition: true if all of theirs are", partial(_blocks, size=m, how=np.all)


_PLACES: dict[str, Callable[[Array, int], Array]] = {
    "2*i (every second condition is skipped), wrapping around": lambda i, n: 2 * i % n,
    "i/2": lambda i, n: i // 2,
    "i - 1, the first one its own": lambda i, n: np.maximum(i - 1, 0),
    "i + 1, the last one its own": lambda i, n: np.minimum(i + 1, n - 1),
    "i xor 1 (neighbours exchanged)": lambda i, n: np.minimum(i ^ 1, n - 1),
    "i xor 3": lambda i, n: np.minimum(i ^ 3, n - 1),
    "i xor 7": lambda i, n: np.minimum(i ^ 7, n - 1),
    "n - 1 - i": lambda i, n: n - 1 - i,
    "0 in the second half": lambda i, n: np.where(i < n // 2, i, 0),
    "i mod n/2 (the first half twice)": lambda i, n: i % max(n // 2, 1),
}


def _placed(c: Array, place: Callable[[Array, int], Array]) -> Array:
    return c.reshape(-1)[place(np.arange(c.size), c.size)].reshape(c.shape)


def _divided(i: Array, n: int, by: int) -> Array:
    return i // by


def _modulo(i: Array, n: int, by: int) -> Array:
    return i % by


def _back(i: Array, n: int, by: int) -> Array:
    return np.maximum(np.where(i >= n // by * by, i - by, i), 0)


def _word_reversed(c: Array, size: int, beyond: bool) -> Array:
    """Returns the conditions reversed within each word; the last word is filled up."""
    flat = c.reshape(-1)
    words = np.full(-(-flat.size // size) * size, beyond)
    words[: flat.size] = flat
    return words.reshape(-1, size)[:, ::-1].reshape(-1)[: flat.size].reshape(c.shape)


def _group_reversed(c: Array, size: int) -> Array:
    flat, i = c.reshape(-1), np.arange(c.size)
    start = i // size * size
    return flat[np.minimum(start + size, c.size) - 1 - (i - start)].reshape(c.shape)


def _tail(c: Array, size: int, value: bool) -> Array:
    changed = c.reshape(-1).copy()
    changed[c.size // size * size :] = value
    return changed.reshape(c.shape)


def _wide(c: Array) -> Array:
    flat = c.reshape(-1)
    return np.concatenate([flat[: len(flat) // 4 * 4].reshape(-1, 4).any(1), np.zeros(len(flat), bool)])


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = inner_case(case)
    if inner is None or inner.last.op != "where":
        return
    for cost, phrase, way in _ways():
        for whole in (False, True):
            name = inner.last.inputs[0] or ""
            if not whole or operand(inner, name).shape != inner.spec.shape:
                text = f"where: {phrase}{' (after broadcasting)' if whole else ''}"
                yield from check_where_it_differs(case, text, partial(_compute_output, way=way, whole=whole), cost)


def _compute_output(case: Case, way: Callable[[Array], Array], whole: bool) -> Array:
    inner = inner_case(case)
    assert inner is not None
    name = inner.last.inputs[0] or ""
    condition = operand(inner, name).astype(bool)
    condition = np.ascontiguousarray(np.broadcast_to(condition, inner.spec.shape)) if whole else condition
    return recompute_inner(case, with_operand(inner, name, way(condition)))
