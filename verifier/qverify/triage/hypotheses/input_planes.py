"""A windowed op or mean reads other input planes than its own: of another group, another batch item, or by another
stride."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summed_elements import words_of
from qverify.triage.case import Array, Case, UnitChange
from qverify.triage.hypotheses import FaultVariant

NAME = "input-planes"
OPS = (
    "conv",
    "conv_transpose",
    "average_pool",
    "max_pool",
    "global_average_pool",
    "fully_connected",
    "matmul",
    "reduce_mean",
)
Index = Callable[[Array], Array]


def variants(case: Case) -> Iterator[FaultVariant]:
    name = case.last.inputs[0] or ""
    if case.last.op not in OPS or name not in case.inputs or len(case.graph.spec(name).shape) < 2:
        return
    shape = case.graph.spec(name).shape
    tried: set[tuple[int, bytes]] = set()
    for axis, text, index in [*_batches(shape[0]), *_groups(case, shape[1])]:
        taken = np.asarray(index(np.arange(shape[axis])))
        key = (axis, taken.tobytes())
        if (taken != np.arange(shape[axis])).any() and key not in tried:
            tried.add(key)
            yield FaultVariant(text, partial(_taken, name=name, axis=axis, index=taken))


def _taken(case: Case, name: str, axis: int, index: Array) -> Array:
    return case.recompute(UnitChange(inputs={name: np.ascontiguousarray(case.inputs[name].take(index, axis))}))


def _batches(n: int) -> Iterator[tuple[int, str, Index]]:
    if n > 1:
        yield 0, "every batch item reads the input of the first one", lambda b: 0 * b
        yield 0, "every batch item reads the input of the last one", lambda b: 0 * b + n - 1
        yield 0, "batch items read the input in reverse order", lambda b: b[::-1]
        yield (
            0,
            "every batch item reads the input of the one before (the first its own)",
            lambda b: np.maximum(b - 1, 0),
        )
        yield (
            0,
            "every batch item reads the input of the next one (the last its own)",
            lambda b: np.minimum(b + 1, n - 1),
        )
        for m in (2, 4, 8):
            for text, taken in _blocks(np.arange(n), m).items():
                yield 0, text.format("batch item"), partial(_given, taken=taken)


def _groups(case: Case, channels: int) -> Iterator[tuple[int, str, Index]]:
    """Yields wrong input channels of a grouped convolution."""
    if case.last.op not in ("conv", "conv_transpose") or (groups := words_of(case)["group"]) < 2:
        return
    per = channels // groups
    out = case.spec.shape[1] // groups
    yield 1, "every group reads the input channels of the first group", lambda c: c % per
    yield 1, "every group reads the input channels of the last group", lambda c: c % per + channels - per
    yield (
        1,
        "every group reads the input channels of the group before (the first its own)",
        lambda c: np.where(c < per, c, c - per),
    )
    yield (
        1,
        "every group reads the input channels of the next group (the last its own)",
        lambda c: np.where(c + per < channels, c + per, c),
    )
    yield (
        1,
        "the groups read the input channels in reverse order of groups",
        lambda c: (groups - 1 - c // per) * per + c % per,
    )
    yield (
        1,
        f"input channels are taken interleaved: group g reads channels g, g + {groups} ...",
        lambda c: c % per * groups + c // per,
    )
    yield (
        1,
        "the input channels of a group start at its number instead of its number times its size",
        lambda c: c // per + c % per,
    )
    yield (
        1,
        f"the input channels of group g start at g * {out}, its outputs",
        lambda c: (c // per * out + c % per) % channels,
    )
    for m in (2, 4, 8, 16):
        for text, of in _blocks(np.arange(groups), m).items():
            taken = np.asarray((of[:, None] * per + np.arange(per)).reshape(-1))
            yield 1, text.format("group"), partial(_given, taken=taken)


def _given(_: Array, taken: Array) -> Array:
    return taken


def _blocks(i: Array, m: int) -> dict[str, Array]:
    """Returns wrong indices in blocks of m, by text with a placeholder for what is counted."""
    whole = len(i) // m * m
    return {
        f"every {{}} reads the input of its number modulo {m}": i % m,
        f"every {{}} reads the input of the first of its {m}": i // m * m,
        f"every {{}} after the last whole {m} reads the input of the first of the rest": np.minimum(i, whole),
        f"every {{}} after the last whole {m} reads the input of the first ones again": np.where(
            i < whole, i, i - whole
        ),
        f"every {{}} after the last whole {m} reads the input of the one {m} before": np.where(
            i < whole, i, np.maximum(i - m, 0)
        ),
    }
