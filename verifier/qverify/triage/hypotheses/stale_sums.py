"""The last, partial panel of a tile of pixels is not multiplied: its accumulators contain sums of an earlier tile or of
earlier channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summed_elements import SummedElements, bias_of, fitting, words_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import linear

NAME = "stale-sums"
OPS = ("conv", "matmul")
LATE = -1
SHAPES = (
    (16, 64),
    (8, 64),
    (32, 64),
    (16, 32),
    (8, 32),
    (4, 16),
    (8, 16),
    (4, 64),
    (16, 128),
    (32, 128),
    (16, 256),
    (64, 256),
)
ROWS = (4, 1, 2, 8, 16)
Ways = Iterator[tuple[str, Callable[[SummedElements], Array]]]


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op in ("conv", "matmul") and linear(case) is not None:
        yield from fitting(case, _ways(case), bits=0.7)


def _ways(case: Case) -> Ways:
    pixels = _pixels(case)
    for panel, tile in SHAPES:
        if pixels % panel and pixels > tile:
            for rows in ROWS:
                end = f" (panels of {panel} pixels, tiles of {tile}, {rows} channels together)"
                yield (
                    "the pixels of the last, partial panel of a tile are not multiplied: they are requantized from stale "
                    f"accumulators, the sums of the last channels at the same place of the tile before{end}",
                    partial(_stale, panel=panel, tile=tile, rows=rows, same=False),
                )
            yield (
                "the pixels of the last, partial panel of a tile are not multiplied: they are requantized from stale "
                f"accumulators, the sums of the same channel at the same place of the tile before (panels of {panel} pixels, tiles of {tile})",
                partial(_stale, panel=panel, tile=tile, rows=1, same=True),
            )
    for panel in (4, 8, 16, 32):
        if pixels % panel and pixels > panel:
            for text, back in (("the pixels one panel before", panel), ("the last pixel of the last whole panel", 0)):
                yield (
                    f"the pixels after the last whole panel of {panel} are not multiplied: they get the sums of {text}",
                    partial(_repeated, panel=panel, back=back),
                )
            yield (
                f"the pixels after the last whole panel of {panel} are not multiplied: they get the bias alone",
                partial(_repeated, panel=panel, back=-1),
            )


def _pixels(case: Case) -> int:
    return int(case.spec.shape[-1] if case.last.op == "matmul" else np.prod(case.spec.shape[2:]))


def _sums(e: SummedElements) -> Array:
    """Returns the sums without bias, [matrices, channels, pixels], or [matrices, rows, columns] for a matmul."""
    bias = bias_of(e.case)
    sums = e.sums.acc - (e.sums.along(bias) if len(bias) > 1 else bias)
    shape = e.case.spec.shape
    return sums.reshape(-1, shape[-2] if e.case.last.op == "matmul" else shape[1], _pixels(e.case))


def _at(e: SummedElements) -> tuple[Array, Array, Array]:
    pixels, shape = _pixels(e.case), e.case.spec.shape
    channels = shape[-2] if e.case.last.op == "matmul" else shape[1]
    return e.places // pixels // channels, e.places // pixels % channels, e.places % pixels


def _stale(e: SummedElements, panel: int, tile: int, rows: int, same: bool) -> Array:
    sums, (batch, channel, pixel) = _sums(e), _at(e)
    pixels = _pixels(e.case)
    whole = pixels // panel * panel
    lost = pixel >= whole
    groups = words_of(e.case).get("group", 1)
    per = sums.shape[1] // groups
    last = channel // per * per + (per - 1) // rows * rows + channel % per % rows
    # The last block of channels may be shorter: its other accumulators are those of the block before.
    last = np.where(last >= (channel // per + 1) * per, last - rows, last)
    source = sums[batch, channel if same else np.maximum(last, 0), np.maximum(pixel - tile, 0)]
    return e.requantized(np.where(lost, source, sums[batch, channel, pixel]) + e.bias)


def _repeated(e: SummedElements, panel: int, back: int) -> Array:
    sums, (batch, channel, pixel) = _sums(e), _at(e)
    whole = _pixels(e.case) // panel * panel
    lost = pixel >= whole
    other = np.maximum(pixel - back, 0) if back > 0 else 0 * pixel + whole - 1
    source = sums[batch, channel, other] * (back >= 0)
    return e.requantized(np.where(lost, source, sums[batch, channel, pixel]) + e.bias)
