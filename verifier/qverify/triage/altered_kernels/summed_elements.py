"""Output elements of a linear op or average pool with everything from which they are computed, and a fast way to find
the faults that fit them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify import ops
from qverify.arithmetic.linear import is_wide
from qverify.arithmetic.requantize import requantize
from qverify.triage.altered_kernels.summands import Summands, depth, summands
from qverify.triage.altered_kernels.text_priors import prior
from qverify.triage.case import Case
from qverify.triage.fault import DOES_NOT_FIT
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS, Linear, linear

Array = npt.NDArray[Any]
SUMMED_OPS = (*LINEAR_OPS, "average_pool")  # ops whose elements are sums
LONG_SUM = 2000  # summands
SAMPLE_SIZE, SAMPLE_SIZE_LONG = 40, 16  # differing elements at which faults are tried; the second for long sums
MORE_ELEMENTS = 4000  # at which a fault that fits the sample is tried next
MAX_IN_PART = 12  # faults of one list that give the differing elements and spoil others
LATER_TEXT_BITS = 0.5  # of a further text for a fault that has several at a node
CHUNK_SUMMANDS = 1 << 19  # computed at a time
MAX_SUMMANDS = 120_000_000  # of a whole output; more take too long
BIASED = ("conv", "conv_transpose", "fully_connected")


def clipped(values: Array, low: int, high: int) -> Array:
    """Returns the values limited to low..high. For a few elements, at which thousands of faults are tried, np.clip
    takes several times as long."""
    return np.asarray(np.minimum(np.maximum(values, low), high))


class SummedElements:
    """Output elements at flat indices, with everything from which they are computed. All arrays have one value per
    element. sums: the whole node's accumulator and requantization."""

    def __init__(self, case: Case, places: Array):
        self.case, self.places = case, places
        sums = requantization(case)
        assert sums is not None
        self.sums: Linear = sums

    @cached_property
    def acc(self) -> Array:
        """The exact sum, with the bias."""
        return self.sums.acc.reshape(-1)[self.places]

    @cached_property
    def recorded(self) -> Array:
        """The recorded values."""
        return self.case.recorded.reshape(-1)[self.places]

    @cached_property
    def channel(self) -> Array:
        """The output channel, which determines bias and scale."""
        return np.unravel_index(self.places, self.case.spec.shape)[self.sums.axis]

    @cached_property
    def bias(self) -> Array:
        """The bias; 0 if there is none."""
        return bias_of(self.case)[self.channel if len(bias_of(self.case)) > 1 else 0 * self.channel]

    @property
    def channels(self) -> int:
        """The number of output channels."""
        return int(self.case.spec.shape[self.sums.axis])

    def scale_of(self, channel: Array) -> Array:
        """Returns the output steps per unit of the sum for these channels, in the stored float type, or in float64 in
        an integer rounding mode."""
        values = self.sums.rq if self.sums.rq.ndim == 1 else self.sums.real
        return values[channel if len(values) > 1 else 0 * channel]

    @cached_property
    def scale(self) -> Array:
        """The output steps per unit of the sum."""
        return self.scale_of(self.channel)

    @cached_property
    def summands(self) -> Summands:
        """The summands of each element."""
        elements = summands(self.case, self.places)
        assert elements is not None
        return elements

    def steps(self, acc: Array, scale: Array | None = None) -> Array:
        """Returns the output in steps before it is rounded, in the dtype of the scale."""
        scale = self.scale if scale is None else scale
        return acc.astype(scale.dtype) * scale

    def finished(self, steps: Array) -> Array:
        """Returns the output from whole steps: adds the zero point and clips."""
        sums = self.sums
        return clipped(steps + sums.zero_point, sums.low, sums.high).astype(sums.dtype)

    def rounded(self, steps: Array, rule: Callable[[Array], Array] = np.rint) -> Array:
        """Returns the output from real steps: rounds them by the rule and adds the zero point where this op does."""
        sums = self.sums
        if self.case.last.op == "mul" and steps.dtype == np.float32:
            value = rule(steps + np.float32(sums.zero_point))
            return clipped(value, sums.low, sums.high).astype(sums.dtype)
        return self.finished(rule(steps))

    def requantized(self, acc: Array, channel: Array | None = None) -> Array:
        """Returns the output requantized from another sum, or with another channel's scale, in the same way as the
        model. acc: [S], or several sums of each element [..., S]."""
        channel, sums = self.channel if channel is None else channel, self.sums
        if sums.rq.ndim == 1:
            return self.rounded(self.steps(acc, self.scale_of(channel)))
        rq = sums.rq[:, channel if sums.rq.shape[1] > 1 else 0 * channel]
        return requantize(
            acc, rq, sums.zero_point, sums.low, sums.high, sums.dtype, sums.rounding, sums.wide, acc.ndim - 1
        )

    def added(self, products: Array) -> Array:
        """Returns the output computed from other products, which have up to four axes; the bias is added to their
        sum."""
        return self.requantized(products.reshape(len(products), -1).sum(1) + self.bias)


class PooledElements(SummedElements):
    """Output elements of an average_pool, each with its own divisor."""

    @cached_property
    def acc(self) -> Array:
        """The exact sum, which has no bias."""
        products = self.summands.products
        return products.reshape(len(products), -1).sum(1)

    @cached_property
    def divisor(self) -> Array:
        """The number of elements by which the mean divides."""
        read, words = self.summands.read, words_of(self.case)
        count = np.broadcast_to(read.reshape(len(read), -1), (len(self.places), read[0].size)).sum(1)
        return np.full_like(count, read[0].size) if words["count_include_pad"] else np.maximum(count, 1)

    def requantized(self, acc: Array, channel: Array | None = None) -> Array:
        """Returns the output computed from another sum, [S] or [..., S]."""
        rq = self.sums.rq
        if rq.dtype == np.float32:
            return self.mean(rq[0] * acc.astype(np.float32), self.divisor)
        if rq.dtype == np.float64 and rq.ndim == 1:
            return self.finished(np.rint(acc.astype(np.float64) * rq[0] / self.divisor))
        at, sums = self.divisor - 1, self.sums
        return requantize(
            acc, rq[:, at], sums.zero_point, sums.low, sums.high, sums.dtype, sums.rounding, sums.wide, acc.ndim - 1
        )

    def added(self, products: Array) -> Array:
        """Returns the output computed from other products, which are added one by one as in the model."""
        flat = products.reshape(len(products), -1)
        if self.sums.rq.dtype != np.float32:
            return self.requantized(flat.sum(1))
        real = np.add.accumulate(self.sums.rq[0] * flat.astype(np.float32), 1, dtype=np.float32)[:, -1]
        return self.mean(real, self.divisor)

    def mean(self, real: Array, divisor: Array) -> Array:
        """Returns the output computed from a real sum in float32."""
        sums = self.sums
        value = np.rint(real / divisor.astype(np.float32) / sums.rq[1] + np.float32(sums.zero_point))
        return np.clip(value, sums.low, sums.high).astype(sums.dtype)


def as_pooled(e: SummedElements) -> PooledElements:
    """Returns the elements of an average_pool, as which they are known."""
    assert isinstance(e, PooledElements)
    return e


Way = Callable[[SummedElements], Array]  # computes the elements with a fault


def requantization(case: Case) -> Linear | None:
    """Returns the last node's accumulator and requantization, or only the requantization of an average_pool."""
    if case.last.op != "average_pool":
        return linear(case)
    return case.compute_once("pool requantization", lambda: _pool_requantization(case))


def _pool_requantization(case: Case) -> Linear:
    node, graph, y = case.last, case.graph, case.spec
    x = graph.spec(node.inputs[0] or "")
    real = np.array([np.float64(x.scale[0]) / np.float64(y.scale[0])])
    wide = is_wide(x.dtype, y.dtype)
    rq = graph.constants[node.inputs[1] or ""]
    low, high = node.words[-2:]
    return Linear(np.zeros(0), rq, real, y.zero_point[0], low, high, y.dtype, graph.rounding, wide, 1)


def elements(case: Case, places: Array) -> SummedElements:
    """Returns the elements at these flat indices."""
    return (PooledElements if case.last.op == "average_pool" else SummedElements)(case, places)


def bias_of(case: Case) -> Array:
    """Returns the bias, int64 [C], or [0] if there is none."""
    name = case.last.inputs[2] if case.last.op in BIASED else None
    return np.zeros(1, np.int64) if name is None else case.graph.constants[name].astype(np.int64)


def has_bias(case: Case) -> bool:
    """Returns whether the node has a bias that is not 0 everywhere."""
    return bool(bias_of(case).any())


def sample(case: Case) -> SummedElements | None:
    """Returns some of the differing elements, or None if the unit's last node is not linear."""
    return case.compute_once("sampled elements", lambda: _sample(case))


def _sample(case: Case) -> SummedElements | None:
    sums = requantization(case)
    if sums is None:
        return None
    flat, recorded = case.differing, case.recorded.reshape(-1)
    inside = flat[(recorded[flat] > sums.low) & (recorded[flat] < sums.high)]
    count = SAMPLE_SIZE_LONG if depth(case) > LONG_SUM else SAMPLE_SIZE
    chosen = inside if len(inside) >= count // 2 else flat
    return elements(case, np.unique(chosen[np.linspace(0, len(chosen) - 1, count).astype(np.int64)]))


SUMS_BITS = 4.0  # of choosing a fault of a sum; such faults are tried on a sample before they are yielded


def fitting(
    case: Case, ways: Iterable[tuple[str, Way]], in_parts: bool = False, bits: float | Callable[[str], float] = prior
) -> Iterator[FaultVariant]:
    """Yields the faults that give the recorded bytes at some of the differing elements. Of those that spoil other
    elements, which may be confined to a part of the output, only a few are yielded.

    Args:
        ways: pairs of a text and a function that computes elements with the fault.
        in_parts: whether the function reads the summands, which are too many for all elements at once.
        bits: bits of each variant in addition to SUMS_BITS, or a function that returns them for the text.
    """
    yield from fitting_alike(case, (([text], way) for text, way in ways), in_parts, bits)


def fitting_alike(
    case: Case,
    ways: Iterable[tuple[list[str], Way]],
    in_parts: bool = False,
    bits: float | Callable[[str], float] = prior,
) -> Iterator[FaultVariant]:
    """Yields the same as fitting, for functions that have several texts each: faults that are the same at this node,
    the most likely one first."""
    few = sample(case)
    if few is None or not len(few.places):
        return
    more = case.compute_once(f"more elements {in_parts}", lambda: _more(case, in_parts, case.differing))
    others = case.compute_once(
        f"other elements {in_parts}", lambda: _more(case, in_parts, np.arange(case.recorded.size))
    )
    parts = list[FaultVariant]()
    for texts, way in ways:
        case.count_tried(len(texts), texts)
        if _agree(few, way) and _agree(more, way):
            make = partial(_compute_whole_once if len(texts) > 1 else whole, way=way, in_parts=in_parts)
            variants = [
                FaultVariant(
                    text,
                    make,
                    SUMS_BITS + (bits if isinstance(bits, float) else bits(text)) + LATER_TEXT_BITS * min(at, 1),
                )
                for at, text in enumerate(texts)
            ]
            if _agree(others, way):
                yield from variants
            else:
                parts += variants
    yield from sorted(parts, key=lambda variant: variant.bits)[:MAX_IN_PART]


def _more(case: Case, in_parts: bool, flat: Array) -> SummedElements:
    """Returns many of these elements, at which a fault that fits the sample is tried next."""
    count = max(1, min(MORE_ELEMENTS, CHUNK_SUMMANDS // depth(case))) if in_parts else MORE_ELEMENTS
    return elements(case, np.unique(flat[np.linspace(0, len(flat) - 1, count).astype(np.int64)]))


def _agree(e: SummedElements, way: Way) -> bool:
    try:
        return bool((way(e) == e.recorded).all())
    except DOES_NOT_FIT:  # this unit cannot have this fault
        return False


def at_touched(e: SummedElements, touched: Array, way: Way) -> Array:
    """Returns the healthy output, in which the touched elements are computed by the way."""
    output = np.ascontiguousarray(e.case.healthy).reshape(-1)[e.places]
    if touched.any():
        output[touched] = way(elements(e.case, e.places[touched]))
    return output


def _compute_whole_once(case: Case, way: Way, in_parts: bool) -> Array:
    """Returns whole(), computed once for all faults of the same way."""
    # The way itself is cached, too, so that no other way can have its id.
    way_and_output = case.compute_once(f"whole {id(way)}", lambda: (way, whole(case, way, in_parts)))
    return np.asarray(way_and_output[1])


def whole(case: Case, way: Way, in_parts: bool) -> Array:
    """Returns the whole output, in which every element is computed by the way."""
    size = case.recorded.size
    step = max(1, CHUNK_SUMMANDS // depth(case)) if in_parts else size
    if in_parts and size * depth(case) > MAX_SUMMANDS:
        raise ValueError("too many summands")
    parts = [way(elements(case, np.arange(i, min(i + step, size)))) for i in range(0, size, step)]
    return np.concatenate(parts).astype(case.spec.numpy_dtype).reshape(case.spec.shape)


def words_of(case: Case) -> dict[str, int]:
    """Returns the words of the last node by name."""
    return ops.words(case.last)
