"""Padding has another value than the zero point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify import ops
from qverify.triage.altered_kernels.solve_multiplier import find_multiples
from qverify.triage.case import Array, Case, UnitChange, limits
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import accumulator, linear

NAME = "pad-value"
OPS = ("pad", "conv", "conv_transpose", "average_pool", "max_pool")
PADS = ("pad_top", "pad_left", "pad_bottom", "pad_right")


def variants(case: Case) -> Iterator[FaultVariant]:
    words, sums = ops.words(case.last), linear(case)
    source = case.last.inputs[0] or ""
    if case.last.op == "pad":
        yield from _yield_pad_faults(case, words)
        return
    if not any(words.get(name) for name in PADS) or source not in case.inputs:
        return
    spec = case.graph.spec(source)
    low, high = limits(spec) if spec.numpy_dtype.kind in "iu" else (0, 0)
    if case.last.op == "conv" and sums is not None:
        with_zeros = accumulator(case, _padded(case, 0))
        step = accumulator(case, _padded(case, 1)) - with_zeros
        most = high - low
        candidates = np.arange(min(spec.zero_point) - most, max(spec.zero_point) + most + 1)
        values = find_multiples(case, replace(sums, acc=with_zeros), step, candidates)
    elif case.last.op in ("max_pool", "average_pool"):
        values = [*range(low, high + 1)] if spec.numpy_dtype.itemsize == 1 else [*dict.fromkeys((0, low, high))]
    else:
        return
    for value in values:
        yield FaultVariant(
            f"pad value {value} instead of the zero point",
            partial(_with_value, value=value),
            0.0 if value in (0, low, high) else 8.0,
        )


def _padded(case: Case, value: int) -> UnitChange:
    """Returns the change that writes padding with any value into the input itself."""
    words, name = ops.words(case.last), case.last.inputs[0] or ""
    x = case.inputs[name]
    top, left, bottom, right = (words[p] for p in PADS)
    widths = [(0, 0), (0, 0)] + ([(top, bottom)] if x.ndim == 4 else []) + [(left, right)]
    change = case.change_words(**dict.fromkeys(PADS, 0))
    filled = np.pad(x, widths, constant_values=value) if x.dtype.kind == "f" else _filled(x, widths, value)
    spec = replace(case.graph.spec(name), shape=filled.shape, aligned_shape=())
    if x.dtype.itemsize == 1:  # 16 bits stay what they are, for they decide how wide the sums are
        spec = replace(spec, dtype=str(filled.dtype))
    return replace(change, inputs={name: filled}, specs={name: spec})


def _filled(x: Array, widths: list[tuple[int, int]], value: int) -> Array:
    """Returns x padded with a value; a value outside of the dtype of x widens it to int32."""
    info = np.iinfo(x.dtype)
    wide = x if info.min <= value <= info.max else x.astype(np.int32)
    return np.pad(wide, widths, constant_values=value)


def _with_value(case: Case, value: int) -> Array:
    return case.recompute(_padded(case, value))


def _yield_pad_faults(case: Case, words: dict[str, int]) -> Iterator[FaultVariant]:
    for mode, text in enumerate(("constant", "reflected", "repeated edge")):
        if mode != words["mode"]:
            yield FaultVariant(f"pad mode {text}", partial(_words, mode=mode))
    if words["mode"] == 0 and case.recorded.dtype.kind in "iu":
        values = np.unique(case.recorded.reshape(-1)[case.differing])
        for value in (int(v) for v in values[:4]):
            yield FaultVariant(f"pad value {value} instead of {words['value']}", partial(_words, value=value), 8.0)


def _words(case: Case, **changed: int) -> Array:
    return case.recompute(case.change_words(**changed))
