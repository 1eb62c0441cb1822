"""Measures the error of two tensors channel by channel, in blocks of bounded size, and keeps a bounded part of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from math import prod

import numpy as np
import numpy.typing as npt

from qverify.compare.channel_metrics import ChannelContext, ChannelPart, Numbers, make_channel_measures
from qverify.compare.paired_values import FLOAT_BLOCK, PairedValues
from qverify.report.channels import BLOCKS, WORST, ChannelError, ChannelErrors, ChannelNumber
from qverify.tensors.spec import TensorSpec

MAX_CHANNELS = 1 << 16  # of a tensor whose channels are measured; an axis of more is none of channels


def measure_channels(values: PairedValues, axis: int, fewest: int = 2) -> ChannelErrors | None:
    """Returns the errors by channel of two tensors of one shape, of which the report holds at most BLOCKS blocks and the
    WORST channels; None if they have fewer than `fewest` channels or more than MAX_CHANNELS, or no elements. axis: of the
    channels. The memory that is used does not grow with the tensors but by two numbers per channel and metric."""
    shape = values.a.shape
    if not 0 <= axis < len(shape) or not fewest <= shape[axis] <= MAX_CHANNELS or not values.a.size:
        return None
    channels = shape[axis]
    dtypes = (_integer_type(values.a.dtype, values.spec_a), _integer_type(values.b.dtype, values.spec_b))
    context = ChannelContext(channels, values.a.size // channels, values.integers, dtypes)
    measures = make_channel_measures(context)
    for part in _iterate_parts(values, channels, prod(shape[axis + 1 :])):
        for measure in measures.values():
            measure.add(part)
    results = {name: measure.result() for name, measure in measures.items()}
    return _keep(axis, channels, results)


def _integer_type(dtype: np.dtype[np.generic], spec: TensorSpec) -> np.dtype[np.generic] | None:
    return dtype if spec.scale and dtype.kind in "iu" else None


def _iterate_parts(values: PairedValues, channels: int, inner: int) -> Iterator[ChannelPart]:
    """Yields the elements in stored order. inner: number of elements of a channel that lie side by side."""
    flat_a, flat_b = values.a.reshape(-1), values.b.reshape(-1)
    for start in range(0, flat_a.size, FLOAT_BLOCK):
        part_a, part_b = flat_a[start : start + FLOAT_BLOCK], flat_b[start : start + FLOAT_BLOCK]
        all_channels = np.arange(start, start + part_a.size, dtype=np.int64) // inner % channels
        unlike = np.flatnonzero(part_a != part_b) if values.integers else np.arange(part_a.size)
        block = values.select(start + unlike)
        yield ChannelPart(all_channels[unlike], block, all_channels, part_a, part_b)


def _keep(axis: int, channels: int, results: Mapping[str, Numbers | None]) -> ChannelErrors:
    """Returns what the report holds of the numbers of all channels."""
    squared, largest = results["squared_error"], results["max_abs"]
    assert squared is not None and largest is not None
    width = -(-channels // BLOCKS)
    starts = np.arange(0, channels, width)
    total = float(squared.sum())
    shares = squared / total if math.isfinite(total) and total > 0 else None
    order = np.lexsort((np.arange(channels), -largest, -squared))[:WORST]
    worst = [
        ChannelError(
            int(at),
            None if shares is None else float(shares[at]),
            {name: _number(of_all[at]) for name, of_all in results.items() if of_all is not None}
            | {name: None for name, of_all in results.items() if of_all is None},
        )
        for at in order
        if largest[at] != 0
    ]
    by_block = [] if shares is None else [float(x) for x in np.add.reduceat(shares, starts)]
    by_largest = [float(x) for x in np.maximum.reduceat(largest, starts)]
    clipped = results["clipped_b"]
    most_clipped = None if clipped is None else float(clipped.max())
    return ChannelErrors(axis, channels, width, by_block, by_largest, worst, most_clipped)


def _number(value: npt.NDArray[np.generic]) -> ChannelNumber:
    number = value.item()
    return number if isinstance(number, int) else float(number)
