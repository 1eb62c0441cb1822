"""Draws one compared tensor: density, histograms, maps and the first elements that differ, in blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qverify.compare.drawings.error_maps import map_errors
from qverify.compare.paired_values import FLOAT_BLOCK, Block, PairedValues, bits_equal
from qverify.report.drawings import Density, DifferingElement, TensorDrawing, ValueHistogram
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

GRID, BINS, BARS, FIRST = 48, 64, 41, 12  # cells of the density's sides, bins of values, bars, first differences
REACH = 1 << 15  # LSB: larger differences are counted together
Make = Callable[[], PairedValues]


@dataclass(slots=True)
class Span:
    """The least and the largest finite value."""

    low: float = np.inf
    high: float = -np.inf

    def add(self, values: npt.NDArray[np.float64]) -> None:
        finite = values if np.isfinite(values).all() else values[np.isfinite(values)]
        if finite.size:
            self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))

    @property
    def known(self) -> bool:
        return self.low <= self.high

    def bins(self, values: npt.NDArray[np.float64], number: int) -> npt.NDArray[np.int64]:
        """Returns the bin of each value, 0 .. number - 1; values must be finite."""
        width = self.high / number - self.low / number  # the difference itself may overflow
        if not width > 0:
            return np.zeros(len(values), np.int64)
        return np.clip((values / width - self.low / width).astype(np.int64), 0, number - 1)


def draw_tensor(make: Make, op: str, why: str) -> TensorDrawing:
    """Returns the drawing of one tensor. make: returns its values, which are read twice. why: why it was chosen."""
    values = make()
    spec, equal = values.spec_a, bits_equal(values.a, values.b) and values.spec_a.same_meaning(values.spec_b)
    span, apart, differing = Span(), Span(), 0
    for block in known_blocks(values):
        span.add(block.a)
        span.add(block.b)
        with np.errstate(invalid="ignore", over="ignore"):
            apart.add(block.b - block.a)
        differing += block.total(block.distance != 0)
    again = make()
    density, bins = np.zeros(GRID * GRID, np.int64), (np.zeros(BINS, np.int64), np.zeros(BINS, np.int64))
    steps, real_steps = Counter[int](), np.zeros(BARS - 1, np.int64)
    for block in known_blocks(again) if span.known else ():
        a, b, count = _finite(block)
        density += _count(span.bins(b, GRID) * GRID + span.bins(a, GRID), count, GRID * GRID)
        for total, side in ((bins[0], a), (bins[1], b)):
            total += _count(span.bins(side, BINS), count, BINS)
        if block.steps is not None:
            _add_steps(steps, block)
        elif apart.known:
            unlike = b != a
            with np.errstate(over="ignore"):
                distance = (b - a)[unlike]
            distance = distance[np.isfinite(distance)]
            real_steps += _count(apart.bins(distance, BARS - 1), None, BARS - 1)
    drawing = TensorDrawing(
        spec.name,
        op,
        spec.dtype,
        spec.shape,
        why,
        "LSB" if values.integers else "",
        values.a.size,
        differing,
        _values(values, span, bins, equal) if span.known else None,
    )
    if not equal and values.a.size:
        drawing.density = Density(span.low, span.high, density.reshape(GRID, GRID)) if span.known else None
        drawing.differences, drawing.others = _bars(steps) if values.integers else _real_bars(real_steps, apart)
        drawing.maps = map_errors(values)
        drawing.first = [*_first(values.a, values.b)]
    return drawing


def known_blocks(values: PairedValues) -> Iterator[Block]:
    """Yields the values block by block, without the rows that are the same NaN or Inf on both sides."""
    for block in values.blocks():
        if block.alike is not None:
            known = ~block.alike
            block = Block(block.a[known], block.b[known], block.distance[known])
        yield block


def _finite(
    block: Block,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int64] | None]:
    known = np.isfinite(block.a) & np.isfinite(block.b)
    if known.all():
        return block.a, block.b, block.count
    return block.a[known], block.b[known], None if block.count is None else block.count[known]


def _count(places: npt.NDArray[np.int64], weights: npt.NDArray[np.int64] | None, number: int) -> npt.NDArray[np.int64]:
    return np.bincount(places, weights, number).astype(np.int64)


def _add_steps(steps: Counter[int], block: Block) -> None:
    assert block.steps is not None
    counts = np.bincount(np.clip(block.steps, -REACH, REACH) + REACH, block.count)
    steps.update({int(at) - REACH: int(counts[at]) for at in np.flatnonzero(counts) if at != REACH})


def _bars(steps: Counter[int]) -> tuple[list[tuple[str, int]], int]:
    """Returns the most frequent differences in rising order, and the number of elements with others."""
    shown = sorted(steps.most_common(BARS))
    names = {-REACH: f"<={-REACH}", REACH: f">={REACH}"}
    return [(names.get(lsb, f"{lsb:+d}"), n) for lsb, n in shown], steps.total() - sum(n for _, n in shown)


def _real_bars(counts: npt.NDArray[np.int64], span: Span) -> tuple[list[tuple[str, int]], int]:
    if not span.known or not counts.any():
        return [], 0
    shares = [(at + 0.5) / len(counts) for at in range(len(counts))]
    names = (f"{span.low * (1 - share) + span.high * share:+.3g}" for share in shares)
    return [(name, int(n)) for name, n in zip(names, counts, strict=True)], 0


def _values(
    values: PairedValues, span: Span, bins: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]], equal: bool
) -> ValueHistogram:
    limits = quantized_range(values.spec_a)
    sides = ((values.a, values.spec_a), (values.b, values.spec_b))
    clipped = [clipped_at_ends(value) if quantized_range(spec) else None for value, spec in sides]
    return ValueHistogram(span.low, span.high, bins[0], None if equal else bins[1], limits, clipped[0], clipped[1])


def quantized_range(spec: TensorSpec) -> tuple[float, float] | None:
    """Returns the least and the largest real value of a tensor of one scale and at most 16 bits; None for others."""
    if len(spec.scale) != 1 or spec.numpy_dtype.kind not in "iu" or spec.numpy_dtype.itemsize > 2:
        return None
    limits, zero, scale = np.iinfo(spec.dtype), spec.zero_point[0] if spec.zero_point else 0, float(spec.scale[0])
    return (int(limits.min) - zero) * scale, (int(limits.max) - zero) * scale


def clipped_at_ends(value: Array) -> tuple[int, int]:
    """Returns how many elements of an integer tensor have the least, and the largest value of its type."""
    limits = np.iinfo(value.dtype.name)
    return int(np.count_nonzero(value == limits.min)), int(np.count_nonzero(value == limits.max))


def _first(a: Array, b: Array) -> Iterator[DifferingElement]:
    """Yields the first elements that differ, in stored order; the same NaN on both sides does not."""
    flat_a, flat_b, left = a.reshape(-1), b.reshape(-1), FIRST
    for start in range(0, flat_a.size, FLOAT_BLOCK):
        one, two = flat_a[start : start + FLOAT_BLOCK], flat_b[start : start + FLOAT_BLOCK]
        unlike = one != two
        if one.dtype.kind == two.dtype.kind == "f":
            unlike &= ~(np.isnan(one) & np.isnan(two))
        for at in np.flatnonzero(unlike)[:left]:
            index = tuple(int(i) for i in np.unravel_index(start + at, a.shape))
            yield DifferingElement(index, one[at].item(), two[at].item())
            left -= 1
        if not left:
            return
