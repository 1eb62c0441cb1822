"""The windows of some rows or columns start at other places: the step between the outputs of a tail is 1, or starts are
aligned to vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summed_elements import words_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "window-positions"
LANES = (2, 4, 8, 16, 32, 64)
OPS = ("conv", "average_pool", "max_pool")


def variants(case: Case) -> Iterator[FaultVariant]:
    words = words_of(case)
    if case.last.op not in OPS:
        return
    yield from _flat_pixels(case, words)
    for side, axis, name in (("h", -2, "row"), ("w", -1, "column")):
        if axis == -1 or len(case.spec.shape) == 4:
            out, stride = case.spec.shape[axis], words[f"stride_{side}"]
            own_starts, tried = np.arange(out) * stride, set()
            for text, starts in _starts(out, stride, name).items():
                key = starts.tobytes()
                if key != own_starts.tobytes() and key not in tried:
                    tried.add(key)
                    yield FaultVariant(text, partial(_moved, axis=axis, side=side, starts=starts))


def _flat_pixels(case: Case, words: dict[str, int]) -> Iterator[FaultVariant]:
    """Yields faults of a kernel of one tap that treats the pixels of a plane as one row."""
    if (words["kernel_h"], words["kernel_w"]) != (1, 1) or len(case.spec.shape) != 4:
        return
    pixels = case.spec.shape[2] * case.spec.shape[3]
    for step in dict.fromkeys((1, words["stride_w"], words["stride_h"] * words["stride_w"])):
        text = f"pixel p of a plane reads element {step} p of the input's plane, as if all of it were one row"
        yield FaultVariant(text, partial(_run_together, pixels=pixels, step=step))


def _run_together(case: Case, pixels: int, step: int) -> Array:
    """Returns the output at the pixels step * p of the planes, selected from that of the node without stride or
    padding."""
    n, _, height, width = case.graph.spec(case.last.inputs[0] or "").shape
    words = dict.fromkeys(("pad_top", "pad_left", "pad_bottom", "pad_right"), 0) | {"stride_h": 1, "stride_w": 1}
    spec = replace(case.spec, shape=(n, case.spec.shape[1], height, width), aligned_shape=())
    whole = case.recompute(replace(case.change_words(**words), specs={case.output: spec})).reshape(
        n, case.spec.shape[1], -1
    )
    return whole[:, :, np.arange(pixels) * step % whole.shape[2]].reshape(case.spec.shape)


def _starts(out: int, stride: int, name: str) -> dict[str, Array]:
    """Returns wrong places at which the windows start, in elements of the padded input, by text."""
    j = np.arange(out)
    starts = {f"the step between windows is 1 {name} instead of {stride}": j}
    for n in LANES:
        if n >= out and stride == 1:
            continue
        base, within = j // n * n, j % n
        tail = out // n * n
        starts[
            f"in the last {out % n} {name}s (after the last whole {n}) the step between windows is 1 instead of {stride}, from the first of them on"
        ] = np.where(j < tail, j * stride, tail * stride + j - tail)
        starts[f"the step between windows is 1 {name} within every {n}, {n * stride} between them"] = (
            base * stride + within
        )
        starts[f"windows start at a multiple of {n} {name}s, rounded down"] = j * stride // n * n
        starts[f"all windows of every {n} {name}s start at the first one's"] = base * stride
        if out > n and out % n:
            starts[f"the last {n} {name}s are computed together: the rest starts {n - out % n} windows early"] = (
                np.where(j < tail, j, out - n + j - tail) * stride
            )
            starts[f"the last {out % n} {name}s repeat the windows {n} before"] = np.where(j < tail, j, j - n) * stride
            starts[f"the last {out % n} {name}s start from the first window again"] = (
                np.where(j < tail, j, j - tail) * stride
            )
    return starts


def _moved(case: Case, axis: int, side: str, starts: Array) -> Array:
    """Returns the output of windows with other starts, selected from that of the node with step 1 on this axis."""
    shape = list(case.spec.shape)
    shape[axis] = int(starts.max()) + 1
    change = case.change_words(**{f"stride_{side}": 1})
    spec = replace(case.spec, shape=tuple(shape), aligned_shape=())
    return case.recompute(replace(change, specs={case.output: spec})).take(starts, axis)
