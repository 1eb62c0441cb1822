"""An input's rows or planes are fetched at another distance than that at which they are stored: at the next multiple of
some bytes, or at that of another tensor. Addresses beyond the buffer are clamped, wrapped around or left out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

import numpy as np

from qverify.triage.altered_kernels.memory_sources import memory_sources, output_from
from qverify.triage.altered_kernels.variant_checks import check_where_it_differs
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "input-pitch"
MULTIPLES = (16, 8, 4, 32, 64, 128, 256, 2)
ENDS = {
    "each clamped to the last one that fits into the buffer": "clamped",
    "wrapping around at the end of the buffer": "wrapped",
    "those beyond the buffer as the last one that lies inside": "last inside",
    "those beyond the buffer as its last element repeated": "last element",
    "those beyond the buffer as zeros": "zeros",
}


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case, "input"):
        item, shape = place.spec.numpy_dtype.itemsize, place.spec.shape
        tried = set[tuple[int, int]]()
        for name, run in (("row", shape[-1] if shape else 1), ("plane", prod(shape[-2:]))):
            if run < 2 or run >= place.spec.elements:
                continue
            for phrase, pitch in _pitches(run, item).items():
                if pitch not in (0, run) and (run, pitch) not in tried:
                    tried.add((run, pitch))
                    text = f"{place.label} is read with a {name} pitch of {pitch} elements, {phrase}, instead of {run}"
                    for ended, end in ENDS.items():
                        way = partial(_fetched, run=run, pitch=pitch, end=end)
                        yield from check_where_it_differs(
                            case, f"{text}; {name}s {ended}", output_from(place, way), 3.0
                        )


def _pitches(run: int, item: int) -> dict[str, int]:
    pitches = {}
    for m in MULTIPLES:
        if m % item == 0:
            pitches[f"its {run * item} bytes rounded up to a multiple of {m}"] = -(-run * item // m) * m // item
            pitches[f"its {run * item} bytes rounded down to a multiple of {m}"] = run * item // m * m // item
    for m in MULTIPLES[:5]:
        pitches[f"its {run} elements rounded up to a multiple of {m}"] = -(-run // m) * m
    pitches |= {"one too many": run + 1, "one too few": run - 1}
    return pitches


def _fetched(values: Array, run: int, pitch: int, end: str) -> Array:
    flat, rows = values.reshape(-1), values.size // run
    starts = np.arange(rows) * pitch
    if end == "clamped":
        starts = np.minimum(starts, flat.size - run)
    elif end == "last inside":
        starts = np.where(starts + run <= flat.size, starts, starts[starts + run <= flat.size].max())
    places = starts[:, None] + np.arange(run)
    if end == "zeros":
        return np.where(places < flat.size, flat[places % flat.size], 0).astype(values.dtype).reshape(values.shape)
    places = places % flat.size if end == "wrapped" else np.minimum(places, flat.size - 1)
    return flat[places].reshape(values.shape)
