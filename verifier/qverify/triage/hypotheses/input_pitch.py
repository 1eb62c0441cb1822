"""The rows of a model input are read with another pitch than the file gives them: rounded up to a multiple of bytes, or one
element off."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

import numpy as np

from qverify.triage.altered_kernels.variant_checks import where_it_differs
from qverify.triage.case import Array, Case, Change
from qverify.triage.hypotheses import FaultVariant

NAME = "input-pitch"
LATE = -1
MULTIPLES = (4, 8, 16, 32, 64, 128)
ENDS = ("clamped to the last row that fits", "zeros beyond the end", "wrapping at the end")


def variants(case: Case) -> Iterator[FaultVariant]:
    for name, values in case.inputs.items():
        if name not in case.graph.inputs or values.ndim < 2 or values.size < 2:
            continue
        for level, said in ((1, "row"), (2, "plane"))[: values.ndim - 1]:
            yield from _of_level(case, name, values, level, said)


def _of_level(case: Case, name: str, values: Array, level: int, said: str) -> Iterator[FaultVariant]:
    row, size = prod(values.shape[-level:]) * values.itemsize, values.nbytes
    if row == size:
        return
    pitches: dict[int, list[str]] = {}
    for m in reversed(MULTIPLES):
        pitches.setdefault(-(-row // m) * m, []).append(f"rounded up to a multiple of {m} bytes")
        pitches.setdefault(row // m * m, []).append(f"rounded down to a multiple of {m} bytes")
    for more, text in ((1, "one element too large"), (-1, "one element too small")):
        pitches.setdefault(row + more * values.itemsize, []).append(text)
    for pitch, texts in pitches.items():
        if pitch <= 0 or pitch == row:
            continue
        for end in ENDS if pitch > row else ENDS[:1]:
            after = f", {end}" if pitch > row else ""
            text = f"the {said}s of the model input {name} ({row} bytes each, without gaps) are read with a pitch of {pitch} bytes, {' or '.join(texts)}{after}"
            make = partial(_made, name=name, row=row, pitch=pitch, end=end)
            yield from where_it_differs(case, text, make, 2.0)


def _made(case: Case, name: str, row: int, pitch: int, end: str) -> Array:
    values = case.inputs[name]
    flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    start = np.arange(flat.size // row) * pitch
    if end == ENDS[0]:
        start = np.minimum(start, flat.size - row)
    at = start[:, None] + np.arange(row)
    read = flat[at % flat.size]
    if end == ENDS[1]:
        read = np.where(at < flat.size, read, 0).astype(np.uint8)
    changed = np.ascontiguousarray(read).reshape(-1).view(values.dtype).reshape(values.shape)
    return case.again(Change(inputs={name: changed}))
