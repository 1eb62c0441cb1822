"""The bias, the scale or the zero point of the weights is read at another index than the output channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.triage.altered_kernels.summed_elements import (
    BIASED,
    SummedElements,
    bias_of,
    fitting,
    fitting_alike,
    words_of,
)
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS, Linear, linear

NAME = "parameter-index"
LATE = -1
OPS = LINEAR_OPS
LANES = (2, 4, 8, 16, 32, 64, 128, 256)
Index = Callable[[Array], Array]


def variants(case: Case) -> Iterator[FaultVariant]:
    sums = linear(case)
    if sums is None or case.spec.shape[sums.axis] < 2:
        return
    count = case.spec.shape[sums.axis]
    texts: dict[bytes, list[str]] = {}
    ways: dict[bytes, Index] = {}
    for text, index in indices(case, count).items():
        taken = np.asarray(index(np.arange(count)))
        if (taken != np.arange(count)).any():
            texts.setdefault(taken.tobytes(), []).append(text)
            ways.setdefault(taken.tobytes(), index)
    for key, index in ways.items():
        zeros = bool(np.ptp(zero_points(case)) > 0)
        yield from fitting_alike(case, _ways(case, sums, texts[key], index), in_parts=zeros)
    yield from fitting(case, _yield_place_indices(case, sums), in_parts=bool(np.ptp(zero_points(case)) > 0))


def indices(case: Case, n: int) -> dict[str, Index]:
    """Returns wrong indices for n channels, by text in terms of the channel o."""
    ways: dict[str, Index] = {
        "0 (the first channel's for all)": lambda o: 0 * o,
        f"{n - 1} (the last channel's for all)": lambda o: 0 * o + n - 1,
        "o - 1 (the previous channel's, the first its own)": lambda o: np.maximum(o - 1, 0),
        "o + 1 (the next channel's, the last its own)": lambda o: np.minimum(o + 1, n - 1),
        "o - 1 (the previous channel's, wrapping)": lambda o: (o - 1) % n,
        "o + 1 (the next channel's, wrapping)": lambda o: (o + 1) % n,
        f"{n - 1} - o (reversed)": lambda o: n - 1 - o,
        "2 o, wrapping": lambda o: 2 * o % n,
    }
    for m in LANES:
        if m < n:
            ways |= _lanes(m, n)
    for m in [m for m in LANES if m > n and m & (m - 1) == 0][:2]:
        ways[f"the first channel of its {m}, an incomplete {m} here"] = lambda o: 0 * o
        ways[f"the last channel of its {m}, an incomplete {m} here"] = lambda o: 0 * o + n - 1
    if case.last.op in ("conv", "conv_transpose") and 1 < (groups := words_of(case)["group"]) < n:
        per = n // groups
        ways |= {
            f"o mod {per} (the place in its group, the first group's for all)": lambda o: o % per,
            f"o div {per} (the number of its group)": lambda o: o // per,
            f"the first channel of its group of {per}": lambda o: o // per * per,
            f"o mod {groups} (the number of groups)": lambda o: o % groups,
            f"channels interleaved over {groups} groups": lambda o: o % groups * per + o // groups,
        }
    return ways


def _lanes(m: int, n: int) -> dict[str, Index]:
    base = n // m * m
    ways: dict[str, Index] = {
        f"o mod {m}": lambda o: o % m,
        f"o div {m}": lambda o: o // m,
        f"the first channel of its {m}": lambda o: o // m * m,
        f"the last channel of its {m}": lambda o: np.minimum(o // m * m + m - 1, n - 1),
        f"the smaller of o and {m - 1}": lambda o: np.minimum(o, m - 1),
        f"o reversed in its {m}": lambda o: np.minimum(o // m * m + m - 1 - o % m, n - 1),
        f"o - {m}, the first {m} their own": lambda o: np.where(o < m, o, o - m),
        f"o + {m}, the last {m} their own": lambda o: np.where(o + m < n, o + m, o),
    }
    if n % m == 0:
        ways[f"o mod {m} * {n // m} + o div {m} (transposed)"] = lambda o: o % m * (n // m) + o // m
        ways[f"o mod {n // m} * {m} + o div {n // m} (transposed)"] = lambda o: o % (n // m) * m + o // (n // m)
    else:
        tail = f"after the last whole {m}, from channel {base} on,"
        ways |= {
            f"{tail} o mod {m} (the first channels' again)": lambda o: np.where(o < base, o, o % m),
            f"{tail} o - {m} (the block before's)": lambda o: np.where(o < base, o, o - m),
            f"{tail} {base - 1} (the last of the whole ones)": lambda o: np.minimum(o, base - 1),
            f"{tail} {base} (the first of the rest)": lambda o: np.minimum(o, base),
            f"{tail} 0": lambda o: np.where(o < base, o, 0),
            f"{tail} {n - 1} (the last one's)": lambda o: np.where(o < base, o, n - 1),
            f"{tail} o - {m - n % m} (the last whole {m})": lambda o: np.where(o < base, o, o - (m - n % m)),
        }
    return ways


def _ways(
    case: Case, sums: Linear, texts: list[str], index: Index
) -> Iterator[tuple[list[str], Callable[[SummedElements], Array]]]:
    for what, parts in _operands(case, sums).items():
        verb = "are" if " and " in what else "is"
        phrases = [f"{what} of channel o {verb} read at index {text}" for text in texts]
        yield phrases, partial(_read, index=index, parts=parts)


def _operands(case: Case, node_sums: Linear) -> dict[str, tuple[str, ...]]:
    """Returns the combinations of parameters that differ between channels, by text."""
    bias = bool(np.ptp(bias_of(case)))
    scale = node_sums.rq.shape[-1] > 1
    zeros = np.ptp(zero_points(case)) > 0
    zero_x = case.graph.spec(case.last.inputs[0] or "").zero_point
    sums = case.last.op in ("conv", "fully_connected") and len(zero_x) == 1 and zero_x[0] != 0
    combinations: dict[str, tuple[str, ...]] = {}
    if scale:
        combinations["the requantization scale"] = ("scale",)
    if bias:
        combinations["the bias" if scale else "the bias (the scale is one for all channels)"] = ("bias",)
    if bias and scale:
        combinations["the bias and the requantization scale"] = ("bias", "scale")
    if zeros:
        combinations["the zero point of the weights"] = ("zero",)
        combinations["every parameter (bias, scale, zero point)"] = ("bias", "scale", "zero")
    if sums:
        combinations["the sum of weights that the input's zero point is multiplied by"] = ("sum",)
        if bias:
            combinations["the bias with the input's zero point folded in"] = ("bias", "sum")
            combinations["the bias with the input's zero point folded in and the scale"] = ("bias", "sum", "scale")
    return combinations


def zero_points(case: Case) -> Array:
    """Returns the zero points of the second operand, [C] or [1]; those of a conv_transpose are the same in every
    group."""
    if case.last.op not in (*BIASED, "matmul"):
        return np.zeros(1, np.int64)
    zeros = np.array(case.graph.spec(case.last.inputs[1] or "").zero_point)
    return np.tile(zeros, words_of(case)["group"]) if case.last.op == "conv_transpose" and len(zeros) > 1 else zeros


def _weight_sums(case: Case) -> Array:
    name = case.last.inputs[1] or ""
    w = case.graph.constants[name].astype(np.int64)
    zero = np.array(case.graph.spec(name).zero_point)
    return (w.reshape(len(w), -1) - zero.reshape(-1, 1)).sum(1)


def _read(e: SummedElements, index: Index, parts: tuple[str, ...]) -> Array:
    return _at(e, np.asarray(index(e.channel)), parts)


def _at(e: SummedElements, other: Array, parts: tuple[str, ...]) -> Array:
    acc: Any = e.acc
    if "bias" in parts:
        acc = acc - e.bias + bias_of(e.case)[other]
    if "sum" in parts:
        sums = e.case.compute_once("weight sums", lambda: _weight_sums(e.case))
        zero_x = e.case.graph.spec(e.case.last.inputs[0] or "").zero_point[0]
        acc = acc + zero_x * (sums[e.channel] - sums[other])
    if "zero" in parts:
        zero = zero_points(e.case)
        centred = e.summands.centred_x
        acc = acc + (zero[e.channel] - zero[other]) * centred.reshape(len(centred), -1).sum(1)
    return e.requantized(acc, other if "scale" in parts else e.channel)


def _yield_place_indices(case: Case, sums: Linear) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    """Yields faults that read the parameters at the index of the place in the output instead of that of the channel."""
    shape = case.spec.shape
    names = {i: f"axis {i}" for i in range(len(shape))} | ({2: "the row", 3: "the column"} if len(shape) == 4 else {})
    for what, parts in _operands(case, sums).items():
        for axis, name in names.items():
            if axis != sums.axis % len(shape) and shape[axis] > 1:
                yield f"{what}: the index is {name} instead of the channel", partial(_placed, axis=axis, parts=parts)
        yield (
            f"{what}: the index is the element's place in memory modulo the channels",
            partial(_placed, axis=None, parts=parts),
        )


def _placed(e: SummedElements, axis: int | None, parts: tuple[str, ...]) -> Array:
    where = e.places if axis is None else np.unravel_index(e.places, e.case.spec.shape)[axis]
    return _at(e, where % e.channels, parts)
