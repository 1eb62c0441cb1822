"""A kernel writes its result over its input: finished outputs replace input elements that later outputs still read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.arithmetic.windows import as_planes
from qverify.triage.altered_kernels.summed_elements import bias_of, requantization, words_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "in-place"
OPS = ("conv", "max_pool")
MOST_PIXELS = 20_000
STEPS = {
    "each finished output row replaces the input row of the same number before the next output row reads it": "row",
    "each finished output element replaces the input element at its place before the next output is computed": "element",
    "each finished output column replaces the input column of the same number before the next one is computed": "column",
    "each finished output row replaces the input row of the same number, the last row first": "row backward",
}


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op not in ("conv", "max_pool") or len(case.unit.nodes) > 1 or not _same_size(case):
        return
    for text, step in STEPS.items():
        if (step == "element" and int(np.prod(case.spec.shape[2:])) > MOST_PIXELS) or not _starts_right(case, step):
            continue
        for centred in (False, True) if case.last.op == "conv" and _zeros_differ(case) else (False,):
            end = ", its zero point taken as the input's" if centred is False and _zeros_differ(case) else ""
            end = ", its zero point replaced by the input's" if centred else end
            yield FaultVariant(
                f"the result is written over the input: {text}{end}",
                partial(_compute_output, step=step, centred=centred),
                1.0,
            )


def _same_size(case: Case) -> bool:
    x, words = case.graph.spec(case.last.inputs[0] or ""), words_of(case)
    same = x.shape == case.spec.shape and x.dtype == case.spec.dtype and words["stride_h"] == words["stride_w"] == 1
    return (
        same
        and len(x.shape) > 2
        and (case.last.op == "max_pool" or words["group"] == x.shape[1])
        and x.dtype != "float32"
    )


def _starts_right(case: Case, step: str) -> bool:
    """Returns whether the outputs that are computed first are healthy."""
    healthy, recorded = as_planes(case.healthy), as_planes(case.recorded)
    same = (healthy == recorded).all((0, 1))
    return bool({"row": same[0], "element": same[0, 0], "column": same[:, 0], "row backward": same[-1]}[step].all())


def _zeros_differ(case: Case) -> bool:
    return case.graph.spec(case.last.inputs[0] or "").zero_point != case.spec.zero_point


def _compute_output(case: Case, step: str, centred: bool) -> Array:
    x, words, is_conv = case.graph.spec(case.last.inputs[0] or ""), words_of(case), case.last.op == "conv"
    planes = as_planes(case.inputs[x.name]).astype(np.int64)
    height, width = planes.shape[2:]
    kernel, dilation = (words["kernel_h"], words["kernel_w"]), (words.get("dilation_h", 1), words.get("dilation_w", 1))
    zero, top, left = x.zero_point[0], words["pad_top"], words["pad_left"]
    blank = zero if is_conv else np.iinfo(x.dtype).min
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    padded = np.full((*planes.shape[:2], height + reach[0], width + reach[1]), blank, np.int64)
    padded[:, :, top : top + height, left : left + width] = planes
    result = np.empty(planes.shape, x.numpy_dtype)
    for rows, columns in _places(step, height, width):
        block = None
        for a in range(kernel[0]):
            for b in range(kernel[1]):
                r, c = (
                    slice(s.start + o, s.stop + o) for s, o in ((rows, a * dilation[0]), (columns, b * dilation[1]))
                )
                taps = padded[:, :, r, c]
                if is_conv:
                    taps = (taps - zero) * _weights(case)[:, a, b, None, None]
                    block = taps if block is None else block + taps
                else:
                    block = taps if block is None else np.maximum(block, taps)
        assert block is not None
        values = _requantized(case, block) if is_conv else block.astype(x.numpy_dtype)
        result[:, :, rows, columns] = values
        written = values.astype(np.int64) - (case.spec.zero_point[0] - zero if centred else 0)
        padded[:, :, top + rows.start : top + rows.stop, left + columns.start : left + columns.stop] = written
    return result.reshape(case.spec.shape)


def _places(step: str, height: int, width: int) -> Iterator[tuple[slice, slice]]:
    if step == "column":
        yield from ((slice(0, height), slice(j, j + 1)) for j in range(width))
    elif step == "element":
        yield from ((slice(i, i + 1), slice(j, j + 1)) for i in range(height) for j in range(width))
    else:
        order = range(height) if step == "row" else range(height - 1, -1, -1)
        yield from ((slice(i, i + 1), slice(0, width)) for i in order)


def _weights(case: Case) -> Array:
    """Returns the weights without their zero points, [channels, kernel rows, kernel columns]."""
    return np.asarray(case.compute_once("centred weights", lambda: _centred_weights(case)))


def _centred_weights(case: Case) -> Array:
    name = case.last.inputs[1] or ""
    w, zero = case.graph.constants[name].astype(np.int64), np.array(case.graph.spec(name).zero_point)
    return w[:, 0] - zero[:, None, None] if len(zero) > 1 else w[:, 0] - zero[0]


def _requantized(case: Case, block: Array) -> Array:
    sums = requantization(case)
    assert sums is not None
    bias = bias_of(case)
    return sums.output(block + (bias[:, None, None] if len(bias) > 1 else bias[0]))
