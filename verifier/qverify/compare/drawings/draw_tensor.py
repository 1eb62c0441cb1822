"""Computes the drawing of one compared tensor, block by block: density, histograms, error maps, and the first elements
that differ."""

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

# Number of cells along each side of the density, bins of values, bars of differences, and first differences shown
GRID, BINS, BARS, FIRST = 48, 64, 41, 12
REACH = 1 << 15  # LSB; larger differences are counted together
Make = Callable[[], PairedValues]


@dataclass(slots=True)
class Span:
    """The range of the finite values that were added."""

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
    """Returns the drawing of one tensor. make: function that returns its values; it is called twice. why: the reason
    why the tensor was chosen."""
    values = make()
    spec, equal = values.spec_a, bits_equal(values.a, values.b) and values.spec_a.same_meaning(values.spec_b)
    span, apart, differing = Span(), Span(), 0
    for block in iterate_known_blocks(values):
        span.add(block.a)
        span.add(block.b)
        with np.errstate(invalid="ignore", over="ignore"):
            apart.add(block.b - block.a)
        differing += block.total(block.distance != 0)
    again = make()
    density, bins = np.zeros(GRID * GRID, np.int64), (np.zeros(BINS, np.int64), np.zeros(BINS, np.int64))
    steps, real_steps = Counter[int](), np.zeros(BARS - 1, np.int64)
    for block in iterate_known_blocks(again) if span.known else ():
        a, b, count = _select_finite(block)
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
        _make_value_histogram(values, span, bins, equal) if span.known else None,
    )
    if not equal and values.a.size:
        drawing.density = Density(span.low, span.high, density.reshape(GRID, GRID)) if span.known else None
        drawing.differences, drawing.others = (
            _make_step_bars(steps) if values.integers else _make_real_bars(real_steps, apart)
        )
        drawing.maps = map_errors(values)
        drawing.first = [*_find_first_differences(values.a, values.b)]
    return drawing


def iterate_known_blocks(values: PairedValues) -> Iterator[Block]:
    """Yields the values block by block, without the rows in which both sides have the same NaN or Inf."""
    for block in values.blocks():
        if block.alike is not None:
            known = ~block.alike
            block = Block(block.a[known], block.b[known], block.distance[known])
        yield block


def _select_finite(
    block: Block,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int64] | None]:
    finite = np.isfinite(block.a) & np.isfinite(block.b)
    if finite.all():
        return block.a, block.b, block.count
    return block.a[finite], block.b[finite], None if block.count is None else block.count[finite]


def _count(places: npt.NDArray[np.int64], weights: npt.NDArray[np.int64] | None, number: int) -> npt.NDArray[np.int64]:
    return np.bincount(places, weights, number).astype(np.int64)


def _add_steps(steps: Counter[int], block: Block) -> None:
    assert block.steps is not None
    counts = np.bincount(np.clip(block.steps, -REACH, REACH) + REACH, block.count)
    steps.update({int(at) - REACH: int(counts[at]) for at in np.flatnonzero(counts) if at != REACH})


def _make_step_bars(steps: Counter[int]) -> tuple[list[tuple[str, int]], int]:
    """Returns the most frequent differences in ascending order, each with its number of elements, and the number of
    elements with other differences."""
    shown = sorted(steps.most_common(BARS))
    names = {-REACH: f"<={-REACH}", REACH: f">={REACH}"}
    return [(names.get(lsb, f"{lsb:+d}"), n) for lsb, n in shown], steps.total() - sum(n for _, n in shown)


def _make_real_bars(counts: npt.NDArray[np.int64], span: Span) -> tuple[list[tuple[str, int]], int]:
    if not span.known or not counts.any():
        return [], 0
    shares = [(at + 0.5) / len(counts) for at in range(len(counts))]
    names = (f"{span.low * (1 - share) + span.high * share:+.3g}" for share in shares)
    return [(name, int(n)) for name, n in zip(names, counts, strict=True)], 0


def _make_value_histogram(
    values: PairedValues, span: Span, bins: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]], equal: bool
) -> ValueHistogram:
    limits = compute_quantized_range(values.spec_a)
    sides = ((values.a, values.spec_a), (values.b, values.spec_b))
    clipped = [count_at_ends(value) if compute_quantized_range(spec) else None for value, spec in sides]
    return ValueHistogram(span.low, span.high, bins[0], None if equal else bins[1], limits, clipped[0], clipped[1])


def compute_quantized_range(spec: TensorSpec) -> tuple[float, float] | None:
    """Returns the smallest and the largest real value that a tensor with one scale and at most 16 bits can represent,
    or None for other tensors."""
    if len(spec.scale) != 1 or spec.numpy_dtype.kind not in "iu" or spec.numpy_dtype.itemsize > 2:
        return None
    limits, zero, scale = np.iinfo(spec.dtype), spec.zero_point[0] if spec.zero_point else 0, float(spec.scale[0])
    return (int(limits.min) - zero) * scale, (int(limits.max) - zero) * scale


def count_at_ends(value: Array) -> tuple[int, int]:
    """Returns how many elements of an integer tensor have the smallest, and how many the largest value of its type."""
    limits = np.iinfo(value.dtype.name)
    return int(np.count_nonzero(value == limits.min)), int(np.count_nonzero(value == limits.max))


def _find_first_differences(a: Array, b: Array) -> Iterator[DifferingElement]:
    """Yields the first elements that differ, in stored order. NaN on both sides is no difference."""
    flat_a, flat_b, remaining = a.reshape(-1), b.reshape(-1), FIRST
    for start in range(0, flat_a.size, FLOAT_BLOCK):
        part_a, part_b = flat_a[start : start + FLOAT_BLOCK], flat_b[start : start + FLOAT_BLOCK]
        unlike = part_a != part_b
        if part_a.dtype.kind == part_b.dtype.kind == "f":
            unlike &= ~(np.isnan(part_a) & np.isnan(part_b))
        for at in np.flatnonzero(unlike)[:remaining]:
            index = tuple(int(i) for i in np.unravel_index(start + at, a.shape))
            yield DifferingElement(index, part_a[at].item(), part_b[at].item())
            remaining -= 1
        if not remaining:
            return
